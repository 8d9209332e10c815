"""`format("kafka-log")` on a local Spark: Spark's own connector tests, as far as files allow."""

import json
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

import ottla
from builders import Row, batch
from corpus import CASES, expected_lines
from jobs.topics import Written, write_topic

pytestmark = pytest.mark.spark

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HEADERS = "array<struct<key:string,value:binary>>"
CONNECTOR = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}

Line = tuple[Any, ...]


def load(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("kafka-log").options(**options).load(str(path))


def expected_line(part: Written, row: Row) -> Line:
    """A row as the connector gives it, headers last."""
    time = (EPOCH + timedelta(milliseconds=row.timestamp)).replace(tzinfo=None)
    headers = [(key.decode(), value) for key, value in row.headers] or None
    return (row.key, row.value, part.topic, part.partition, row.offset, time, headers)


def lines(frame: DataFrame) -> list[Line]:
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]
    found = [[_plain(value) for value in row] for row in frame.select(names).collect()]
    return sorted((tuple(row) for row in found), key=lambda row: (row[3], row[4]))


def _plain(value: object) -> object:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [(item.key, _plain(item.value)) for item in value]
    return value


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def topic(logs: Path) -> list[Written]:
    return write_topic(logs, "orders")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Written]]:
    folder = tmp_path_factory.mktemp("large")
    return folder, write_topic(folder, "orders", value_size=60_000)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows come back with local times."""
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def all_lines(topic: list[Written]) -> list[Line]:
    return [expected_line(part, row) for part in topic for row in part.rows]


def test_the_columns_are_those_of_the_connector(
    spark: SparkSession, logs: Path, topic: object
) -> None:
    frame = load(spark, logs)
    assert dict(frame.dtypes) == CONNECTOR
    assert frame.columns == list(CONNECTOR)
    assert all(field.nullable for field in frame.schema)
    with_headers = load(spark, logs, includeHeaders="true")
    assert with_headers.dtypes == [*CONNECTOR.items(), ("headers", HEADERS)]
    header = with_headers.schema["headers"].dataType
    assert header.containsNull
    assert all(field.nullable for field in header.elementType)


@pytest.mark.parametrize("split", ["4k", "1m", "64m"])
def test_rows_are_the_same_for_every_split(
    spark: SparkSession, logs: Path, topic: list[Written], split: str
) -> None:
    found = lines(load(spark, logs, includeHeaders="true", splitBytes=split))
    assert found == all_lines(topic)


@pytest.mark.parametrize("split", [pytest.param("4k", marks=pytest.mark.spark_long), "1m", "64m"])
def test_rows_of_20_megabytes_are_the_same_for_every_split(
    spark: SparkSession, large: tuple[Path, list[Written]], split: str
) -> None:
    logs, topic = large
    frame = load(spark, logs, includeHeaders="true", splitBytes=split)
    tasks = frame.rdd.getNumPartitions()
    assert {"4k": tasks > 100, "1m": 10 < tasks < 40, "64m": tasks < 5}[split], tasks
    assert lines(frame) == all_lines(topic)


def test_committed_rows_leave_out_what_was_aborted_or_is_open(
    spark: SparkSession, logs: Path, topic: list[Written]
) -> None:
    options = {"includeHeaders": "true", "kafka.isolation.level": "read_committed"}
    expected = [expected_line(part, row) for part in topic for row in part.committed()]
    assert lines(load(spark, logs, **options)) == expected


def test_as_many_tasks_are_made_as_asked_for(
    spark: SparkSession, logs: Path, topic: list[Written]
) -> None:
    frame = load(spark, logs, includeHeaders="true", minPartitions="6")
    assert frame.rdd.getNumPartitions() == 6
    assert lines(frame) == all_lines(topic)


def test_explicit_offsets_bound_the_rows(
    spark: SparkSession, logs: Path, topic: list[Written]
) -> None:
    start = json.dumps({"orders": {"0": 10, "1": -2, "2": 40}})
    end = json.dumps({"orders": {"0": 60, "1": 20, "2": -1}})
    found = load(spark, logs, includeHeaders="true", startingOffsets=start, endingOffsets=end)
    bounds = {0: (10, 60), 1: (0, 20), 2: (40, 10**9)}
    expected = [
        expected_line(part, row)
        for part in topic
        for row in part.rows
        if bounds[part.partition][0] <= row.offset < bounds[part.partition][1]
    ]
    assert lines(found) == expected


def test_one_frame_answers_different_filters(
    spark: SparkSession, logs: Path, topic: list[Written]
) -> None:
    frame = load(spark, logs)
    low, high = frame.where("offset < 30"), frame.where("offset >= 400")
    everything = [row.offset for part in topic for row in part.rows]
    expected = sum(offset < 30 for offset in everything), sum(off >= 400 for off in everything)
    assert (low.count(), high.count(), frame.count()) == (*expected, len(everything))
    assert low.union(high).count() == sum(expected)
    keys = ["partition", "offset"]
    assert frame.select(keys).join(frame.select(keys), keys).count() == len(everything)


def test_a_schema_chooses_columns_in_any_order(
    spark: SparkSession, logs: Path, topic: list[Written]
) -> None:
    reader = spark.read.format("kafka-log").schema(f"headers {HEADERS}, offset bigint, file string")
    rows = reader.load(str(logs)).where("offset = 3").collect()
    assert rows
    assert rows[0].__fields__ == ["headers", "offset", "file"]
    count = spark.read.format("kafka-log").schema("topic string").load(str(logs)).count()
    assert count == len(all_lines(topic))
    frame = ottla.read_log(str(logs), columns=["value", "offset"], spark=spark, subscribe="orders")
    assert frame.columns == ["value", "offset"]
    assert frame.count() == count


SCHEMAS = [
    pytest.param("ofset bigint", "did you mean offset", id="misspelt"),
    pytest.param("offset int", "column offset is bigint, not int", id="type"),
    pytest.param("offset bigint not null", "must be nullable", id="nullability"),
]


@pytest.mark.parametrize(("schema", "message"), SCHEMAS)
def test_a_schema_that_does_not_fit_is_refused(
    spark: SparkSession, logs: Path, topic: object, schema: str, message: str
) -> None:
    frame = spark.read.format("kafka-log").schema(schema).load(str(logs))
    with pytest.raises(AnalysisException, match=message):
        frame.collect()


OPTIONS = [
    pytest.param({"startingOfsets": "earliest"}, "did you mean startingOffsets", id="misspelt"),
    pytest.param({"subscribe": "a", "assign": "{}"}, "only one of", id="two-subscriptions"),
    pytest.param({"startingOffsets": "latest"}, "cannot be latest", id="starts-at-latest"),
    pytest.param({"subscribe": "order"}, "no topic order in", id="no-such-topic"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_an_option_that_makes_no_sense_is_refused(
    spark: SparkSession, logs: Path, topic: object, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message):
        load(spark, logs, **options).collect()


def test_batch_columns_follow_those_of_the_connector(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = folder / f"{5:020d}.log"
    rows = [Row(5, 1000), Row(7, 1001)]
    log.write_bytes(batch(rows, codec=4, attributes=0x10, producer=(9, 2, 30), leader_epoch=6))
    frame = load(spark, tmp_path, includeBatchColumns="true")
    found = frame.orderBy("offset").collect()
    assert frame.columns[:7] == list(CONNECTOR)
    assert [row.asDict() for row in frame.select(*frame.columns[7:], "offset").collect()] == [
        {
            "file": str(log),
            "position": 0,
            "magic": 2,
            "codec": "zstd",
            "baseOffset": 5,
            "partitionLeaderEpoch": 6,
            "producerId": 9,
            "producerEpoch": 2,
            "sequence": sequence,
            "isTransactional": True,
            "offset": offset,
        }
        for offset, sequence in ((5, 30), (7, 32))
    ]
    assert [row.timestampType for row in found] == [0, 0]


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Offsets 0-2, 3-5 (damaged), 6-8."""
    (tmp_path / "t-0").mkdir()
    parts = [batch([Row(base + index, -1) for index in range(3)]) for base in (0, 3, 6)]
    parts[1] = parts[1][:-1] + b"?"
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(b"".join(parts))
    return tmp_path


