"""What `ottla.open` gives: the listing, the questions and the jobs are those of the commands."""

import json
import pydoc
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ottla
from builders import Row, batch
from cli.command import run
from jobs.plain import records_of, tree
from jobs.topics import write_partition
from ottla.jobs.demo import make_logs


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "kafka-logs"
    make_logs(str(folder))
    return folder


@pytest.fixture
def log(demo: Path) -> ottla.Log:
    return ottla.open(demo)


def lines(*words: object) -> list[dict[str, Any]]:
    """What a command says to programs."""
    return run(*words, "--json").lines


def test_topics_and_partitions_know_what_ls_knows(demo: Path, log: ottla.Log) -> None:
    rows = [line for line in lines("ls", demo) if line["type"] == "partition"]
    assert {row["topic"] for row in rows} == {*log.topics}
    for row in rows:
        part = log.topics[row["topic"]].partitions[row["partition"]]
        assert (part.bytes, part.batches) == (row["bytes"], row["batches"])
        assert (part.segments, part.records) == (row["segments"], row["records"])
        assert part.offsets[-1] == row["lastOffset"]
        assert part.offsets[0] == (row["firstOffset"] or 0)
        assert (part.codecs, part.magics) == (row["codecs"], row["magics"])
        assert [each.as_row() for each in part.problems] == row["problems"]
        assert part.path == row["path"]
    assert "orders-1" in repr(log.topics["orders"].partitions[1])
    assert "partitions 0, 1, 2" in repr(log.topics["orders"])


