"""Follow a log directory into Parquet: `python examples/spark_stream.py [PATH SINK]`.

Run it again and it goes on where it stopped. Each record is in the sink once, also when the query
is killed: positions are in the checkpoint, and the same positions always give the same records.
Without PATH and SINK it follows the orders of a small cluster whose logs it makes.
"""

import shutil
import sys
import tempfile

import ottla.spark
from ottla.jobs.demo import make_logs


def main(path: str | None = None, sink: str | None = None) -> None:
    if path is not None and sink is not None:
        follow(path, sink)
        return
    with tempfile.TemporaryDirectory() as folder:
        make_logs(f"{folder}/kafka-logs")
        shutil.rmtree(f"{folder}/kafka-logs/payments-0")  # which are damaged
        follow(f"{folder}/kafka-logs", f"{folder}/sink")


def follow(path: str, sink: str) -> None:
    spark = ottla.spark.session()
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
