"""A process that runs one streaming query from a log directory into Parquet files."""

import sys

from pyspark.sql import SparkSession

from spark.conftest import CONFIGURATION


def main(logs: str, sink: str, trigger: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    frame = (
        spark.readStream.format("kafka-log")
        .option("startingOffsets", "earliest")
        .option("upTo", "highWatermark")
        .option("maxOffsetsPerTrigger", "2000")
        .load(logs)
    )
    writer = frame.select("partition", "offset", "value").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", f"{sink}.state")
    ends = {"availableNow": True} if trigger == "now" else {"processingTime": "0 seconds"}
    writer.trigger(**ends).start(sink).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
