"""A streaming query over a growing directory, with Spark's own checkpoints and file sink."""

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