def test_an_error_says_where_it_is_and_what_to_do(spark: SparkSession, broken: Path) -> None:
    with pytest.raises(PythonException) as failed:
        load(spark, broken).collect()
    message = str(failed.value)
    position = len(batch([Row(0, -1), Row(1, -1), Row(2, -1)]))
    assert f"t-0/{0:020d}.log @ {position}, offset 3: crc-matches" in message
    assert "mode=DROPMALFORMED" in message
    assert "ottla salvage" in message


def test_broken_batches_are_left_out_or_shown(spark: SparkSession, broken: Path) -> None:
    dropped = load(spark, broken, mode="DROPMALFORMED")
    assert sorted(row.offset for row in dropped.collect()) == [0, 1, 2, 6, 7, 8]
    shown = load(spark, broken, mode="PERMISSIVE")
    assert shown.columns == [*CONNECTOR, "_corrupt"]
    assert shown.where("_corrupt is null").count() == 6
    (corrupt,) = shown.where("_corrupt is not null").collect()
    assert "crc-matches" in corrupt["_corrupt"]
    assert corrupt.offset is None
    (violation,) = load(spark, broken, view="violations").collect()
    assert (violation.rule, violation.topic, violation.partition) == ("crc-matches", "t", 0)
    assert (violation.offset, violation.lastOffset) == (3, 5)