def test_an_empty_partition_has_no_offsets(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{7:020d}.log").write_bytes(b"")
    part = ottla.open(tmp_path).topics["orders"].partitions[0]
    assert part.offsets == range(7, 7)
    assert part.times == (None, None)


def test_the_repr_is_a_table_of_topics(demo: Path, log: ottla.Log) -> None:
    shown = repr(log).splitlines()
    assert shown[0].startswith(f"{demo}: 9 partitions, ")
    assert shown[1].split() == ["TOPIC", "PARTITIONS", "RECORDS", "SIZE", "TIMES", "(UTC)"]
    (orders,) = [line for line in shown if line.startswith("orders ")]
    assert orders.split()[1:3] == ["3", "30,618"]
    assert orders.endswith("2025-10-09 08:53 to 09:00")
    assert all(len(line) <= 80 for line in shown[1:])


def test_names_in_a_notebook_are_text(tmp_path: Path) -> None:
    folder = tmp_path / "<script>x"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(batch([Row(0, 5, value=b"<b>")]))
    log = ottla.open(tmp_path)
    assert "<script>" not in log._repr_html_()
    assert "&lt;script&gt;" in log._repr_html_()
    (folder / f"{0:020d}.log").write_bytes(b"\0" * 70 + batch([Row(0, 5)]))
    found = ottla.open(tmp_path).verify()
    assert len(found) > 0
    assert "<script>" not in found._repr_html_()
    assert "<table>" in found._repr_html_()


def test_two_replicas_are_shown_and_not_mixed(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_partition(tmp_path / name / "orders-0", seed=1, segments=1)
    log = ottla.open([tmp_path / "one", tmp_path / "other"])
    assert "orders" in repr(log)
    with pytest.raises(ottla.OptionError, match="two replicas"):
        _ = log.topics
    with pytest.raises(ottla.OptionError, match="two replicas"):
        log.scan("orders").count()


def test_verify_finds_what_the_command_finds(demo: Path, log: ottla.Log) -> None:
    told = lines("verify", demo, "--engine", "local")
    rows = [line for line in told if line.pop("type") == "violation"]
    found = log.verify()
    assert found.to_pylist() == rows
    assert not found.ok
    assert len(found) == len(rows) > 3
    accounts = [line for line in lines("verify", demo) if line["type"] == "account"]
    assert [row["readBytes"] for row in found.account] == [row["readBytes"] for row in accounts]
    assert log.verify("orders").ok
    assert log.verify("payments", quick=True).to_arrow().num_rows > 0


def test_transactions_are_those_of_the_command(demo: Path, log: ottla.Log) -> None:
    now = "2025-10-10T00:00:00Z"
    told = lines("transactions", demo, "--completed", "--now", f"@{now}")
    rows = [line for line in told if line["type"] != "partition"]
    found = log.transactions(now=datetime(2025, 10, 10, tzinfo=UTC))
    assert [(row["state"], row["producerId"], row["firstOffset"]) for row in found.to_pylist()] == [
        (row["type"], row["producerId"], row["firstOffset"]) for row in rows
    ]
    hanging = [row["firstOffset"] for row in rows if row.get("hanging")]
    assert [row["firstOffset"] for row in found.to_pylist() if row["hanging"]] == hanging != []
    assert found.schema.field("lastTimestamp").type == pa.timestamp("us", "UTC")


def test_groups_have_their_lag(demo: Path, log: ottla.Log) -> None:
    told = {
        (row["group"], row["topic"], row["partition"]): (row["offset"], row["lag"])
        for row in lines("groups", demo)
    }
    found = log.groups().to_pylist()
    assert (
        {
            (row["group"], row["topic"], row["partition"]): (row["offset"], row["lag"])
            for row in found
        }
        == told
        != {}
    )


def test_batches_and_violations_are_views(demo: Path, log: ottla.Log) -> None:
    batches = log.batches("orders").to_arrow()
    read = [ottla.read_batches(path) for path in sorted(demo.glob("orders-*/*.log"))]
    assert batches["crc"].to_pylist() == [
        crc for each in read for rows in each for crc in rows["crc"].to_pylist()
    ]
    (row,) = log.violations().to_arrow().to_pylist()
    assert (row["rule"], row["topic"]) == ("crc-matches", "payments")
    assert log.violations("orders").count() == 0


JOBS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "salvage": ({"topic": "payments"}, ["--topic", "payments"]),
    "convert": (
        {"topic": "orders", "codec": "zstd", "level": 9},
        ["--topic", "orders", "--codec", "zstd", "--level", "9"],
    ),
    "compact": (
        {"topic": "users", "now": datetime(2025, 10, 10, tzinfo=UTC)},
        ["--topic", "users", "--now", "@2025-10-10T00:00:00Z"],
    ),
    "restore": (
        {"topic": "orders", "start": 100, "end": "2025-10-09T08:57Z", "rename": {"orders": "old"}},
        [
            "--topic",
            "orders",
            "--from",
            "100",
            "--to",
            "@2025-10-09T08:57Z",
            "--rename",
            "orders=old",
        ],
    ),
    "export": (
        {"topic": "orders", "value_as": "json", "isolation": "read_committed"},
        ["--topic", "orders", "--value-as", "json", "--isolation-level", "read_committed"],
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_writes_what_the_command_writes(
    demo: Path, log: ottla.Log, tmp_path: Path, name: str
) -> None:
    given, flags = JOBS[name]
    account = getattr(log, name)(tmp_path / "by-method", **given)
    run(name, demo, tmp_path / "by-command", *flags, "--quiet")
    assert tree(tmp_path / "by-method") == tree(tmp_path / "by-command") != {}
    assert account.to_arrow().num_rows >= 1
    assert account.title == f"{name}: the account"
    assert sum(row["writtenRecords"] for row in account.to_pylist()) > 0
    assert account.ok is (name != "salvage")


def test_a_codec_is_a_member_or_a_name(log: ottla.Log, tmp_path: Path) -> None:
    log.convert(tmp_path / "one", "clicks", codec=ottla.Codec.LZ4, magic=2)
    log.convert(tmp_path / "other", "clicks", codec="LZ4", magic=2)
    assert tree(tmp_path / "one") == tree(tmp_path / "other")
    rows = pa.RecordBatch.from_pydict({"value": [b"tea" * 99]})
    sizes = {
        ottla.write_segment([rows], tmp_path / f"{number}.log", codec=codec)
        for number, codec in enumerate(("zstd", ottla.Codec.ZSTD))
    }
    assert len(sizes) == 1
    with pytest.raises(ottla.OptionError, match="choose one of none, gzip"):
        log.convert(tmp_path / "third", codec="brotli")


def test_a_job_refuses_to_write_into_what_it_reads(demo: Path, log: ottla.Log) -> None:
    before = tree(demo)
    with pytest.raises(ottla.OptionError, match="choose another OUT"):
        log.convert(demo / "inside", codec="zstd")
    with pytest.raises(ottla.CorruptLogError) as found:
        log.export(demo.parent / "exported", "payments")
    assert "DROPMALFORMED" in found.value.__notes__[0]
    assert tree(demo) == before


def test_errors_name_arguments_not_flags(demo: Path, tmp_path: Path) -> None:
    internal = tmp_path / "internal"
    shutil.copytree(demo / "__consumer_offsets-0", internal / "__consumer_offsets-0")
    with pytest.raises(ottla.OptionError) as found:
        ottla.open(internal).export(tmp_path / "out")
    assert "the topic" in str(found.value)
    assert "--" not in str(found.value)


def test_a_salvaged_copy_reads_as_what_was_intact(log: ottla.Log, tmp_path: Path) -> None:
    log.salvage(tmp_path / "out", "payments")
    again = ottla.open(tmp_path / "out")
    assert again.verify().ok
    intact = log.scan("payments", mode="DROPMALFORMED", columns=["offset"]).to_arrow()
    assert [row[0] for row in records_of(tmp_path / "out/payments-0")] == intact[
        "offset"
    ].to_pylist()


def test_an_export_has_the_rows_of_a_scan(log: ottla.Log, tmp_path: Path) -> None:
    log.export(tmp_path / "out", "orders", value_as="utf8", batch_columns=True)
    scan = log.scan("orders", partitions=[1], value_as="utf8")
    (path,) = (tmp_path / "out/topic=orders/partition=1").glob("*.parquet")
    written = pq.ParquetFile(path).read()
    found = scan.to_arrow()
    for name in ("key", "value", "valueRaw", "offset", "timestamp", "timestampType"):
        assert written[name].to_pylist() == found[name].to_pylist()
    assert written["headers"].to_pylist() == found["headers"].to_pylist()
    batch_columns = scan.select(["offset", "codec", "producerId", "file"]).to_arrow()
    assert written["codec"].to_pylist() == batch_columns["codec"].to_pylist()
    assert written["file"].to_pylist() == batch_columns["file"].to_pylist()


def test_help_tells_how_to_use_it() -> None:
    text = pydoc.plain(pydoc.render_doc(ottla))
    assert 'ottla.open("kafka-logs")' in text
    assert "read_segment" in text
    for name in ("open", "Log", "Scan"):
        assert getattr(ottla, name).__doc__


def test_a_result_is_an_arrow_stream_too(log: ottla.Log) -> None:
    found = log.verify("payments")
    assert pa.table(found).equals(found.to_arrow())
    assert found.to_pandas().shape == (len(found), len(found.schema))
    assert json.dumps(found.to_pylist())
    assert "and the columns" in repr(found)
    assert all(len(line) <= 80 for line in repr(found).splitlines()[:-1])
