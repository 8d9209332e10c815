"""Compaction in this process, by the job's own steps; and what a naive cleaner leaves of a log."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.plain import publish_plainly
from ottla.jobs.compact.explain import explain
from ottla.jobs.compact.learn import (
    Learnt,
    learn_task,
    merge_bucket,
    read_learnt,
    write_survivors,
)
from ottla.jobs.compact.plan import Compaction, plan_first_pass, plan_second_pass, plan_surveys
from ottla.jobs.compact.survey import Surveyed, survey_log
from ottla.jobs.output import require_room
from ottla.publish.account import read_account
from ottla.publish.job import Job
from ottla.publish.journal import is_published, run_job, scratch_job
from ottla.rules.cleaner.compaction import Round
from rules import cleaning, naive_compaction
from rules.cleaning import as_read, decode

SECRET = np.array([7, 8], dtype=np.uint64)
BUCKETS = 3


def compact_plainly(plan: Compaction) -> list[dict[str, Any]]:
    """The tasks of a compaction one after another; `plan` says what time it is."""
    assert plan.now is not None
    with run_job(plan.out, plan.name) as job:
        if is_published(job):
            return read_account(job)
        require_room(job, [log.name for log in plan.logs if log.name is not None])
        surveyed = survey_plainly(plan)
        found, uncleanable = learn_plainly(plan, job, surveyed)
        for error in uncleanable.values():
            raise error
        return publish_plainly(job, plan_second_pass(plan, job, surveyed, found, plan.now))


def explain_plainly(
    plan: Compaction, surveyed: Sequence[Surveyed] | None = None
) -> list[dict[str, Any]]:
    """The same that only counts, of all logs or of those that were surveyed."""
    assert plan.now is not None
    surveyed = survey_plainly(plan) if surveyed is None else surveyed
    with scratch_job(plan.out) as job:
        learnt = learn_plainly(plan, job, surveyed)
        second = plan_second_pass(plan, job, surveyed, learnt.found, plan.now)
        counted = {key: second.stage(job, part) for key, part in second.parts.items()}
        return explain(surveyed, counted, learnt)


def survey_plainly(plan: Compaction) -> list[Surveyed]:
    assert plan.now is not None
    return [survey_log(part) for part in plan_surveys(plan, plan.now)]


def learn_plainly(plan: Compaction, job: Job, surveyed: Sequence[Surveyed]) -> Learnt:
    first = plan_first_pass(plan, surveyed, SECRET)
    by_bucket = defaultdict(list)
    for task in first.tasks:
        limit, storage = plan.options.max_batch_bytes, plan.storage
        for batch in learn_task(task, first.numbers, BUCKETS, storage, limit):
            collect(by_bucket, batch, "bucket")
    by_part = defaultdict(list)
    for rows in by_bucket.values():
        for batch in merge_bucket(rows, first.logs):
            collect(by_part, batch, "part")
    found = [batch for rows in by_part.values() for batch in write_survivors(job, rows)]
    return read_learnt(row for batch in found for row in batch.to_pylist())


def collect(rows: dict[int, list[pa.RecordBatch]], batch: pa.RecordBatch, column: str) -> None:
    """What a shuffle does."""
    for row, number in enumerate(batch.column(column).to_pylist()):
        rows[number].append(batch.slice(row, 1))


def clean_alone(folder: Path, bound: int, now: int, retention: int, dirty: int = 0) -> bytes:
    """What one cleaner leaves of the segments below the bound; the naive one leaves the same."""
    data, rest = logs_below(folder, bound), logs_from(folder, bound)
    cleaned, _ = cleaning.clean(data, rest, Round(bound, now, retention), dirty=dirty)
    left = cleaned.written.tobytes()
    batches = decode(data)
    expected = naive_compaction.clean(batches, batches + decode(rest), dirty, bound, now, retention)
    assert decode(left) == as_read(expected)
    return left


def logs_below(folder: Path, bound: int) -> bytes:
    logs = sorted(folder.glob("*.log"))
    return b"".join(path.read_bytes() for path in logs if int(path.stem) < bound)


def logs_from(folder: Path, bound: int) -> bytes:
    logs = sorted(folder.glob("*.log"))
    return b"".join(path.read_bytes() for path in logs if int(path.stem) >= bound)
