"""A driver of the cluster: `cluster_query.py MASTER`, then lines `WHAT GATES LOGS OUT` on stdin.

A process of its own, because there is one session for each. It says `done` after each line.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from choosing import choose
from jobs.test_compact import CLEANING, NOW
from ottla.batch.convert import Conversion
from ottla.errors import Row
from ottla.format.attributes import Codec
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.run import compact
from ottla.jobs.engine import Engine, Grouping, JobStep
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.run import run_output_job
from ottla.spark.engine import SparkEngine
from spark.conftest import CONFIGURATION
from spark_versions.gates import gated, pass_gate

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.task.maxFailures": "8",
    "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),  # for gates
}
COUNT, TASKS = 24_000, 12
SPLIT = 4000


def main(master: str) -> None:
    builder = SparkSession.builder.master(master)
    for name, value in (CONFIGURATION | SETTINGS).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        what, *words = line.split()
        OPERATIONS[what](spark, *words)
        print("done", flush=True)
    spark.stop()


def read(spark: SparkSession, gates: str, logs: str, out: str) -> None:
    frame = spark.read.format("kafka-log").option("splitBytes", str(SPLIT)).load(logs)
    frame = frame.select("partition", "offset", "key", "value")

    def gate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return gated(batches, gates)

    rows = frame.mapInArrow(gate, frame.schema).collect()
    found = [
        (row.partition, row.offset, *(None if each is None else each.hex() for each in row[2:]))
        for row in rows
    ]
    with open(out, "w") as file:
        json.dump(sorted(found, key=lambda line: line[:2]), file)


def save(spark: SparkSession, gates: str, logs: str, out: str) -> None:
    frame = spark.range(0, COUNT, 1, TASKS).select(
        F.concat(F.lit("key "), F.col("id") % 50).alias("key"),
        F.col("id").cast("string").alias("value"),
    )

    def gate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return gated(batches, gates)

    rows = frame.mapInArrow(gate, frame.schema)
    writer = rows.write.format("kafka-log").options(topic="t", numPartitions=3, batchBytes=2000)
    writer.mode("append").save(out)


class GatedEngine(NamedTuple):
    """Spark, with gates in the tasks of one step: they have done their work, and not told yet."""

    spark: SparkEngine
    title: str
    gates: str

    @property
    def cores(self) -> int:
        return self.spark.cores

    def run(self, step: JobStep, *groupings: Grouping) -> Iterator[Row]:
        if step.title == self.title:
            step = replace(step, work=_gate_work(step.work, self.gates))
        return self.spark.run(step, *groupings)


def _gate_work(
    work: Callable[[Any], Iterable[pa.RecordBatch]], gates: str
) -> Callable[[Any], Iterable[pa.RecordBatch]]:
    def run(part: Any) -> Iterator[pa.RecordBatch]:
        done = list(work(part))
        pass_gate(gates)
        yield from done

    return run


def run_job(what: str, engine: Engine, logs: str, out: str) -> None:
    """A job with its tasks on an engine."""
    if what == "convert":
        conversion = Conversion(magic=2, codec=Codec.LZ4)
        run_output_job(engine, plan_convert(choose(logs), out, conversion, {}, split_bytes=SPLIT))
        return
    options = replace(CLEANING, split_bytes=SPLIT, segment_bytes=9000)
    compact(engine, plan_compaction(choose(logs), out, options, now=NOW))


def convert(spark: SparkSession, gates: str, logs: str, out: str) -> None:
    run_job("convert", GatedEngine(SparkEngine(spark), "convert", gates), logs, out)


def clean(spark: SparkSession, gates: str, logs: str, out: str) -> None:
    """Its first pass shuffles, and what an executor has shuffled is gone with it."""
    run_job("compact", GatedEngine(SparkEngine(spark), "keys", gates), logs, out)


OPERATIONS = {"read": read, "save": save, "convert": convert, "compact": clean}

if __name__ == "__main__":
    main(*sys.argv[1:])
