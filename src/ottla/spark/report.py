"""The report on Spark: a task for each part of each of its steps."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from ottla.errors import Row
from ottla.jobs.compact.plan import Compaction
from ottla.jobs.compact.survey import Surveyed
from ottla.jobs.report.steps import Sized
from ottla.jobs.verify.plan import VerifyOptions
from ottla.log.files.partition import Partition
from ottla.spark.compact import explain_surveyed
from ottla.spark.progress import show_progress
from ottla.spark.run import map_tasks
from ottla.spark.verify import verify


class SparkRunner(NamedTuple):
    """Runs the steps of a report; every worker reaches what is beside `scratch`."""

    spark: SparkSession
    scratch: str
    quiet: bool = False

    def map(
        self,
        title: str,
        parts: Sequence[Sized],
        work: Callable[[Any], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> Iterable[Row]:
        """What `work` gives for each part, as rows."""
        with show_progress(self.spark, title, [part.size for part in parts], quiet=self.quiet):
            rows = map_tasks(self.spark, parts, work, schema).collect()
        return [row.asDict() for row in rows]

    def verify(self, partitions: Sequence[Partition], options: VerifyOptions) -> Iterator[Row]:
        """The violations of partitions."""
        with verify(self.spark, partitions, options, quiet=self.quiet) as (frame, _):
            yield from (row.asDict() for row in frame.toLocalIterator())

    def explain(self, plan: Compaction, surveyed: Sequence[Surveyed], now: int) -> Sequence[Row]:
        """What a cleaner would leave of each log."""
        return explain_surveyed(self.spark, plan, surveyed, now, quiet=self.quiet)
