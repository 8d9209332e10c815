"""Read log directories as tables: `python examples/spark_read.py [PATH [TOPIC]]`.

PATH is a broker's `log.dirs`, a copy of it, one partition directory, or a prefix in a bucket.
Without it, the logs of a small cluster are made and read; its payments are damaged, so that only
its orders are.
"""

import sys
import tempfile

import ottla
import ottla.spark
from ottla.jobs.demo import make_logs


def main(path: str | None = None, topic: str | None = None) -> None:
    if path is None:
        with tempfile.TemporaryDirectory() as folder:
            make_logs(f"{folder}/kafka-logs")
            read(f"{folder}/kafka-logs", "orders")
    else:
        read(path, topic)


def read(path: str, topic: str | None) -> None:
    spark = ottla.spark.session()
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
