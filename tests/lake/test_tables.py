"""Tables hold the records of the logs, as deltalake, pyiceberg and Polars read them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.expressions import EqualTo, GreaterThan
from pyiceberg.utils.config import Config

import naive
import ottla
from builders import Row, batch
from cli.here import run
from jobs.topics import COMMIT, TRANSACTIONAL, Written, marker, write_topic
from lake.readers import FORMATS, READERS, load_iceberg, read_table, records_of, written
from log.generated import write_partition
from ottla.errors import OptionError, PublishError

BY_DAY = "day(timestamp)"
every_format = pytest.mark.parametrize("form", FORMATS)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake") / "logs"


@pytest.fixture(scope="module")
def topic(logs: Path) -> list[Written]:
    """Every magic and codec, transactions, gaps."""
    return write_topic(logs, "orders", partitions=3)


@every_format
@pytest.mark.parametrize("columns", ["spark", "kafka"])
@pytest.mark.parametrize("by", ["partition", BY_DAY])
@pytest.mark.parametrize("reader", READERS)
def test_others_read_every_record_once(
    tmp_path: Path, logs: Path, topic: list[Written], form: str, columns: str, by: str, reader: str
) -> None:
    log = ottla.open(logs)
    half = topic[0].rows[len(topic[0].rows) // 2].offset
    for end in (half, None, None):
        log.export(tmp_path / "t", "orders", end=end, format=form, columns=columns, partition_by=by)
    assert records_of(READERS[reader](tmp_path / "t", form)) == written(topic)


@every_format
def test_only_committed_records(
    tmp_path: Path, logs: Path, topic: list[Written], form: str
) -> None:
    log = ottla.open(logs)
    for _ in range(2):
        log.export(tmp_path / "t", "orders", format=form, isolation="read_committed")
    assert records_of(read_table(tmp_path / "t", form)) == written(topic, committed=True)


@every_format
def test_what_was_open_is_added_when_it_is_committed(tmp_path: Path, form: str) -> None:
    opened = batch([Row(1)], attributes=TRANSACTIONAL, producer=(7, 0, 0))
    first = [batch([Row(0)]), opened]
    for data in (first, [*first, marker(2, 7, COMMIT, 6), batch([Row(3)])]):
        write_partition(tmp_path / "logs", "orders-0", 0, b"".join(data))
        log = ottla.open(tmp_path / "logs")
        log.export(tmp_path / "t", format=form, isolation="read_committed")
        offsets = [row[2] for row in records_of(read_table(tmp_path / "t", form))]
        assert offsets == ([0] if data is first else [0, 1, 3])


def test_columns_are_those_of_the_connector(
    tmp_path: Path, logs: Path, topic: list[Written]
) -> None:
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    for form in FORMATS:
        ottla.open(logs).export(tmp_path / form, "orders", format=form)
        assert read_table(tmp_path / form, form).schema.names == [*names, "headers"]


BATCH = {
    "batch_byte_offset": "position",
    "batch_magic": "magic",
    "batch_partition_leader_epoch": "partitionLeaderEpoch",
    "batch_producer_id": "producerId",
    "batch_producer_epoch": "producerEpoch",
    "batch_base_sequence": "baseSequence",
    "batch_max_timestamp": "maxTimestamp",
}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@every_format
def test_the_struct_tells_what_batches_say(tmp_path: Path, form: str) -> None:
    rows = [Row(at, 1000 + at, b"k", b"v") for at in range(6)]
    data = batch(rows[:3], codec=3, producer=(7, 2, 5)) + batch(rows[3:], codec=4)
    write_partition(tmp_path / "logs", "orders-0", 0, data)
    ottla.open(tmp_path / "logs").export(tmp_path / "t", format=form, columns="kafka")
    found = read_table(tmp_path / "t", form).sort_by("key").to_pylist()
    found.sort(key=lambda row: row["kafka"]["offset"])
    lines = naive.decode(data)
    batches = {line["position"]: line for line in lines if line["type"] == "batch"}
    records = [line for line in lines if line["type"] == "record"]
    for row, record in zip(found, records, strict=True):
        told, expected = row["kafka"], batches[record["position"]]
        assert {name: told[name] for name in BATCH} == {
            name: expected[theirs] for name, theirs in BATCH.items()
        }
        assert CODECS[told["batch_compression_type"]] == expected["codec"]
        assert told["batch_base_offset"] == expected["baseOffset"]
        assert (row["key"], row["key_raw"], row["value"]) == (b"k", None, b"v")


DAY_MS = 86_400_000
DAYS = [0, DAY_MS - 1, DAY_MS, -1, 20_000 * DAY_MS, 3 * DAY_MS]


@every_format
@pytest.mark.parametrize("columns", ["spark", "kafka"])
def test_files_are_cut_by_day(tmp_path: Path, form: str, columns: str) -> None:
    rows = [Row(at, time, b"k", b"v") for at, time in enumerate(DAYS)]
    write_partition(tmp_path / "logs", "orders-0", 0, batch(rows))
    log = ottla.open(tmp_path / "logs")
    log.export(tmp_path / "t", format=form, columns=columns, partition_by=BY_DAY)
    found = records_of(read_table(tmp_path / "t", form))
    assert [row[3] for row in found] == DAYS
    folders = {path.parent.name for path in (tmp_path / "t").rglob("*.parquet")}
    days = {datetime.fromtimestamp(time / 1000, UTC).date() for time in DAYS}
    assert folders == {f"day={day}" for day in days}
    if form == "iceberg":
        name = "kafka.timestamp" if columns == "kafka" else "timestamp"
        scan = load_iceberg(tmp_path / "t").scan(GreaterThan(name, "1970-01-02T12:00:00+00:00"))
        assert len(list(scan.plan_files())) == 2
        assert scan.to_arrow().num_rows == 2


@every_format
def test_readers_skip_files_by_offset(
    tmp_path: Path, logs: Path, topic: list[Written], form: str
) -> None:
    last = topic[1].rows[-1]
    columns = "kafka" if form == "iceberg" else "spark"
    log = ottla.open(logs)
    for end in (200, 400, None):
        log.export(tmp_path / "t", "orders", end=end, format=form, columns=columns)
    if form == "iceberg":
        table = load_iceberg(tmp_path / "t")
        chosen = EqualTo("kafka.offset", last.offset), EqualTo("kafka.partition", 1)
        scan = table.scan(chosen[0]).filter(chosen[1])
        assert len(list(scan.plan_files())) == 1
        assert scan.to_arrow().num_rows == 1
        return
    for action in pa.table(DeltaTable(tmp_path / "t").get_add_actions(flatten=True)).to_pylist():
        path = tmp_path / "t" / action["path"]
        offsets = pq.read_table(path, columns=["offset"], partitioning=None)["offset"].to_pylist()
        assert (action["num_records"], action["min.offset"], action["max.offset"]) == (
            len(offsets),
            min(offsets),
            max(offsets),
        )
        assert action["min.timestamp"] <= action["max.timestamp"]


EXTREMES = {"none": -1, "first": 0, "year-10000": 253_402_300_800_000, "least": -(2**53)}


@every_format
@pytest.mark.parametrize("time", EXTREMES.values(), ids=EXTREMES)
def test_any_time_that_the_connector_has(tmp_path: Path, form: str, time: int) -> None:
    write_partition(tmp_path / "logs", "orders-0", 0, batch([Row(0, time), Row(1, time + 5)]))
    log = ottla.open(tmp_path / "logs")
    log.export(tmp_path / "t", format=form)
    (path,) = (tmp_path / "t").rglob("*-*.parquet")
    read = pq.read_table(path, columns=["timestamp"], partitioning=None)
    micros = read["timestamp"].cast("int64").to_pylist()
    assert micros == [time * 1000, time * 1000 + 5000]


@every_format
@pytest.mark.parametrize("time", [EXTREMES["year-10000"], EXTREMES["least"]])
def test_a_day_that_tables_do_not_have(tmp_path: Path, form: str, time: int) -> None:
    """A table with it could not be opened any more."""
    write_partition(tmp_path / "logs", "orders-0", 0, batch([Row(0, 5), Row(1, time)]))
    with pytest.raises(OptionError, match=f"the timestamp {time}"):
        ottla.open(tmp_path / "logs").export(tmp_path / "t", format=form, partition_by=BY_DAY)
    assert not (tmp_path / "t").exists()


@every_format
def test_several_topics_and_a_partition_that_came_later(tmp_path: Path, form: str) -> None:
    logs = tmp_path / "logs"
    first = write_topic(logs, "orders", partitions=1)
    ottla.open(logs).export(tmp_path / "t", format=form)
    second = write_topic(logs, "refunds", partitions=2)
    for _ in range(2):
        ottla.open(logs).export(tmp_path / "t", format=form)
    assert records_of(read_table(tmp_path / "t", form)) == written([*first, *second])


@every_format
def test_another_form_is_refused(
    tmp_path: Path, logs: Path, topic: list[Written], form: str
) -> None:
    log = ottla.open(logs)
    log.export(tmp_path / "t", "orders", end=50, format=form)
    others: list[dict[str, Any]] = [
        {"value_as": "utf8"},
        {"columns": "kafka"},
        {"partition_by": BY_DAY},
        {"isolation": "read_committed"},
        {"start": 10},
        {"where": "offset > 5"},
    ]
    for other in others:
        with pytest.raises(OptionError, match="another export"):
            log.export(tmp_path / "t", "orders", format=form, **other)
    with pytest.raises(OptionError, match="is a table"):
        log.export(tmp_path / "t", "orders")


def test_no_table_is_made_of_something_else(
    tmp_path: Path, logs: Path, topic: list[Written]
) -> None:
    log = ottla.open(logs)
    log.export(tmp_path / "files", "orders")
    for form in FORMATS:
        with pytest.raises(PublishError, match="is no table"):
            log.export(tmp_path / "files", "orders", format=form)
    DeltaTable.create(tmp_path / "theirs", read_table_schema(tmp_path, log))
    with pytest.raises(PublishError, match="not made by ottla"):
        log.export(tmp_path / "theirs", "orders", format="delta")


def read_table_schema(folder: Path, log: Any) -> Any:
    log.export(folder / "ours", "orders", format="delta")
    return read_table(folder / "ours", "delta").schema


REFUSED: dict[str, tuple[list[str], str]] = {
    "catalog": (["--format", "delta", "--catalog", "x"], "for tables of Iceberg"),
    "no-such-catalog": (["--format", "iceberg", "--catalog", "x"], "the catalog x"),
    "each": (["--format", "delta", "--schema", "each", "--value-as", "avro"], "one schema"),
    "both": (
        ["--format", "delta", "--columns", "kafka", "--batch-columns"],
        "leave the batch columns out",
    ),
    "layout": (["--columns", "kafka"], "the format is iceberg or delta"),
    "day": (["--partition-by", BY_DAY], "the format is iceberg or delta"),
}


@pytest.mark.parametrize(("flags", "told"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, logs: Path, topic: list[Written], flags: list[str], told: str
) -> None:
    ran = run("export", logs, tmp_path / "t", "--topic", "orders", *flags)
    assert (ran.status, told in ran.err) == (2, True), ran.err
    assert not (tmp_path / "t").exists()


def test_a_remote_warehouse_needs_a_catalog(logs: Path, topic: list[Written]) -> None:
    ran = run("export", logs, "s3://bucket/t", "--topic", "orders", "--format", "iceberg")
    assert ran.status == 2
    assert "--catalog" in ran.err


def test_a_catalog_that_cannot_be_opened_is_named(
    tmp_path: Path, logs: Path, topic: list[Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__GONE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__GONE__URI", f"sqlite:///{tmp_path}/none/catalog.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it was read long ago
    flags = ["--format", "iceberg", "--catalog", "gone"]
    ran = run("export", logs, "shop.orders", "--topic", "orders", *flags)
    assert (ran.status, "the catalog gone: " in ran.err) == (2, True), ran.err


@every_format
def test_the_command_goes_on_where_the_program_stopped(
    tmp_path: Path, logs: Path, topic: list[Written], form: str
) -> None:
    ottla.open(logs).export(tmp_path / "t", "orders", end=300, format=form)
    ran = run("export", logs, tmp_path / "t", "--topic", "orders", "--format", form, "--json")
    assert ran.status == 0, ran.err
    accounts = [json.loads(line) for line in ran.out.splitlines()]
    assert min(row["firstOffset"] for row in accounts) >= 300
    assert records_of(read_table(tmp_path / "t", form)) == written(topic)


@every_format
def test_journals_do_not_pile_up(
    tmp_path: Path, logs: Path, topic: list[Written], form: str
) -> None:
    for end in (100, 200, 300, 300, 300):
        ottla.open(logs).export(tmp_path / "t", "orders", end=end, format=form)
        assert len(list((tmp_path / "t.ottla").iterdir())) <= 2
