"""Compaction on Spark: a survey of logs, two shuffles that find what stays, then the writing."""

import os
import time
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import from_arrow_schema

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
from ottla.jobs.output import require_room
from ottla.publish.account import read_account
from ottla.publish.job import Job
from ottla.publish.journal import is_published, run_job, scratch_job
from ottla.spark.progress import show_progress
from ottla.spark.run import FINAL_ERRORS, map_tasks, stage, stage_and_publish

_BYTES_PER_WRITER: Final = 256 << 20


def compact(spark: SparkSession, plan: Compaction, *, quiet: bool = False) -> list[Row]:
    """Write compacted logs and give the account; an earlier run of the same job is gone on with."""
    with run_job(plan.out, plan.name, plan.storage) as job:
        if is_published(job):
            return read_account(job)
        require_room(job, [log.name for log in plan.logs if log.name is not None])
        now = settle_now(job, plan, _clock())
        surveyed = _survey(spark, plan, now, quiet)
        found = read_found(job)
        if found is None:
            found, uncleanable = _learn(spark, plan, job, surveyed, quiet)
            if uncleanable:
                raise uncleanable[min(uncleanable)]
            write_found(job, found)
        second = plan_second_pass(plan, job, surveyed, found, now)
        return stage_and_publish(spark, job, second, quiet=quiet)


def explain_compaction(spark: SparkSession, plan: Compaction, *, quiet: bool = False) -> list[Row]:
    """For each log what would stay and what stands in the way; OUT and other jobs stay as is."""
    now = plan.now if plan.now is not None else _clock()
    surveyed = _survey(spark, plan, now, quiet)
    return explain_surveyed(spark, plan, surveyed, now, quiet=quiet)


def explain_surveyed(
    spark: SparkSession,
    plan: Compaction,
    surveyed: Sequence[Surveyed],
    now: int,
    *,
    quiet: bool = False,
) -> list[Row]:
    """The same of logs whose headers are known."""
    with scratch_job(plan.out, plan.storage) as job:
        learnt = _learn(spark, plan, job, surveyed, quiet)
        second = plan_second_pass(plan, job, surveyed, learnt.found, now)
        counted = stage(spark, job, second.parts, second.stage, title=second.title, quiet=quiet)
        return explain(surveyed, counted, learnt)


def _clock() -> int:
    return int(time.time() * 1000)


def _survey(spark: SparkSession, plan: Compaction, now: int, quiet: bool) -> list[Surveyed]:
    parts = plan_surveys(plan, now)
    with show_progress(spark, "survey", [part.size for part in parts], quiet=quiet):
        rows = map_tasks(spark, parts, survey_task, SURVEYED_SCHEMA).collect()
    return read_surveyed(row.asDict() for row in rows)


def _learn(
    spark: SparkSession, plan: Compaction, job: Job, surveyed: Sequence[Surveyed], quiet: bool
) -> Learnt:
    """The file of offsets that stay for each part that has any."""
    secret = np.frombuffer(os.urandom(16), dtype=np.uint64).copy()
    first = plan_first_pass(plan, surveyed, secret)
    if not first.tasks:
        return Learnt({}, {})
    sizes = [sum(part.size for part in task) for task in first.tasks]
    with show_progress(spark, "keys", sizes, quiet=quiet):
        rows = _shuffle(spark, plan, job, first).collect()
    return read_learnt(row.asDict() for row in rows)


def _shuffle(spark: SparkSession, plan: Compaction, job: Job, first: FirstPass) -> DataFrame:
    """Entries meet by bucket of their hash, and the offsets that stay by part."""
    buckets = choose_bucket_count(first.size)
    storage, limit = plan.storage, plan.options.max_batch_bytes
    numbers, logs = first.numbers, first.logs

    def learn(task: Task) -> Iterator[pa.RecordBatch]:
        try:
            yield from learn_task(task, numbers, buckets, storage, limit)
        except FINAL_ERRORS as error:
            yield failure(ENTRY_SCHEMA, error)

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return merge_bucket(batches, logs)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_survivors(job, batches)

    entries = map_tasks(spark, first.tasks, learn, ENTRY_SCHEMA)
    by_bucket = entries.repartitionById(buckets, col("bucket"))
    survivors = by_bucket.mapInArrow(merge, from_arrow_schema(SURVIVOR_SCHEMA))
    cores = spark.sparkContext.defaultParallelism
    tasks = min(first.part_count, cores + first.size // _BYTES_PER_WRITER)
    by_part = survivors.repartitionById(tasks, (col("part") % tasks).cast("int"))
    return by_part.mapInArrow(write, from_arrow_schema(FOUND_SCHEMA))
