"""Verify on Spark: slices are looked at in parallel, then each partition is judged in order."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import from_arrow_schema

from ottla.errors import Row
from ottla.jobs.verify.plan import (
    SEEN_SCHEMA,
    VERDICT_SCHEMA,
    VerifyOptions,
    judge_partitions,
    plan_verify,
    see_part,
)
from ottla.log.files.partition import Partition
from ottla.spark.progress import show_progress
from ottla.spark.run import map_tasks


@contextmanager
def verify(
    spark: SparkSession,
    partitions: Sequence[Partition],
    options: VerifyOptions,
    *,
    quiet: bool = False,
) -> Iterator[tuple[DataFrame, list[Row]]]:
    """The violations of partitions, and the account of having looked; both are kept till the end.

    Not longer: to Spark a second look at the same files is the same query, and it would answer with
    what it kept.
    """
    parts = plan_verify(partitions, options)
    seen = map_tasks(spark, parts, lambda part: see_part(part, options), SEEN_SCHEMA)
    # A shuffle brings the windows of a partition together; sorted, they pass one at a time.
    count = max(1, min(len(partitions), spark.sparkContext.defaultParallelism))
    ordered = seen.repartition(count, "log").sortWithinPartitions(
        "log", "segment", "start", "window"
    )

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        return judge_partitions(rows, partitions, options)

    verdicts = ordered.mapInArrow(judge, from_arrow_schema(VERDICT_SCHEMA)).cache()
    try:
        with show_progress(spark, "verify", [part.size for part in parts], quiet=quiet):
            accounts = verdicts.where(col("account").isNotNull()).select("account").collect()
        rows = [json.loads(account) for (account,) in accounts]
        yield verdicts.where(col("account").isNull()).drop("account"), sorted(rows, key=_name)
    finally:
        with suppress(Py4JError):  # of a JVM that is gone; why it is gone says more
            verdicts.unpersist()


def _name(row: Row) -> tuple[str, int]:
    return row["topic"] or "", row["partition"] or 0
