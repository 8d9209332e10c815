"""A process that reads topics with our source and writes them, offsets and all, with our sink."""

import sys

from pyspark.sql import SparkSession

from spark.conftest import CONFIGURATION


def main(logs: str, out: str, topics: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    reader = builder.getOrCreate().read.format("kafka-log").option("subscribe", topics)
    rows = reader.option("includeHeaders", "true").load(logs)
    # The sort leaves two tasks, so that one partition is put together from what both staged.
    writer = rows.sort("topic", "partition", "offset").write.format("kafka-log")
    for name, value in {"keepOffsets": "true", "codec": "lz4", "batchBytes": "2k"}.items():
        writer = writer.option(name, value)
    writer.option("segmentBytes", "16k").mode("append").save(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