def test_batches_are_rows_with_their_crc_verdict(spark: SparkSession, broken: Path) -> None:
    rows = load(spark, broken, view="batches").orderBy("position").collect()
    assert [(row.topic, row.baseOffset, row.crcValid, row["count"]) for row in rows] == [
        ("t", 0, True, 3),
        ("t", 3, False, 3),
        ("t", 6, True, 3),
    ]


def test_a_record_without_a_timestamp_shows_as_the_connector_shows_it(
    spark: SparkSession, broken: Path
) -> None:
    row = load(spark, broken, mode="DROPMALFORMED").first()
    assert row is not None
    assert row.timestamp == datetime(1969, 12, 31, 23, 59, 59, 999000)


def test_nothing_to_read_is_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").touch()
    assert load(spark, tmp_path).collect() == []


def _hex(text: str | None) -> str | None:
    return None if text is None else b64decode(text).hex().upper()


def expected_records(corpus: Path, case: str) -> list[Line]:
    """The records of a case without those of batches that are rejected whole."""
    found = expected_lines(corpus, case)
    rejected = {line["position"] for line in found if line.get("stage") == "records"}
    control = {line["position"] for line in found if line["type"] == "batch" and line["isControl"]}
    return [
        (
            case,
            line["offset"],
            line["timestamp"],
            _hex(line["key"]),
            _hex(line["value"]),
            [[key, _hex(value)] for key, value in line["headers"]] or None,
        )
        for line in found
        if line["type"] == "record"
        and line["position"] not in rejected | control
        and abs(line["timestamp"]) <= (2**63 - 1) // 1000
    ]


def test_the_corpus_as_one_tree_gives_what_kafka_gives(
    spark: SparkSession, corpus: Path, tmp_path: Path
) -> None:
    for case in CASES:
        (tmp_path / f"{case}-0").mkdir()
        source = corpus / "segments" / f"{case}.log"
        (tmp_path / f"{case}-0" / f"{0:020d}.log").hardlink_to(source)
    frame = load(spark, tmp_path, mode="DROPMALFORMED", includeHeaders="true").selectExpr(
        "topic",
        "offset",
        "unix_millis(timestamp)",
        "hex(key)",
        "hex(value)",
        "transform(headers, header -> array(header.key, hex(header.value)))",
    )
    found = [tuple(row) for row in frame.collect()]
    expected = [line for case in CASES for line in expected_records(corpus, case)]
    unordered = [sorted(map(repr, rows)) for rows in (found, expected)]
    assert unordered[0] == unordered[1]
