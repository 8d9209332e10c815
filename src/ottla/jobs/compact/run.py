"""Run a compaction: a survey of logs, rows that meet twice to find what stays, then the writing."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ottla.catalog.slices import Task
from ottla.errors import Row
from ottla.jobs.compact.explain import explain
from ottla.jobs.compact.learn import (
    ENTRY_SCHEMA,
    FOUND_SCHEMA,
    SURVIVOR_SCHEMA,
    Learnt,
    choose_bucket_count,
    failure,
    learn_task,
    merge_bucket,
    read_learnt,
    write_survivors,
)
from ottla.jobs.compact.plan import (
    Compaction,
    FirstPass,
    plan_first_pass,
    plan_second_pass,
    plan_surveys,
    read_found,
    settle_now,
    write_found,
)
from ottla.jobs.compact.survey import (
    SURVEYED_SCHEMA,
    Surveyed,
    read_surveyed,
    survey_task,
)
from ottla.jobs.engine import Engine, Grouping, JobStep
from ottla.jobs.run import FINAL_ERRORS, run_once, stage, stage_and_publish
from ottla.publish.job import Job
from ottla.publish.journal import scratch_job

_BYTES_PER_WRITER: Final = 256 << 20


def compact(engine: Engine, plan: Compaction) -> list[Row]:
    """Write compacted logs and give the account; an earlier run of the same job is gone on with."""
    job = Job(plan.out, plan.name, plan.storage)
    names = [log.name for log in plan.logs]
    return run_once(job, names, lambda job: _compact(engine, plan, job))


def _compact(engine: Engine, plan: Compaction, job: Job) -> list[Row]:
    now = settle_now(job, plan, _clock())
    surveyed = survey(engine, plan, now)
    found = read_found(job)
    if found is None:
        found, uncleanable = _learn(engine, plan, job, surveyed)
        if uncleanable:
            raise uncleanable[min(uncleanable)]
        write_found(job, found)
    second = plan_second_pass(plan, job, surveyed, found, now)
    return stage_and_publish(engine, job, second)


def explain_compaction(engine: Engine, plan: Compaction) -> list[Row]:
    """For each log what would stay and what stands in the way; OUT and other jobs stay as is."""
    now = plan.now if plan.now is not None else _clock()
    return explain_surveyed(engine, plan, survey(engine, plan, now), now)


def explain_surveyed(
    engine: Engine, plan: Compaction, surveyed: Sequence[Surveyed], now: int
) -> list[Row]:
    """The same of logs whose headers are known."""
    with scratch_job(plan.out, plan.storage) as job:
        learnt = _learn(engine, plan, job, surveyed)
        second = plan_second_pass(plan, job, surveyed, learnt.found, now)
        counted = stage(engine, job, second.parts, second.stage, title=second.title)
        return explain(surveyed, counted, learnt)


def survey(engine: Engine, plan: Compaction, now: int) -> list[Surveyed]:
    """What headers say of each log."""
    parts = plan_surveys(plan, now)
    sizes = [part.size for part in parts]
    return read_surveyed(engine.run(JobStep("survey", parts, sizes, survey_task, SURVEYED_SCHEMA)))


def _clock() -> int:
    return int(time.time() * 1000)


def _learn(engine: Engine, plan: Compaction, job: Job, surveyed: Sequence[Surveyed]) -> Learnt:
    """The file of offsets that stay for each part that has any."""
    secret = np.frombuffer(os.urandom(16), dtype=np.uint64).copy()
    first = plan_first_pass(plan, surveyed, secret)
    if not first.tasks:
        return Learnt({}, {})
    return read_learnt(_meet(engine, plan, job, first))


def _meet(engine: Engine, plan: Compaction, job: Job, first: FirstPass) -> Iterator[Row]:
    """Entries meet by bucket of their hash, and the offsets that stay by part."""
    buckets = choose_bucket_count(first.size)
    storage, limit = plan.storage, plan.options.max_batch_bytes
    numbers, logs = first.numbers, first.logs

    def learn(task: Task) -> Iterator[pa.RecordBatch]:
        try:
            yield from learn_task(task, numbers, buckets, storage, limit)
        except FINAL_ERRORS as error:
            yield failure(ENTRY_SCHEMA, error)

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return merge_bucket(batches, logs)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return write_survivors(job, batches)

    writers = min(first.part_count, engine.cores + first.size // _BYTES_PER_WRITER)
    sizes = [sum(part.size for part in task) for task in first.tasks]
    return engine.run(
        JobStep("keys", first.tasks, sizes, learn, ENTRY_SCHEMA),
        Grouping("bucket", buckets, (), merge, SURVIVOR_SCHEMA),
        Grouping("part", writers, (), write, FOUND_SCHEMA),
    )
