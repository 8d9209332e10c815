"""A process that follows a topic of a log directory into Parquet files, until told to stop."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from spark.conftest import CONFIGURATION


def main(logs: str, topic: str, sink: str, stop: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    reader = builder.getOrCreate().readStream.format("kafka-log").option("subscribe", topic)
    frame = reader.option("startingOffsets", "earliest").load(logs)
    writer = frame.select("offset", "value").writeStream.format("parquet")
    query = writer.option("checkpointLocation", f"{sink}.state").start(sink)
    while not Path(stop).exists():
        if not query.isActive:
            query.awaitTermination()  # raises what ended it
        time.sleep(0.2)
    query.processAllAvailable()
    query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
