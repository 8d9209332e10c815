"""Read logs with the Spark source: python read_remote.py OUT PATH..., rows as Parquet."""

import sys

from pyspark.sql import SparkSession

from ottla.spark import register
from spark.conftest import CONFIGURATION


def main(out: str, *paths: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    options = {"splitBytes": "500000"}
    rows = spark.read.format("kafka-log").options(**options).load(list(paths))
    rows.filter("topic = 'remote'").select("offset", "key", "value").write.parquet(out)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
