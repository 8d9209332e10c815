"""Salvage in parts: segments are searched in parallel, then each partition keeps its best chain.

What is kept and what is quarantined does not depend on how the work is cut.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.catalog.selection import Selection, choose_logs
from ottla.jobs.output import OutputJob
from ottla.log.files.checkpoints import TopicPartition
from ottla.log.files.partition import Partition, Segment
from ottla.log.salvage.plan import find_intact, plan_from, read_found, write_found
from ottla.log.salvage.write import write_salvage
from ottla.publish.account import account_row
from ottla.publish.journal import FinishedPartition, Job, new_staged_name, staged_path
from ottla.storage.files import open_file, read_bytes, write_file
from ottla.storage.object_store import StorageOptions


@dataclass(frozen=True, slots=True)
class Search:
    """A segment to be searched for intact batches."""

    name: TopicPartition | None
    segment: Segment
    storage: StorageOptions
    max_batch_bytes: int

    @property
    def size(self) -> int:
        return self.segment.log.size


@dataclass(frozen=True, slots=True)
class Rescue:
    """A partition to be written from what was found in its segments."""

    partition: Partition
    log_start: int | None
    found: tuple[str, ...]
    storage: StorageOptions

    @property
    def size(self) -> int:
        return sum(segment.log.size for segment in self.partition.segments)


def plan_salvage_job(
    selection: Selection, out: str, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> OutputJob:
    """Salvage what is chosen into OUT."""
    logs = choose_logs(selection)
    searches = {
        os.path.basename(log.partition.path): [
            (f"{os.path.basename(log.partition.path)}.{segment.base_offset:020d}", segment)
            for segment in log.partition.segments
        ]
        for log in logs
    }
    parts = {
        key: Search(log.name, segment, selection.storage, max_batch_bytes)
        for log in logs
        for key, segment in searches[os.path.basename(log.partition.path)]
    }

    def closing(finished: Mapping[str, FinishedPartition]) -> dict[str, Rescue]:
        rescues = {}
        for log in logs:
            directory = os.path.basename(log.partition.path)
            found = tuple(finished[key].account.get("found", "") for key, _ in searches[directory])
            rescues[directory] = Rescue(log.partition, log.log_start, found, selection.storage)
        return rescues

    log_starts = {log.name: log.log_start for log in logs if log.name is not None}
    return OutputJob(
        title="salvage",
        out=out,
        inputs=[entry for log in logs for entry in log.partition.entries],
        options={
            "command": "salvage",
            "maxBatchBytes": max_batch_bytes,
            "logStarts": sorted(log_starts.items()),
        },
        storage=selection.storage,
        parts=parts,
        stage=search_segment,
        closing=closing,
        close=rescue_partition,
        log_starts=log_starts,
    )


def search_segment(job: Job, search: Search) -> FinishedPartition:
    """Find the intact batches of a segment and keep their table in the staging of the job."""
    with open_file(search.segment.log, search.storage) as file:
        found = find_intact(file, search.segment.base_offset, search.max_batch_bytes)
    staged = new_staged_name("found")
    write_file(staged_path(job, staged), write_found(found), job.storage)
    return FinishedPartition([], _row(search.name) | {"found": staged})


def rescue_partition(job: Job, rescue: Rescue) -> FinishedPartition:
    """Choose the chain of a partition, and stage it and its quarantine."""
    found = []
    for staged, segment in zip(rescue.found, rescue.partition.segments, strict=True):
        path = staged_path(job, staged)
        found.append(read_found(read_bytes(path, job.storage), segment, path))
    plans = plan_from(rescue.partition, found)
    log_start = rescue.log_start
    finished = write_salvage(rescue.partition, plans, job, rescue.storage, log_start)
    intact = sum(its.batches.position.size for its in found)
    known = sum(int(plan.kept.count[plan.kept.count > 0].sum()) for plan in plans)
    more = {
        "readBatches": intact,
        "skippedBatches": intact - finished.account["writtenBatches"],
        "readRecords": known,
        "writtenRecords": known,
    }
    return FinishedPartition(finished.files, account_row(**(finished.account | more)))


def _row(name: TopicPartition | None) -> dict[str, Any]:
    return account_row(name.topic if name else None, name.partition if name else None)
