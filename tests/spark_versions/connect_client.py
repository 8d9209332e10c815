"""A client of Spark Connect: `connect_client.py WAY THIN LOGS OUT`, prints one line of JSON.

WAY is `api-mode`, or what `SparkSession.builder.remote` takes. A thin client has no ottla.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812


def start(way: str) -> SparkSession:
    if way == "api-mode":
        builder = SparkSession.builder.config("spark.api.mode", "connect").master("local[2]")
    else:
        builder = SparkSession.builder.remote(way)
    if not way.startswith("sc://"):
        # The server is of this process.
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    return builder.getOrCreate()


def use_by_name(spark: SparkSession, logs: str, out: str) -> dict[str, Any]:
    """Source, sink and streams, known by the name `kafka-log` only."""
    frame = spark.read.format("kafka-log").load(logs)
    rows = frame.agg(F.count("*"), F.sum("offset"), F.sum(F.length("value"))).first()
    some = spark.read.format("kafka-log").schema("offset bigint").load(logs)
    numbers = spark.range(0, 300, 1, 3).select(
        F.col("id").cast("string").alias("value"), F.lit(0).alias("partition")
    )
    numbers.write.format("kafka-log").option("topic", "t").mode("append").save(f"{out}/saved")
    stream = spark.readStream.format("kafka-log").option("startingOffsets", "earliest")
    writer = stream.load(f"{out}/saved").writeStream.format("kafka-log")
    writer = writer.option("checkpointLocation", f"{out}/state").trigger(availableNow=True)
    query = writer.start(f"{out}/copied")
    query.awaitTermination()
    return {"read": list(rows or ()), "offsets": some.count()}


def use_functions(spark: SparkSession, logs: str, out: str) -> dict[str, Any]:
    """What a client that has ottla can call beside; and what it cannot."""
    import ottla.spark
    from ottla.errors import OptionError

    assert ottla.spark.session() is spark
    frame = ottla.read_log(logs, columns=["value"], spark=spark)
    ottla.write_log(frame, f"{out}/written", topic="w", numPartitions=2)
    scanned = ottla.open(logs).scan("orders").to_spark(spark).count()
    try:
        ottla.open(logs).verify(engine="spark")
    except OptionError as error:
        refused = str(error)
    return {"count": frame.count(), "scanned": scanned, "refused": refused}


def main(way: str, thin: str, logs: str, out: str) -> None:
    if thin == "thin":
        sys.modules["ottla"] = sys.modules["pyspark_ottla"] = None  # type: ignore[assignment]
    spark = start(way)
    assert type(spark).__module__.startswith("pyspark.sql.connect")
    told = use_by_name(spark, logs, out)
    if thin != "thin":
        told |= use_functions(spark, logs, out)
    spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
