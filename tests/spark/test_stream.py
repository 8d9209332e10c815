"""A streaming query over a growing directory, with Spark's own checkpoints and file sink."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from builders import Row, batch

pytestmark = pytest.mark.spark


def append(folder: Path, first: int, count: int, *, base: int) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / f"{base:020d}.log").open("ab") as log:
        for offset in range(first, first + count):
            log.write(batch([Row(offset, 1000, None, b"%d" % offset)]))


def run(spark: SparkSession, logs: Path, sink: Path, **options: str) -> int:
    """Read all that is there now into the sink; how many batches that took."""
    frame = spark.readStream.format("kafka-log").options(**options).load(str(logs))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(sink) + ".state")
    query = writer.trigger(availableNow=True).start(str(sink))
    query.awaitTermination()
    return sum(progress.numInputRows > 0 for progress in query.recentProgress)


def test_a_query_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    logs, sink = tmp_path / "logs", tmp_path / "sink"
    logs.mkdir()
    append(logs / "t-0", 0, 10, base=0)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"}
    assert run(spark, logs, sink, **options) == 2
    append(logs / "t-0", 10, 3, base=0)
    append(logs / "t-0", 13, 3, base=13)
    append(logs / "t-1", 0, 2, base=0)
    assert run(spark, logs, sink, **options) == 2
    rows = spark.read.parquet(str(sink)).collect()
    found = sorted((row.partition, row.offset, bytes(row.value)) for row in rows)
    expected = [(0, offset) for offset in range(16)] + [(1, offset) for offset in range(2)]
    assert found == [(number, offset, b"%d" % offset) for number, offset in expected]


def test_a_stream_joined_with_itself_gives_each_pair_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The connector has one offset in its log; of a Python source Spark keeps one for each side."""
    logs, state = tmp_path / "logs", tmp_path / "state"
    logs.mkdir()
    append(logs / "t-0", 0, 10, base=0)
    reader = spark.readStream.format("kafka-log").option("startingOffsets", "earliest")
    keys = reader.load(str(logs)).select("partition", "offset")
    writer = keys.join(keys, ["partition", "offset"]).writeStream.format("memory")
    writer = writer.queryName("joined").option("checkpointLocation", str(state))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert sorted(row.offset for row in spark.table("joined").collect()) == list(range(10))
    logged = (state / "offsets" / "0").read_text().splitlines()[2:]
    assert [json.loads(line) for line in logged] == [{"t": {"0": 10}}] * 2


def test_two_streams_of_which_one_has_nothing_new(spark: SparkSession, tmp_path: Path) -> None:
    """SPARK-22956."""
    logs, sink = tmp_path / "logs", tmp_path / "sink"
    logs.mkdir()
    append(logs / "t-0", 0, 2, base=0)
    append(logs / "u-0", 0, 2, base=0)
    found = []
    for first in (2, 5):
        streams = [
            spark.readStream.format("kafka-log")
            .options(startingOffsets="earliest", subscribe=topic)
            .load(str(logs))
            for topic in "tu"
        ]
        writer = streams[0].union(streams[1]).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(sink) + ".state")
        writer.trigger(availableNow=True).start(str(sink)).awaitTermination()
        found.append(spark.read.parquet(str(sink)).groupBy("topic").count().collect())
        append(logs / "u-0", first, 3, base=0)
    assert [sorted(map(tuple, counts)) for counts in found] == [
        [("t", 2), ("u", 2)],
        [("t", 2), ("u", 5)],
    ]
