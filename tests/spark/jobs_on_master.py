"""Run every job on a Spark master and compare it with one process: `jobs_on_master.py MASTER DIR`.

A process of its own, because there is one session for each.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.test_salvage import damaged_topic
from jobs.topics import write_topic
from spark.conftest import CONFIGURATION
from spark.test_compact import check_compact
from spark.test_jobs import SPLITS, check_output_jobs, check_salvage, check_verify


def main(master: str, folder: Path) -> None:
    builder = SparkSession.builder.master(master).config("spark.executor.memory", "512m")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    write_topic(folder / "sound" / "logs", "orders", partitions=2)
    damaged = damaged_topic(folder / "damaged")
    for split in SPLITS:
        check_output_jobs(spark, folder / "sound" / "logs", folder / str(split), split)
        check_verify(spark, damaged, split)
        check_compact(spark, folder / "sound" / "logs", folder / f"compact-{split}", split)
    check_salvage(spark, damaged, folder)
    spark.stop()
    print("the same")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
