"""Run a job that writes: stage its parts in tasks, combine each partition, commit and publish.

A task stages files and marks its part as finished; a second run of the same job, on whichever
engine, leaves out what is marked.
"""

import errno
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from ottla.errors import (
    CorruptLogError,
    DataLossError,
    OptionError,
    PublishError,
    Row,
    UnsupportedError,
)
from ottla.format.names import TopicPartition
from ottla.jobs.engine import Engine, JobStep
from ottla.jobs.output import (
    OutputJob,
    OutputPart,
    nothing_to_register,
    publish_output,
    require_empty,
    require_room,
)
from ottla.publish.account import REQUESTS, read_account
from ottla.publish.checked import FinishedPartition
from ottla.publish.job import Job, job_name
from ottla.publish.journal import (
    discarded,
    finished_partitions,
    is_published,
    mark_finished,
    run_job,
)
from ottla.storage.retries import Requests

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


def run_output_job(engine: Engine, plan: OutputJob) -> list[Row]:
    """Stage every part, combine each partition, then commit, publish and give the account.

    What an earlier run of the same job staged is not done again.
    """
    job = Job(plan.out, job_name(plan.inputs, plan.options), plan.storage)

    def work(job: Job) -> list[Row]:
        if plan.private:
            require_empty(job)
        return stage_and_publish(engine, job, plan)

    return run_once(job, plan.log_starts, work, plan.register)


def run_once(
    job: Job,
    names: Iterable[TopicPartition],
    work: Callable[[Job], list[Row]],
    register: Callable[[Job], None] = nothing_to_register,
) -> list[Row]:
    """Do the work of a job, alone, where its logs are not yet; the account of one that is done."""
    with run_job(job.out, job.name, job.storage) as begun:
        if is_published(begun):
            rows = read_account(begun)
        else:
            require_room(begun, names)
            rows = work(begun)
        register(begun)  # also by the run after one that was killed before it came to this
        return rows


def stage_and_publish(engine: Engine, job: Job, plan: OutputJob) -> list[Row]:
    """Run a job that is locked and not done yet."""
    finished = stage(engine, job, plan.parts, plan.stage, title=plan.title)
    closing = plan.closing(finished)
    finished |= stage(engine, job, closing, plan.close, title="side files")
    chosen = {key: finished[key] for key in (*plan.parts, *closing)}
    return publish_output(job, plan, chosen)


def stage(
    engine: Engine,
    job: Job,
    parts: Mapping[str, OutputPart],
    work: Callable[[Job, Any], FinishedPartition],
    *,
    title: str,
) -> dict[str, FinishedPartition]:
    """Have tasks stage the parts that are not finished; all of them when they are."""
    finished = finished_partitions(job)
    left = [(key, part) for key, part in parts.items() if key not in finished]
    if left:
        sizes = [part.size for _, part in left]
        errors = list(engine.run(JobStep(title, left, sizes, _StagePart(job, work), _ERRORS)))
        if errors:
            raise pickle.loads(errors[0]["error"])  # noqa: S301  from a task of this job
        finished = finished_partitions(job)
    if not parts.keys() <= finished.keys():  # an object store has no locks
        raise discarded(job)
    return {key: finished[key] for key in parts}


class _StagePart:
    """Stages one part in a task and marks it; what can not be helped by trying again is a row."""

    def __init__(self, job: Job, work: Callable[[Job, Any], FinishedPartition]) -> None:
        self.job = job
        self.work = work

    def __call__(self, item: tuple[str, OutputPart]) -> Iterator[pa.RecordBatch]:
        key, part = item
        began, requests = time.perf_counter(), Requests()
        try:
            with requests.counting():
                finished = self.work(self.job, part)
            finished.account["seconds"] = round(time.perf_counter() - began, 3)
            finished.account.update(zip(REQUESTS, requests.take(), strict=True))
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
