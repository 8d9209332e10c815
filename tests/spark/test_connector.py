"""Spark's KafkaRelationSuite on files: its topics, its options, its answers.

Which test of the connector is which test of ours is in tests/spark/README.md.
"""

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from builders import Row, batch
from jobs.topics import ABORT, COMMIT, TRANSACTIONAL, marker

pytestmark = pytest.mark.spark

FIRST, SECOND, THIRD = 1_700_000_000_000, 1_700_000_001_000, 1_700_000_002_000
NEVER = 2**63 - 1


def write(folder: Path, values: dict[int, int]) -> None:
    """A partition with one batch for each value; `values` gives their timestamps."""
    folder.mkdir(parents=True)
    rows = [Row(at, time, None, b"%d" % value) for at, (value, time) in enumerate(values.items())]
    data = b"".join(batch([row]) for row in rows)
    (folder / f"{0:020d}.log").write_bytes(data)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """0-9 at the first timestamp, 10-19 at the second, 20-29 at the third, in 3 partitions."""
    folder = tmp_path_factory.mktemp("connector")
    for number in range(3):
        values = [value for value in range(30) if value % 3 == number]
        times = (FIRST, SECOND, THIRD)
        write(folder / f"t-{number}", {value: times[value // 10] for value in values})
    return folder


def load(spark: SparkSession, logs: Path, **options: object) -> DataFrame:
    return spark.read.format("kafka-log").options(subscribe="t", **options).load(str(logs))


def values(frame: DataFrame) -> list[int]:
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())


def each(*edges: int) -> str:
    """JSON with an offset or a timestamp for every partition."""
    if len(edges) == 1:
        edges *= 3
    return json.dumps({"t": {str(number): edge for number, edge in enumerate(edges)}})


NOT_2 = [value for value in range(30) if value % 3 != 2]
ONLY_2 = [value for value in range(10, 30) if value % 3 == 2]

ANSWERS = [
    pytest.param({}, range(30), id="default starting and ending offsets"),
    pytest.param(
        {"startingOffsets": "earliest", "endingOffsets": "latest"},
        range(30),
        id="explicit earliest to latest offsets",
    ),
    pytest.param(
        {"startingOffsets": each(-2, -2, 0), "endingOffsets": each(-1, -1, 1)},
        [*NOT_2, 2],
        id="explicit offsets",
    ),
    pytest.param(
        {"startingOffsetsByTimestamp": each(SECOND), "endingOffsetsByTimestamp": each(THIRD)},
        range(10, 20),
        id="timestamp provided for starting and ending",
    ),
    pytest.param(
        {"startingOffsetsByTimestamp": each(FIRST), "endingOffsets": each(-1, -1, 1)},
        [*NOT_2, 2],
        id="timestamp provided for starting, offset provided for ending",
    ),
    pytest.param(
        {"startingOffsets": each(-2, -2, 0), "endingOffsetsByTimestamp": each(THIRD)},
        range(20),
        id="timestamp provided for ending, offset provided for starting",
    ),
    pytest.param(
        {"startingOffsetsByTimestamp": each(SECOND)},
        range(10, 30),
        id="timestamp provided for starting, ending not provided",
    ),
    pytest.param(
        {"endingOffsetsByTimestamp": each(THIRD)},
        range(20),
        id="timestamp provided for ending, starting not provided",
    ),
    pytest.param(
        {"startingTimestamp": SECOND, "endingTimestamp": THIRD},
        range(10, 20),
        id="global timestamp provided for starting and ending",
    ),
    pytest.param(
        {"endingOffsetsByTimestamp": each(SECOND, SECOND, NEVER)},
        [*range(10), *ONLY_2],
        id="no matched offset for timestamp - endingOffsets",
    ),
    pytest.param(
        {
            "startingTimestamp": THIRD,
            "startingOffsetsByTimestamp": each(SECOND),
            "startingOffsets": "earliest",
        },
        range(20, 30),
        id="preferences on offset related options: one timestamp",
    ),
    pytest.param(
        {"startingOffsetsByTimestamp": each(SECOND), "startingOffsets": "earliest"},
        range(10, 30),
        id="preferences on offset related options: timestamps",
    ),
    pytest.param(
        {
            "startingOffsetsByTimestamp": each(SECOND, SECOND, NEVER),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        [value for value in NOT_2 if value >= 10],
        id="no matched offset for timestamp, strategy latest",
    ),
    pytest.param({"minPartitions": 6}, range(30), id="SPARK-30656 minPartitions"),
    pytest.param({"maxRecordsPerPartition": 3}, range(30), id="SPARK-49259"),
    pytest.param(
        {"STARTINGOFFSETS": "EARLIEST", "endingoffsets": "Latest"},
        range(30),
        id="options should be case-insensitive",
    ),
]


@pytest.mark.parametrize(("options", "expected"), ANSWERS)
def test_the_answer_is_the_connectors(
    spark: SparkSession, logs: Path, options: dict[str, object], expected: list[int]
) -> None:
    assert values(load(spark, logs, **options)) == sorted(expected)


REFUSALS = [
    pytest.param(
        {"startingOffsetsByTimestamp": each(SECOND, SECOND, NEVER)},
        "no offset matched",
        id="no matched offset for timestamp - startingOffsets",
    ),
    pytest.param(
        {"startingOffsets": each(0), "endingOffsets": '{"t":{"0":1,"1":1}}'},
        "t-2",
        id="partitions for start and end must match",
    ),
    pytest.param(
        {"startingOffsets": each(5), "endingOffsets": each(3)},
        "5",
        id="start greater than end, unresolved",
    ),
    pytest.param(
        {"startingOffsets": each(5), "endingTimestamp": FIRST},
        "would start at 5, after its end at 0",
        id="start greater than end, resolved",
    ),
    pytest.param(
        {"startingOffsets": each(99)},
        "ends at offset 10, before 99",
        id="start greater than latest",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSALS)
def test_what_the_connector_refuses_is_refused(
    spark: SparkSession, logs: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message):
        load(spark, logs, **options).collect()


def test_a_frame_is_used_twice_in_one_query(spark: SparkSession, logs: Path) -> None:
    frame = load(spark, logs)
    assert values(frame.union(frame)) == sorted([*range(30), *range(30)])


def test_a_frame_that_was_loaded_before_does_not_see_what_is_new(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Where we differ from the connector on purpose: no late binding (docs/spark.md)."""
    write(tmp_path / "t-0", dict.fromkeys(range(10), FIRST))
    frame = load(spark, tmp_path)
    assert values(frame) == list(range(10))
    with (tmp_path / "t-0" / f"{0:020d}.log").open("ab") as log:
        log.write(batch([Row(10, FIRST, None, b"10")]))
    assert values(frame) == list(range(10))
    assert values(load(spark, tmp_path)) == list(range(11))


def transaction(first: int, count: int, kind: int | None) -> bytes:
    """Records of one producer and the marker that ends it; None leaves it open."""
    rows = [Row(offset, FIRST, None, b"%d" % offset) for offset in range(first, first + count)]
    data = batch(rows, attributes=TRANSACTIONAL, producer=(7, 0, first))
    return data if kind is None else data + marker(first + count, 7, kind, FIRST)


# What is appended, then what read_committed and read_uncommitted give of everything so far.
STEPS = [
    (transaction(0, 5, None), [], range(5)),
    (marker(5, 7, COMMIT, FIRST), range(5), range(5)),
    (transaction(6, 5, ABORT), range(5), [*range(5), *range(6, 11)]),
    (
        transaction(12, 5, COMMIT),
        [*range(5), *range(12, 17)],
        [*range(5), *range(6, 11), *range(12, 17)],
    ),
]


def test_transactions_show_when_they_are_committed(spark: SparkSession, tmp_path: Path) -> None:
    """`read Kafka transactional messages`, read_committed and read_uncommitted, step by step."""
    (tmp_path / "t-0").mkdir()
    for data, committed, uncommitted in STEPS:
        with (tmp_path / "t-0" / f"{0:020d}.log").open("ab") as log:
            log.write(data)
        for level, expected in (("read_committed", committed), ("read_uncommitted", uncommitted)):
            frame = load(spark, tmp_path, **{"kafka.isolation.level": level})
            assert values(frame) == list(expected), level
