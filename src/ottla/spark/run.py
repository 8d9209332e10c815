"""Run jobs on Spark: a task for each part, then what combines them. Translation only.

A task gives Arrow, or stages files and marks them; the driver commits and publishes.
"""

import errno
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from ottla.errors import (
    CorruptLogError,
    DataLossError,
    OptionError,
    PublishError,
    Row,
    UnsupportedError,
)
from ottla.jobs.output import OutputJob, OutputPart, publish_output, require_room
from ottla.publish.account import read_account
from ottla.publish.checked import FinishedPartition
from ottla.publish.job import Job, job_name
from ottla.publish.journal import finished_partitions, is_published, mark_finished, run_job
from ottla.spark.progress import show_progress

T = TypeVar("T")

_ERRORS: Final = pa.schema([pa.field("error", pa.binary(), nullable=False)])
# To try again does not help against these.
FINAL_ERRORS: Final = (
    CorruptLogError,
    DataLossError,
    FileNotFoundError,
    OptionError,
    PublishError,
    UnsupportedError,
)
_DISK_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES})


def map_tasks(
    spark: SparkSession,
    parts: Sequence[T],
    work: Callable[[T], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """What `work` gives for each part, one Spark task for each."""
    count = len(parts)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(parts[number])

    numbers = spark.range(0, count, 1, max(1, count))
    return numbers.mapInArrow(run, from_arrow_schema(schema))


def run_output_job(spark: SparkSession, plan: OutputJob, *, quiet: bool = False) -> list[Row]:
    """Stage every part, combine each partition, then commit, publish and give the account.

    What an earlier run of the same job staged is not done again.
    """
    name = job_name(plan.inputs, plan.options)
    with run_job(plan.out, name, plan.storage) as job:
        if is_published(job):
            return read_account(job)
        require_room(job, plan.log_starts)
        return stage_and_publish(spark, job, plan, quiet=quiet)


def stage_and_publish(
    spark: SparkSession, job: Job, plan: OutputJob, *, quiet: bool = False
) -> list[Row]:
    """Run a job that is locked and not done yet."""
    finished = stage(spark, job, plan.parts, plan.stage, title=plan.title, quiet=quiet)
    closing = plan.closing(finished)
    finished |= stage(spark, job, closing, plan.close, title="side files", quiet=quiet)
    chosen = {key: finished[key] for key in (*plan.parts, *closing)}
    return publish_output(job, plan, chosen)


def stage(
    spark: SparkSession,
    job: Job,
    parts: Mapping[str, OutputPart],
    work: Callable[[Job, Any], FinishedPartition],
    *,
    title: str = "",
    quiet: bool = False,
) -> dict[str, FinishedPartition]:
    """Have tasks stage the parts that are not finished; all of them when they are."""
    finished = finished_partitions(job)
    left = [(key, part) for key, part in parts.items() if key not in finished]
    if left:
        sizes = [part.size for _, part in left]
        with show_progress(spark, title, sizes, quiet=quiet):
            tasks = map_tasks(spark, left, _StagePart(job, work), _ERRORS)
            errors = tasks.collect()
        if errors:
            raise pickle.loads(errors[0]["error"])  # noqa: S301  from a task of this job
        finished = finished_partitions(job)
    return {key: finished[key] for key in parts}


class _StagePart:
    """Stages one part in a task and marks it; what can not be helped by trying again is a row."""

    def __init__(self, job: Job, work: Callable[[Job, Any], FinishedPartition]) -> None:
        self.job = job
        self.work = work

    def __call__(self, item: tuple[str, OutputPart]) -> Iterator[pa.RecordBatch]:
        key, part = item
        began = time.perf_counter()
        try:
            finished = self.work(self.job, part)
            finished.account["seconds"] = round(time.perf_counter() - began, 3)
            mark_finished(self.job, key, finished)
        except FINAL_ERRORS as error:
            yield _error_row(error)
        except OSError as error:
            if error.errno not in _DISK_ERRORS:
                raise
            error.filename = error.filename or self.job.folder  # a full disk has no name
            yield _error_row(error)


def _error_row(error: Exception) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([pickle.dumps(error)], pa.binary())], schema=_ERRORS
    )
