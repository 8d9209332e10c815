"""We read what brokers write: our source on their directory, Spark's connector on the broker."""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks.maven import class_path
from broker import JAVA, Broker
from pyspark.sql import DataFrame, Row, SparkSession
from tally import compared

TOPICS = "java-.*|rdkafka-.*|aiokafka-.*|broker-.*|log-append-time|large|small-batches"
TOPICS += "|transactions|expired|records-deleted|compacted"
ISOLATION = ("read_uncommitted", "read_committed")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session with Spark's Kafka connector."""
    # The workers, and the JVM when it looks for data sources, must find this environment.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = class_path(JAVA / "spark-connector").split(":")[1:]
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    yield session
    session.stop()


def by_connector(spark: SparkSession, broker: Broker, options: dict[str, str]) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.option("includeHeaders", "true").options(**options).load()


def by_ottla(spark: SparkSession, broker: Broker, options: dict[str, str]) -> DataFrame:
    reader = spark.read.format("kafka-log").option("path", str(broker.log_dir))
    return reader.option("includeHeaders", "true").options(**options).load()


def rows(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def assert_same(spark: SparkSession, broker: Broker, options: dict[str, str]) -> list[Row]:
    theirs, ours = by_connector(spark, broker, options), by_ottla(spark, broker, options)
    assert ours.schema == theirs.schema
    expected = rows(theirs)
    assert rows(ours) == expected
    return expected


@pytest.mark.parametrize("isolation", ISOLATION)
def test_all_topics_have_the_rows_of_the_connector(
    spark: SparkSession, broker: Broker, isolation: str
) -> None:
    options = {"subscribePattern": f"^({TOPICS})$", "kafka.isolation.level": isolation}
    expected = assert_same(spark, broker, options)
    assert len(expected) > 1000
    compared["records"] += len(expected)
    compared["topics"] = len({row.topic for row in expected})


def every(topic: str, partitions: int, value: object) -> str:
    return json.dumps({topic: {str(partition): value for partition in range(partitions)}})


def offset_options() -> list[Any]:
    """Bounds by offset: inside batches, in gaps, at markers and at the edges."""
    small = {"subscribe": "small-batches"}
    transactions = {"subscribe": "transactions", "kafka.isolation.level": "read_committed"}
    compacted = {"subscribe": "compacted"}
    return [
        small | {"startingOffsets": every("small-batches", 2, 17)},
        small | {"endingOffsets": every("small-batches", 2, 100)},
        small
        | {
            "startingOffsets": every("small-batches", 2, 50),
            "endingOffsets": every("small-batches", 2, 51),
        },
        small | {"startingOffsets": "earliest", "minPartitions": "7"},
        transactions | {"startingOffsets": every("transactions", 2, 5)},
        transactions | {"endingOffsets": every("transactions", 2, 40)},
        compacted | {"startingOffsets": every("compacted", 1, 31)},
        {"assign": json.dumps({"transactions": [1], "small-batches": [0]})},
    ]


@pytest.mark.parametrize("options", offset_options(), ids=lambda options: json.dumps(options))
def test_bounds_by_offset_give_the_rows_of_the_connector(
    spark: SparkSession, broker: Broker, options: dict[str, str]
) -> None:
    assert assert_same(spark, broker, options)


@pytest.mark.parametrize("topic", ["java-lz4", "log-append-time", "small-batches", "transactions"])
def test_bounds_by_time_give_the_rows_of_the_connector(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    options = {"subscribe": topic}
    stamps = [row.timestamp for row in rows(by_connector(spark, broker, options))]
    instants = [round(stamp.timestamp() * 1000) for stamp in (min(stamps), max(stamps))]
    middle = sum(instants) // 2
    later = {"startingTimestamp": str(middle), "startingOffsetsByTimestampStrategy": "latest"}
    assert_same(spark, broker, options | later)
    assert_same(spark, broker, options | {"endingTimestamp": str(middle)})
    assert_same(spark, broker, options | {"startingTimestamp": str(instants[0] - 1)})
