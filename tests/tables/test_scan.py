"""A scan gives the rows of the Spark source, as an Arrow stream that is read again and again."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ottla
from builders import Row, batch
from jobs.topics import Written, write_partition
from ottla.catalog.slices import plan_tasks
from ottla.jobs.read import ordered
from ottla.options.read import for_batch, parse_read_options
from ottla.spark.reader import read_task
from ottla.spark.schema import arrow_schema, schema_of

MODES = ["FAILFAST", "DROPMALFORMED", "PERMISSIVE"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every magic, every codec, transactions, and in partition 3 damage."""
    folder = tmp_path_factory.mktemp("scan") / "logs"
    for number in range(4):
        write_partition(folder / f"orders-{number}", seed=number, indexes=number % 2 == 0)
    write_partition(folder / "payments-0", seed=9)
    damaged = sorted((folder / "orders-3").glob("*.log"))[1]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 0xFF
    damaged.write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Written]:
    """What was written, by those who wrote it."""
    folder = tmp_path_factory.mktemp("again")
    return [
        write_partition(folder / f"orders-{number}", seed=number, indexes=number % 2 == 0)
        for number in range(3)
    ]


def by_spark(logs: Path, **given: str) -> pa.Table:
    """What Spark's workers would give, task after task."""
    texts = {"path": str(logs), "includeheaders": "true", **given}
    options = for_batch(parse_read_options(texts))
    target = arrow_schema(schema_of(options))
    tasks = [*plan_tasks(options)]
    batches = [each for task in tasks for each in read_task(task, options, target)]
    return pa.Table.from_batches(batches, target)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("slice_bytes", [300, 4 << 20])
