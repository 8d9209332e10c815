"""Compaction on Spark: a survey of logs, two shuffles that find what stays, then the writing."""

import os
import pickle
import time
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import from_arrow_schema

from ottla.catalog.logs import Log
from ottla.catalog.slices import Task
from ottla.jobs.compact.learn import (
    ENTRY_SCHEMA,
    FOUND_SCHEMA,
    SURVIVOR_SCHEMA,
    Found,
    choose_bucket_count,
    failure,
    learn_task,
    merge_bucket,
    write_survivors,
)
from ottla.jobs.compact.plan import (
    Compaction,
    FirstPass,
    explain,
    plan_first_pass,
    plan_second_pass,
    read_found,
    settle_now,
    write_found,
)
from ottla.jobs.compact.survey import Surveyed, survey_log
from ottla.publish.account import Row, read_account
from ottla.publish.journal import Job, is_published, run_job, scratch_job
from ottla.spark.progress import show_progress
from ottla.spark.run import FINAL_ERRORS, map_tasks, stage, stage_and_publish

_SURVEY_SCHEMA: Final = pa.schema([pa.field("surveyed", pa.binary(), nullable=False)])
_BYTES_PER_WRITER: Final = 256 << 20


def compact(spark: SparkSession, plan: Compaction, *, quiet: bool = False) -> list[Row]:
    """Write compacted logs and give the account; an earlier run of the same job is gone on with."""
    with run_job(plan.out, plan.name, plan.selection.storage) as job:
        if is_published(job):
            return read_account(job)
        now = settle_now(job, plan, _clock())
        surveyed = _survey(spark, plan, now, quiet)
        found = read_found(job)
        if found is None:
            found = _find_survivors(spark, plan, job, surveyed, quiet)
            write_found(job, found)
        second = plan_second_pass(plan, job, surveyed, found, now)
        return stage_and_publish(spark, job, second, quiet=quiet)


def explain_compaction(spark: SparkSession, plan: Compaction, *, quiet: bool = False) -> list[Row]:
    """For each log what would stay and what stands in the way; OUT and other jobs stay as is."""
    with scratch_job(plan.out, plan.selection.storage) as job:
        now = plan.now if plan.now is not None else _clock()
        surveyed = _survey(spark, plan, now, quiet)
        found = _find_survivors(spark, plan, job, surveyed, quiet)
        second = plan_second_pass(plan, job, surveyed, found, now)
        counted = stage(spark, job, second.parts, second.stage, title=second.title, quiet=quiet)
        return explain(surveyed, counted, found)


def _clock() -> int:
    return int(time.time() * 1000)


def _survey(spark: SparkSession, plan: Compaction, now: int, quiet: bool) -> list[Surveyed]:
    checkpoints, options, storage = plan.checkpoints, plan.options, plan.selection.storage

    def work(log: Log) -> Iterator[pa.RecordBatch]:
        checkpoint = None if log.name is None else checkpoints.get(log.name)
        data = [pickle.dumps(survey_log(log, checkpoint, now, options, storage))]
        yield pa.RecordBatch.from_arrays([pa.array(data, pa.binary())], schema=_SURVEY_SCHEMA)

    sizes = [sum(segment.log.size for segment in log.partition.segments) for log in plan.logs]
    with show_progress(spark, "survey", sizes, quiet=quiet):
        rows = map_tasks(spark, plan.logs, work, _SURVEY_SCHEMA).collect()
    return [pickle.loads(row["surveyed"]) for row in rows]  # noqa: S301  from a task of this job


def _find_survivors(
    spark: SparkSession, plan: Compaction, job: Job, surveyed: Sequence[Surveyed], quiet: bool
) -> dict[int, Found]:
    """The file of offsets that stay for each part that has any."""
    secret = np.frombuffer(os.urandom(16), dtype=np.uint64).copy()
    first = plan_first_pass(plan, surveyed, secret)
    if not first.tasks:
        return {}
    sizes = [sum(part.size for part in task) for task in first.tasks]
    with show_progress(spark, "keys", sizes, quiet=quiet):
        rows = _shuffle(spark, plan, job, first).collect()
    for row in rows:
        if row["error"] is not None:
            raise pickle.loads(row["error"])  # noqa: S301  from a task of this job
    return {row["part"]: Found(row["file"], row["keys"]) for row in rows}


def _shuffle(spark: SparkSession, plan: Compaction, job: Job, first: FirstPass) -> DataFrame:
    """Entries meet by bucket of their hash, and the offsets that stay by part."""
    buckets = choose_bucket_count(first.size)
    storage, limit = plan.selection.storage, plan.options.max_batch_bytes
    numbers, logs = first.numbers, first.logs

    def learn(task: Task) -> Iterator[pa.RecordBatch]:
        try:
            yield from learn_task(task, numbers, buckets, storage, limit)
        except FINAL_ERRORS as error:
            yield failure(ENTRY_SCHEMA, pickle.dumps(error))

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
