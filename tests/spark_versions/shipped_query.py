"""What spark-submit runs where ottla is only in what it ships: `shipped_query.py LOGS OUT`."""

import json
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def where_ottla_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import os

    import ottla

    for _ in batches:
        with open(f"/proc/{os.getppid()}/cmdline") as command:
            words = command.read().split("\0")
        daemon = words[words.index("-m") + 1]
        yield pa.RecordBatch.from_pydict(
            {"file": [str(ottla.__file__)], "python": [sys.executable], "daemon": [daemon]}
        )


def main(logs: str, out: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    from ottla.spark import register

    register(spark)
    frame = spark.read.format("kafka-log").load(logs)
    rows = frame.select("value", "partition")
    rows.write.format("kafka-log").option("topic", "t").mode("append").save(out)
    found = spark.range(0, 8, 1, 8).mapInArrow(
        where_ottla_is, "file string, python string, daemon string"
    )
    places = sorted({tuple(row) for row in found.collect()})
    print(json.dumps({"count": frame.count(), "places": places}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
