"""Views of internal topics on Spark: a broker's own files, and logs whose every change is known."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import unix_millis

from builders import Row, batch
from golden import GOLDEN, kafka_dump
from internal.streams import commit_key, commit_value
from ottla.catalog.catalog import list_catalog
from ottla.internal.views import VIEWS
from ottla.jobs.read.internal_topics import find_internal_topic, read_current

pytestmark = pytest.mark.spark

BROKER = GOLDEN / "kafka-4.3"
SEGMENT = "00000000000000000000.log"
MAX_MILLISECONDS = 2**63 // 1000

Line = dict[str, Any]


def load(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("kafka-log").options(**options).load(str(path))


def lines(frame: DataFrame) -> list[Line]:
    """Rows with their times in milliseconds, which do not depend on the time zone."""
    times = [name for name, kind in frame.dtypes if kind == "timestamp"]
    plain = frame.withColumns({name: unix_millis(name) for name in times})
    return [row.asDict(recursive=True) for row in plain.collect()]


def changes(frame: DataFrame) -> list[tuple[object, ...]]:
    found = lines(frame.orderBy("group", "logOffset"))
    names = ("group", "partition", "offset", "deleted", "logOffset", "logTimestamp")
    return [tuple(line[name] for name in names) for line in found]


@pytest.fixture
def commits(tmp_path: Path) -> Path:
    """Two partitions of __consumer_offsets, a group in each."""
    partitions = {
        0: [
            batch([Row(0, 1000, commit_key("g", "t", 0), commit_value(10))]),
            batch([Row(1, 1001, commit_key("g", "t", 1), commit_value(5))]),
            batch([Row(2, 1002, commit_key("g", "t", 0), commit_value(11))]),
            batch([Row(3, 1003, commit_key("g", "t", 1), None)]),
        ],
        1: [batch([Row(0, -1, commit_key("h", "t", 0), commit_value(7))])],
    }
    for number, batches in partitions.items():
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        (folder / SEGMENT).write_bytes(b"".join(batches))
    return tmp_path


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_a_brokers_files_is_what_their_records_add_up_to(
    spark: SparkSession, name: str
) -> None:
    view = VIEWS[name]
    expected = read_current(
        find_internal_topic(list_catalog([str(BROKER)]), view.topic), view
    ).rows.to_pylist()
    assert expected
    assert lines(load(spark, BROKER, view=name)) == expected


def test_the_state_of_all_partitions_is_put_together(spark: SparkSession, commits: Path) -> None:
    frame = load(spark, commits, view="group_offsets")
    assert changes(frame) == [("g", 0, 11, False, 2, 1002), ("h", 0, 7, False, 0, -1)]
    assert frame.rdd.getNumPartitions() == 2


def test_a_history_has_each_change_once(spark: SparkSession, commits: Path) -> None:
    assert changes(load(spark, commits, view="group_offsets", history="true")) == [
        ("g", 0, 10, False, 0, 1000),
        ("g", 1, 5, False, 1, 1001),
        ("g", 0, 11, False, 2, 1002),
        ("g", 1, None, True, 3, 1003),
        ("h", 0, 7, False, 0, -1),
    ]


def test_a_history_of_transactional_ids_has_each_record_of_the_brokers_log(
    spark: SparkSession,
) -> None:
    frame = load(spark, BROKER, view="transactional_ids", history="true")
    told = kafka_dump(BROKER.name)[BROKER / "__transaction_state-0" / SEGMENT]
    offsets = [row.logOffset for row in frame.orderBy("logOffset").collect()]
    assert offsets == [int(line["offset"]) for line in told if "offset" in line]


def test_columns_have_types_of_spark(spark: SparkSession) -> None:
    types = dict(load(spark, BROKER, view="group_offsets").dtypes)
    assert types["partition"] == "int"
    assert types["offset"] == types["logOffset"] == types["markerOffset"] == "bigint"
    assert {name for name, kind in types.items() if kind == "timestamp"} == {
        "commitTimestamp",
        "expireTimestamp",
        "logTimestamp",
    }
    partitions = dict(load(spark, BROKER, view="transactional_ids").dtypes)["partitions"]
    assert partitions == "array<struct<topic:string,partitions:array<int>>>"


def test_a_schema_chooses_columns(spark: SparkSession) -> None:
    reader = spark.read.format("kafka-log").option("view", "group_offsets")
    (row,) = reader.schema("offset bigint, group string").load(str(BROKER)).collect()
    assert tuple(row) == (50, "readers")


def break_first_batch(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[61] ^= 1
    log.write_bytes(data)


def write_late_commit(log: Path) -> None:
    late = Row(0, MAX_MILLISECONDS + 1, commit_key("h", "t", 0), commit_value(7))
    log.write_bytes(batch([late]))


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        pytest.param(break_first_batch, "crc-matches", id="broken-batch"),
        pytest.param(write_late_commit, "timestamp-range", id="time-beyond-microseconds"),
    ],
)
def test_what_can_not_be_read_is_told_as_the_mode_says(
    spark: SparkSession, commits: Path, damage: Any, rule: str
) -> None:
    damage(commits / "__consumer_offsets-1" / SEGMENT)
    with pytest.raises(PythonException, match=rule):
        load(spark, commits, view="group_offsets").collect()
    dropped = load(spark, commits, view="group_offsets", mode="DROPMALFORMED")
    assert changes(dropped) == [("g", 0, 11, False, 2, 1002)]
    told = load(spark, commits, view="group_offsets", mode="PERMISSIVE")
    assert changes(told.where("_corrupt is null")) == [("g", 0, 11, False, 2, 1002)]
    (corrupt,) = told.where("_corrupt is not null").collect()
    assert rule in corrupt["_corrupt"]
    assert corrupt["group"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "groups", "subscribe": "t"}, "subscribe has no meaning with view=groups"),
        ({"view": "topics", "startingOffsets": "earliest"}, "startingOffsets has no meaning"),
        ({"view": "batches", "history": "true"}, "history goes with view=group_offsets or"),
    ],
)
def test_an_option_that_the_view_would_not_heed_is_refused(
    spark: SparkSession, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message):
        load(spark, BROKER, **options)


def test_a_view_whose_topic_is_not_there_says_so(spark: SparkSession, commits: Path) -> None:
    with pytest.raises(AnalysisException, match="no partition of __transaction_state"):
        load(spark, commits, view="transactional_ids").collect()
