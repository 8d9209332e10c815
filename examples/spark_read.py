"""Read log directories as tables: `python examples/spark_read.py PATH [TOPIC]`.

PATH is a broker's `log.dirs`, a copy of it, one partition directory, or a prefix in a bucket.
"""

import sys

from pyspark.sql import SparkSession

import ottla


def main(path: str, topic: str | None = None) -> None:
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.python.daemon.module", "ottla.spark.daemon")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    chosen = {"subscribe": topic} if topic else {}

    # Only what is asked for is decoded: this opens no value.
    offsets = ottla.read_log(path, columns=["topic", "partition", "offset"], **chosen)
    offsets.groupBy("topic", "partition").agg({"offset": "min", "*": "count"}).orderBy(
        "topic", "partition"
    ).show(truncate=False)

    # Records as the Kafka connector gives them, without those of aborted transactions.
    records = (
        spark.read.format("kafka-log")
        .options(**chosen)
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load(path)
    )
    records.selectExpr("offset", "timestamp", "cast(key as string)", "cast(value as string)").show(
        5
    )

    # Headers of batches: what compression gives, and whether the bytes are intact.
    batches = spark.read.format("kafka-log").options(**chosen).option("view", "batches").load(path)
    batches.groupBy("magic", "codec", "crcValid").agg({"size": "sum", "*": "count"}).show()


if __name__ == "__main__":
    main(*sys.argv[1:])
