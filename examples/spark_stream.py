"""Follow a log directory into Parquet: `python examples/spark_stream.py PATH SINK`.

Run it again and it goes on where it stopped. Each record is in the sink once, also when the query
is killed: positions are in the checkpoint, and the same positions always give the same records.
"""

import sys

from pyspark.sql import SparkSession


def main(path: str, sink: str) -> None:
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.python.daemon.module", "ottla.spark.daemon")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    records = (
        spark.readStream.format("kafka-log")
        .option("startingOffsets", "earliest")
        .option("maxBytesPerTrigger", "64m")
        .load(path)
    )
    query = (
        records.writeStream.format("parquet")
        .option("checkpointLocation", f"{sink}.checkpoint")
        .trigger(availableNow=True)
        .start(sink)
    )
    query.awaitTermination()
    print(spark.read.parquet(sink).groupBy("topic", "partition").count().toPandas().to_string())


if __name__ == "__main__":
    main(*sys.argv[1:])
