"""The engine for terabytes and clusters: a Spark task for each part, a shuffle where rows meet."""

import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import Broadcast, cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from ottla.errors import Row
from ottla.jobs.engine import Grouping, JobStep
from ottla.spark.progress import show_progress
from ottla.spark.versions import Feature, has

_FEW_ROWS: Final = 50_000  # fit in the driver; an iterator runs a Spark job for every partition

_MOST_TASKS: Final = 4096  # of a step: each is work for the driver
_WITH_EVERY_TASK: Final = 1 << 20
_Part = TypeVar("_Part")


class SparkEngine(NamedTuple):
    """Runs the steps of jobs in a session."""

    spark: SparkSession
    quiet: bool = False

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        return int(self.spark.sparkContext.defaultParallelism)

    def run(self, step: JobStep, *groupings: Grouping) -> Iterator[Row]:
        """The rows of a step, or what became of them when they met."""
        frame, sent = map_parts(self.spark, step)
        sizes = [sum(sizes) for sizes in _shares(step.sizes)]
        try:
            for grouping in groupings:
                frame = _group(frame, grouping)
            with show_progress(self.spark, step.title, sizes, quiet=self.quiet):
                rows = _keep(frame) if groupings else iter(frame.collect())
            yield from (row.asDict() for row in rows)
        finally:
            if sent is not None:  # not sooner: kept rows that are lost are made again
                with suppress(Py4JError, FileNotFoundError):  # of a session that ended
                    sent.destroy()


def _keep(frame: DataFrame) -> Iterator[SparkRow]:
    """Rows that may be too many for the driver; they are made before this returns.

    Not kept longer than they are looked at: to Spark a second look at the same files is the same
    query, and it would answer with what it kept.
    """
    kept = frame.cache()
    few = kept.count() <= _FEW_ROWS

    def rows() -> Iterator[SparkRow]:
        try:
            yield from kept.collect() if few else kept.toLocalIterator()
        finally:
            with suppress(Py4JError):  # of a JVM that is gone; why it is gone says more
                kept.unpersist()

    return rows()


def map_parts(
    spark: SparkSession, step: JobStep
) -> tuple[DataFrame, Broadcast[list[bytes]] | None]:
    """What the work of a step gives for each part, one Spark task for each or for neighbours.

    What a function holds travels with every task: many parts are sent once, for the caller to
    destroy, and a task opens its own only.
    """
    work = step.work
    packed: list[bytes] = [cloudpickle.dumps(each) for each in _shares(step.parts)]  # type: ignore[no-untyped-call]
    is_small = sum(map(len, packed)) <= _WITH_EVERY_TASK
    sent = None if is_small else spark.sparkContext.broadcast(packed)
    held = packed if sent is None else sent

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shares = held if isinstance(held, list) else held.value
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part in pickle.loads(shares[number]):  # noqa: S301  of this job, from no file
                    yield from work(part)

    count = len(packed)
    numbers = spark.range(0, count, 1, max(1, count))
    return numbers.mapInArrow(run, from_arrow_schema(step.schema)), sent


def _place(frame: DataFrame, count: int, number: Column) -> DataFrame:
    """Rows in the partition, among `count`, that has this number."""
    if has(Feature.PARTITION_BY_ID):
        return frame.repartitionById(count, number)
    placed = F.array(*map(F.lit, _find_placed(frame.sparkSession, count)))
    return frame.repartition(count, F.get(placed.cast("array<bigint>"), number))


def _find_placed(spark: SparkSession, count: int) -> list[int]:
    """For each partition a number that Spark's hash partitioner puts there."""
    # That 30 numbers for each leave one without is as likely as count / e^30.
    placed = F.pmod(F.hash("id"), F.lit(count)).alias("partition")
    found = spark.range(30 * count).groupBy(placed).agg(F.min("id")).collect()
    return [number for _, number in sorted(map(tuple, found))]


def _shares(parts: Sequence[_Part]) -> list[Sequence[_Part]]:
    """Neighbours that share a task."""
    each = -(-len(parts) // _MOST_TASKS)
    return [parts[at : at + each] for at in range(0, len(parts), each or 1)]


def _group(frame: DataFrame, grouping: Grouping) -> DataFrame:
    work = grouping.work

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from work(batches)

    met = _place(frame, grouping.count, (F.col(grouping.by) % grouping.count).cast("int"))
    if grouping.order:
        met = met.sortWithinPartitions(*grouping.order)
    return met.mapInArrow(run, from_arrow_schema(grouping.schema))
