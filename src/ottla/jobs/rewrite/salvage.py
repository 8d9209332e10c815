"""Salvage in parts: segments are searched in parallel, then each partition keeps its best chain.

What is kept and what is quarantined does not depend on how the work is cut.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.catalog.chosen import ChosenLogs
from ottla.errors import PublishError
from ottla.format.names import TopicPartition
from ottla.jobs.output import OutputJob, choose_inputs
from ottla.log.files.partition import Partition, Segment
from ottla.log.salvage.found import StagedFound, stage_found
from ottla.log.salvage.plan import plan_from
from ottla.log.salvage.search import find_intact
from ottla.log.salvage.write import write_salvage
from ottla.publish.account import account_row
from ottla.publish.checked import FinishedPartition
from ottla.publish.job import Job
from ottla.publish.journal import new_staged_name, staged_path
from ottla.storage.files import open_file
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import is_remote, local_path


@dataclass(frozen=True, slots=True)
class Search:
    """A segment to be searched for intact batches."""

    name: TopicPartition
    segment: Segment
    storage: StorageOptions
    max_batch_bytes: int

    @property
    def size(self) -> int:
        return self.segment.log.size


class StagedSearch(NamedTuple):
    """The name under which a search staged its rows, how many, and how many are unreadable.

    As the account of a search has them, which a file may: nothing is certain of any.
    """

    found: Any
    intact: Any
    unreadable: Any


@dataclass(frozen=True, slots=True)
class Rescue:
    """A partition to be written from what was found in its segments."""

    partition: Partition
    log_start: int | None
    searches: tuple[StagedSearch, ...]
    storage: StorageOptions

    @property
    def size(self) -> int:
        return sum(segment.log.size for segment in self.partition.segments)


def plan_salvage_job(
    chosen: ChosenLogs, out: str, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> OutputJob:
    """Salvage what is chosen into OUT."""
    logs = choose_inputs(chosen, out)
    searches = {
        log.partition.directory: [
            (f"{log.partition.directory}.{segment.base_offset:020d}", segment)
            for segment in log.partition.segments
        ]
        for log in logs
    }
    parts = {
        key: Search(log.name, segment, chosen.storage, max_batch_bytes)
        for log in logs
        for key, segment in searches[log.partition.directory]
    }

    def closing(finished: Mapping[str, FinishedPartition]) -> dict[str, Rescue]:
        rescues = {}
        for log in logs:
            directory = log.partition.directory
            accounts = (finished[key].account for key, _ in searches[directory])
            staged = tuple(
                StagedSearch(*map(account.get, StagedSearch._fields)) for account in accounts
            )
            rescues[directory] = Rescue(log.partition, log.log_start, staged, chosen.storage)
        return rescues

    log_starts = {log.name: log.log_start for log in logs}
    return OutputJob(
        title="salvage",
        out=out,
        logs=logs,
        options={
            "command": "salvage",
            "maxBatchBytes": max_batch_bytes,
            "logStarts": sorted(log_starts.items()),
        },
        storage=chosen.storage,
        parts=parts,
        stage=search_segment,
        closing=closing,
        close=rescue_partition,
        log_starts=log_starts,
    )


def search_segment(job: Job, search: Search) -> FinishedPartition:
    """Find the intact batches of a segment and keep their table in the staging of the job."""
    staged, log = new_staged_name("found"), search.segment.log
    with open_file(log, search.storage) as file:
        pieces = find_intact(file, search.segment.base_offset, search.max_batch_bytes)
        found = stage_found(pieces, *_paths(job, staged), job.storage, log)
    known = StagedSearch(staged, found.count, found.unreadable)
    row = account_row(search.name.topic, search.name.partition)
    return FinishedPartition([], row | known._asdict())


def rescue_partition(job: Job, rescue: Rescue) -> FinishedPartition:
    """Choose the chain of a partition, and stage it and its quarantine."""
    segments = zip(rescue.searches, rescue.partition.segments, strict=True)
    found = [_read_search(job, search, segment) for search, segment in segments]
    scratch = None if is_remote(job.out) else os.path.dirname(local_path(staged_path(job, "found")))
    plans = plan_from(rescue.partition, found, scratch)
    log_start = rescue.log_start
    finished = write_salvage(rescue.partition, plans, job, rescue.storage, log_start)
    intact = sum(one.count for one in found)
    skipped = intact - finished.account["writtenBatches"]
    account = finished.account | {"readBatches": intact, "skippedBatches": skipped}
    notes = account.pop("notes")
    return FinishedPartition(finished.files, account_row(**account) | {"notes": notes})


def _read_search(job: Job, search: StagedSearch, segment: Segment) -> StagedFound:
    """What a search staged of a segment."""
    paths = _paths(job, search.found)
    if type(search.intact) is not int or type(search.unreadable) is not int:
        raise PublishError(
            f"nothing says how much was found in {segment.log.path}: delete {job.folder}, and"
            " salvage again"
        )
    return StagedFound(*paths, search.intact, search.unreadable, job.storage, segment.log)


def _paths(job: Job, staged: str) -> tuple[str, str]:
    """Where rows and violations of a segment are staged."""
    return staged_path(job, staged), staged_path(job, f"{staged}.jsonl")
