"""A process that has ottla only as a zip, and a cluster to which it ships it."""

import sys

from pyspark.sql import SparkSession


def where_ottla_is(_: int) -> str:
    import ottla

    return str(ottla.__file__)


def main(archive: str, logs: str, master: str) -> None:
    sys.path.insert(0, archive)
    from ottla.spark import register

    spark = (
        SparkSession.builder.master(master)
        .config("spark.executor.memory", "512m")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.addPyFile(archive)
    register(spark)
    home = spark.sparkContext.parallelize([0], 1).map(where_ottla_is).first()
    print(spark.read.format("kafka-log").load(logs).count(), "ottla.zip" in home)


if __name__ == "__main__":
    main(*sys.argv[1:])
