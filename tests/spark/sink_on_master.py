"""Save rows twice on a Spark master: `sink_on_master.py MASTER OUT`.

A process of its own, because there is one session for each.
"""

import json
import sys
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark.conftest import CONFIGURATION

COUNT, TASKS = 3000, 6
OPTIONS = {
    "numPartitions": "3",
    "codec": "lz4",
    "batchBytes": "2000",
    "segmentBytes": "8000",
    "topicIds": json.dumps({"t": "AAAAAAAAAAAAAAAAAAAAAQ"}),
}
SAVES = ("first", "second")


def row(number: int) -> dict[str, Any]:
    """What the query below makes of a number; every third row has no key."""
    return {
        "key": None if number % 3 == 0 else f"key {number % 50}".encode(),
        "value": f"value {number}".encode(),
        "topic": "t",
        "timestamp": number * 1_000_000,
    }


def rows_of_tasks() -> list[pa.RecordBatch]:
    """The rows of each task of `spark.range(0, COUNT, 1, TASKS)`, as Spark hands them over."""
    schema = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("timestamp", pa.timestamp("us", "UTC")),
        ]
    )
    size = COUNT // TASKS
    starts = range(0, COUNT, size)
    return [
        pa.RecordBatch.from_pylist([row(start + at) for at in range(size)], schema)
        for start in starts
    ]


def main(master: str, out: str) -> None:
    builder = SparkSession.builder.master(master).config("spark.executor.memory", "512m")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    frame = spark.range(0, COUNT, 1, TASKS).select(
        F.when(F.col("id") % 3 != 0, F.concat(F.lit("key "), F.col("id") % 50)).alias("key"),
        F.concat(F.lit("value "), F.col("id")).alias("value"),
        F.lit("t").alias("topic"),
        F.timestamp_seconds("id").alias("timestamp"),
    )
    for name in SAVES:
        writer = frame.write.format("kafka-log").options(**OPTIONS, writeId=name)
        writer.mode("append").save(out)
    spark.stop()
    print("saved")


if __name__ == "__main__":
    main(*sys.argv[1:])
