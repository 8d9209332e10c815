"""Run every job on a Spark master and compare it with one process: `jobs_on_master.py MASTER DIR`.

A process of its own, because there is one session for each.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.same import (
    SPLITS,
    check_commands,
    check_compact,
    check_output_jobs,
    check_salvage,
    check_verify,
)
from jobs.test_salvage import damaged_topic
from jobs.topics import write_topic
from ottla.spark.engine import SparkEngine
from spark.conftest import CONFIGURATION


def main(master: str, folder: Path) -> None:
    builder = SparkSession.builder.master(master).config("spark.executor.memory", "512m")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    engine = SparkEngine(spark)
    write_topic(folder / "sound" / "logs", "orders", partitions=2)
    damaged = damaged_topic(folder / "damaged")
    for split in SPLITS:
        check_output_jobs(engine, folder / "sound" / "logs", folder / str(split), split)
        check_verify(engine, damaged, split)
        check_compact(engine, folder / "sound" / "logs", folder / f"compact-{split}", split)
        check_commands(folder / "sound" / "logs", damaged, folder / f"commands-{split}", split)
    check_salvage(engine, damaged, folder)
    spark.stop()
    print("the same")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