def test_a_scan_gives_the_rows_of_the_spark_source(
    logs: Path, isolation: str, mode: str, slice_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.tables.scan.SLICE_BYTES", slice_bytes)
    found = ottla.open(logs).scan("orders", isolation=isolation, mode=mode).to_arrow()
    # Where a row about damage stands among those around it depends on how slices are cut.
    given = {"kafka.isolation.level": isolation, "splitbytes": str(slice_bytes)}
    expected = by_spark(logs, subscribe="orders", mode=mode, **given)
    assert found.schema == expected.schema
    assert found.equals(expected)
    assert found.num_rows > 1000


def test_a_scan_gives_what_was_written(logs: Path, written: list[Written]) -> None:
    scan = ottla.open(logs).scan("orders", partitions=[0, 1, 2], isolation="read_committed")
    rows = scan.to_arrow().to_pylist()
    expected = [(part.partition, row) for part in written for row in part.committed()]
    assert [(row["partition"], row["offset"]) for row in rows] == [
        (number, row.offset) for number, row in expected
    ]
    for row, (_, made) in zip(rows, expected, strict=True):
        assert (row["topic"], row["key"], row["value"]) == ("orders", made.key, made.value)
        assert row["timestamp"] == datetime.fromtimestamp(made.timestamp / 1000, UTC)
        headers = row["headers"] and [(each["key"], each["value"]) for each in row["headers"]]
        assert headers == ([(key.decode(), value) for key, value in made.headers] or None)


def test_a_broken_batch_stops_a_scan_with_advice(logs: Path) -> None:
    scan = ottla.open(logs).scan("orders")
    with pytest.raises(ottla.CorruptLogError) as found:
        scan.to_arrow()
    assert "DROPMALFORMED" in found.value.__notes__[0]
    with pytest.raises(ottla.CorruptLogError) as again:
        scan.count()
    assert str(again.value) == str(found.value)
    violations = ottla.open(logs).violations("orders").to_arrow()
    assert str(found.value.violation.rule) in violations["rule"].to_pylist()


def test_the_stream_begins_anew_and_its_schema_reads_nothing(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = ottla.open(logs).scan("payments")
    first = scan.to_arrow()
    assert pa.table(scan).equals(pa.table(scan))
    assert pa.table(scan).combine_chunks().equals(first.combine_chunks())
    assert scan.to_reader().read_all().num_rows == scan.count() == first.num_rows
    assert sum(each.num_rows for each in scan) == first.num_rows

    def read_nothing(*_: object, **__: object) -> Iterator[pa.RecordBatch]:
        raise AssertionError

    monkeypatch.setattr("ottla.tables.scan.read_rows", read_nothing)
    monkeypatch.setattr("ottla.tables.scan.plan_slices", read_nothing)
    assert pa.schema(scan.to_reader().schema) == scan.schema == first.schema


def test_head_reads_no_more_than_it_gives(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ottla.open(logs)
    whole = log.scan("orders", mode="DROPMALFORMED").to_arrow()
    real, parts = ottla.tables.scan.read_rows, list[str]()

    def remember(part: Any, **given: Any) -> Iterator[pa.RecordBatch]:
        parts.append(part.log.path)
        return real(part, **given)

    monkeypatch.setattr("ottla.tables.scan.read_rows", remember)
    scan = log.scan("orders", mode="DROPMALFORMED")
    assert scan.head(3).equals(whole.slice(0, 3).combine_chunks())
    assert len(parts) == 1
    assert scan.head(0).num_rows == 0
    assert scan.head(10**9).num_rows == whole.num_rows
    with pytest.raises(ottla.OptionError, match="0 or more"):
        scan.head(-1)


@pytest.mark.parametrize(
    ("start", "end", "offsets"),
    [
        pytest.param(2, None, [2, 3, 4, 5], id="offset"),
        pytest.param(None, 2, [0, 1], id="end is exclusive"),
        pytest.param("@1700000002000", None, [2, 3, 4, 5], id="milliseconds"),
        pytest.param("2023-11-14T22:13:22Z", "2023-11-14T22:13:24", [2, 3], id="times"),
        pytest.param(datetime(2023, 11, 14, 22, 13, 23, tzinfo=UTC), 5, [3, 4], id="datetime"),
        pytest.param({0: 4}, None, [4, 5], id="by partition"),
        pytest.param({0: "2023-11-14T22:13:24Z"}, {0: 5}, [4], id="time by partition"),
        pytest.param({7: 4}, None, [0, 1, 2, 3, 4, 5], id="another partition"),
        pytest.param(100, None, [], id="past the end"),
        pytest.param(5, 2, [], id="nothing between"),
    ],
)
def test_limits_are_offsets_or_times(
    tmp_path: Path, start: Any, end: Any, offsets: list[int]
) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    rows = [Row(number, 1_700_000_000_000 + number * 1000) for number in range(6)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(batch([row]) for row in rows))
    scan = ottla.open(tmp_path).scan("orders", start=start, end=end, columns=["offset"])
    assert scan.to_arrow()["offset"].to_pylist() == offsets
    assert scan.count() == len(offsets)


def test_a_predicate_is_a_text_or_an_expression(logs: Path) -> None:
    log = ottla.open(logs)
    whole = log.scan("orders", mode="DROPMALFORMED").to_arrow()
    text = "key = 'key-3' and offset < 400"
    expression = (pc.field("key") == b"key-3") & (pc.field("offset") < 400)
    expected = whole.filter(expression)
    assert expected.num_rows > 3
    for where in (text, expression):
        scan = log.scan("orders", where=where, mode="DROPMALFORMED")
        assert scan.to_arrow().combine_chunks().equals(expected.combine_chunks())
        assert scan.count() == expected.num_rows
        narrow = log.scan("orders", where=where, mode="DROPMALFORMED", columns=["value"])
        assert narrow.to_arrow()["value"].to_pylist() == expected["value"].to_pylist()


def test_values_are_text_or_json_where_they_are_such(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    values = [b'{"a": 1}', b"plain", b"\xff\xfe", None, b"[1]"]
    rows = [Row(number, key=b"k", value=value) for number, value in enumerate(values)]
    (folder / f"{0:020d}.log").write_bytes(batch(rows))
    log = ottla.open(tmp_path)
    texts = log.scan("orders", value_as="utf8", key_as="utf8").to_arrow()
    assert texts["value"].to_pylist() == ['{"a": 1}', "plain", None, None, "[1]"]
    assert texts["valueRaw"].to_pylist() == [None, None, b"\xff\xfe", None, None]
    assert texts["key"].to_pylist() == ["k"] * 5
    parsed = log.scan("orders", value_as="json").to_arrow()
    assert parsed.schema.field("value").type == pa.json_(pa.string())
    assert parsed["value"].to_pylist() == ['{"a": 1}', None, None, None, "[1]"]
    assert parsed["valueRaw"].to_pylist() == [None, b"plain", b"\xff\xfe", None, None]
    alone = log.scan("orders", value_as="json", columns=["valueRaw", "offset"]).to_arrow()
    assert alone.column_names == ["valueRaw", "offset"]
    assert alone["valueRaw"].equals(parsed["valueRaw"])


def test_raw_rows_keep_the_numbers_of_kafka(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    times = [-1, 5, 2**62]  # the last has no room in microseconds
    rows = [Row(number, time) for number, time in enumerate(times)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(batch([row]) for row in rows))
    log = ottla.open(tmp_path)
    raw = log.scan("orders", raw=True, columns=["timestamp"]).to_arrow()
    assert raw.schema.field("timestamp").type == pa.int64()
    assert raw["timestamp"].to_pylist() == times
    with pytest.raises(ottla.CorruptLogError, match="timestamp-range"):
        log.scan("orders").to_arrow()
    shown = log.scan("orders", mode="DROPMALFORMED").to_arrow()
    assert shown["timestamp"].to_pylist() == [
        datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
        datetime(1970, 1, 1, 0, 0, 0, 5000, UTC),
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"columns": ["offest"]}, "did you mean offset"),
        ({"isolation": "committed"}, "read_committed"),
        ({"mode": "strict"}, "FAILFAST"),
        ({"value_as": "avro"}, "there is no partition of _schemas"),
        ({"value_as": "xml"}, "binary, utf8, json"),
        ({"start": -1}, "0 or more"),
        ({"where": "offset <"}, "where"),
        ({"where": 5}, "neither a text nor"),
        ({"start": "soon"}, "is not a time such as"),
        ({"start": {0: 1, 1: "2025-10-09"}}, "not both"),
    ],
)
def test_what_makes_no_sense_is_said_at_once(logs: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ottla.OptionError, match=said):
        ottla.open(logs).scan("orders", **given)


def test_a_topic_that_is_not_there_is_named_when_rows_are_asked_for(logs: Path) -> None:
    with pytest.raises(ottla.OptionError, match="did you mean orders"):
        ottla.open(logs).scan("order").to_arrow()


def test_storage_options_are_no_place_for_secrets(logs: Path) -> None:
    with pytest.raises(ottla.OptionError, match="looks like a secret"):
        ottla.open(logs, secret_key="x")
    with pytest.raises(ottla.OptionError, match="did you mean endpoint"):
        ottla.open(logs, endpint="x")


def test_a_path_is_a_directory_a_partition_a_segment_or_several(logs: Path) -> None:
    whole = ottla.open(logs).scan("payments").to_arrow()
    partition = logs / "payments-0"
    assert ottla.open(partition).scan().to_arrow().equals(whole)
    segments = sorted(partition.glob("*.log"))
    counts = [ottla.open(str(path)).scan().count() for path in segments]
    assert sum(counts) == whole.num_rows
    several = ottla.open([partition, logs / "orders-0"])
    assert several.scan("payments").count() == whole.num_rows
    (logs.parent / "nothing").mkdir()
    with pytest.raises(ottla.OptionError, match="an empty directory"):
        ottla.open(logs.parent / "nothing")


def test_the_repr_says_how_many_transactions_were_aborted(logs: Path) -> None:
    log = ottla.open(logs)
    entries = sum(path.stat().st_size // 34 for path in logs.glob("orders-*/*.txnindex"))
    assert entries > 0
    assert f"{entries} aborted transactions" in repr(log.scan("orders"))
    assert "aborted" not in repr(log.scan("orders", isolation="read_committed"))
    assert "timestamp[us, tz=UTC]" in repr(log.scan("orders"))
    assert "<td>timestamp[us, tz=UTC]</td>" in log.scan("orders")._repr_html_()


def test_a_directory_is_not_read_as_a_segment(logs: Path) -> None:
    with pytest.raises(ottla.OptionError, match=r"ottla\.open"):
        next(ottla.read_segment(logs))
    with pytest.raises(ottla.OptionError, match=r"ottla\.open"):
        next(ottla.read_batches(str(logs)))


def test_batches_come_in_order_whatever_slices_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of many sizes, one of them broken in its middle."""
    monkeypatch.setattr(ordered, "_WAITING_BATCHES", 2)

    def read(number: int) -> Iterator[pa.RecordBatch]:
        for at in range(number % 5):
            yield pa.RecordBatch.from_pydict({"n": [number * 10 + at]})
        if number == 17:
            raise ValueError(number)

    given: list[int] = []

    def take() -> None:
        for each in ordered.read_in_order(iter(range(30)), read, 3):  # type: ignore[arg-type]
            given.extend(each["n"].to_pylist())

    with pytest.raises(ValueError, match="17"):
        take()
    assert given == [number * 10 + at for number in range(18) for at in range(number % 5)]


def test_names_of_the_package_are_those_that_it_offers() -> None:
    assert dir(ottla) == sorted(ottla.__all__)
    assert all(hasattr(ottla, name) for name in ottla.__all__)
    assert "TYPE_CHECKING" not in dir(ottla)
    assert json.dumps(ottla.Codec.ZSTD) == "4"


def test_a_topic_whose_name_is_not_utf8_is_shown(tmp_path: Path) -> None:
    """The name of a directory is bytes; a column of texts has no place for some of them."""
    odd = b"\xff".decode("utf-8", "surrogateescape")
    folder = tmp_path / f"{odd}-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(batch([Row(0, 1000, b"k", b"v")]))
    log = ottla.open(tmp_path)
    for where in (None, pc.field("topic") == "\\udcff"):
        assert log.scan(where=where).to_arrow()["topic"].to_pylist() == ["\\udcff"]


def test_raw_values_are_given_without_the_values(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    rows = [Row(0, 1000, b"k", b"{}"), Row(1, 1000, b"k", b"no json")]
    (folder / f"{0:020d}.log").write_bytes(batch(rows))
    given = {"valueas": "json"}
    options = for_batch(parse_read_options({"path": str(tmp_path), **given}))
    target = pa.schema([pa.field("offset", pa.int64()), pa.field("valueRaw", pa.binary())])
    (task,) = plan_tasks(options)
    (found,) = read_task(task, options, target)  # as Spark's workers do
    assert found.to_pydict() == {"offset": [0, 1], "valueRaw": [None, b"no json"]}
    scan = ottla.open(tmp_path).scan(columns=["valueRaw"], value_as="json")
    assert scan.to_arrow().to_pydict() == {"valueRaw": [None, b"no json"]}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"columns": []}, id="no column"),
        pytest.param({"columns": "offset"}, id="a text of columns"),
        pytest.param({"start": 3.5}, id="half an offset"),
        pytest.param({"where": pc.field("offset") + 1}, id="no boolean"),
    ],
)
def test_what_can_not_be_meant_is_refused(logs: Path, given: dict[str, Any]) -> None:
    with pytest.raises(ottla.OptionError):
        ottla.open(logs).scan("payments", **given).to_arrow()


def test_a_time_between_milliseconds_begins_with_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    rows = [Row(n, 1000 + n, b"k", b"v") for n in range(10)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(batch([row]) for row in rows))
    between = datetime(1970, 1, 1, 0, 0, 1, 4400, tzinfo=UTC)
    log = ottla.open(tmp_path)
    assert log.scan(end=between).to_arrow()["offset"].to_pylist() == [0, 1, 2, 3, 4]
    assert log.scan(start=between).to_arrow()["offset"].to_pylist() == [5, 6, 7, 8, 9]


def test_spark_is_given_no_limits_of_a_file_without_a_topic(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(batch([Row(0, 1000, b"k", b"v")]))
    scan = ottla.open(tmp_path / f"{0:020d}.log").scan(start=0)
    assert scan.count() == 1
    with pytest.raises(ottla.OptionError, match="the folder of a file names none"):
        scan.to_spark()
