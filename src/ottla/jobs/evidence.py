"""Evidence: what a job read, by size and SHA-256, in the account of what it wrote.

Tasks hash the files of the chosen partitions and of their log directories (checkpoints among them)
as bytes, beside the tasks that do the work. A file counts up to the size that it was listed with: a
broker may have appended to it since.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ottla.catalog.logs import Log
from ottla.format.names import TopicPartition
from ottla.jobs.output import OutputJob
from ottla.publish.account import account_row
from ottla.publish.checked import FinishedPartition
from ottla.publish.job import Job
from ottla.storage.files import open_file
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions

_CHUNK_BYTES: Final = 4 << 20
_PART_BYTES: Final = 256 << 20
_PART_FILES: Final = 1000


@dataclass(frozen=True, slots=True)
class Inputs:
    """Files of one partition to be hashed by one task."""

    name: TopicPartition
    entries: tuple[Entry, ...]
    storage: StorageOptions

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)


def with_evidence(plan: OutputJob) -> OutputJob:
    """The same job, whose account has `inputs` for each partition."""
    parts = (part for log, files in _files(plan.logs) for part in _cut(log, files, plan.storage))
    named = {f"inputs.{number:06d}": part for number, part in enumerate(parts)}
    return replace(
        plan,
        options={**plan.options, "evidence": True},
        parts={**plan.parts, **named},
        stage=_StageOrHash(plan.stage),
    )


def _files(logs: Iterable[Log]) -> Iterator[tuple[Log, list[Entry]]]:
    """The files of each log; those of a log directory come with the first that lies in it."""
    given: set[str] = set()
    for log in logs:
        beside = [entry for entry in log.beside if entry.path not in given]
        given.update(entry.path for entry in beside)
        stored = {entry.path: entry for entry in map(_stored, log.partition.entries) if entry}
        yield log, [*beside, *stored.values()]


def _stored(entry: Entry) -> Entry | None:
    """The file whose bytes are read: remote storage packs many into one, and some are in none."""
    found: Entry | None = entry
    while found is not None and found.kept is not None:
        found = found.kept.lies_in
    return found


def _cut(log: Log, entries: Iterable[Entry], storage: StorageOptions) -> Iterator[Inputs]:
    """A task takes one large file, or many small ones."""
    held: list[Entry] = []
    for entry in entries:
        size = entry.size + sum(one.size for one in held)
        if held and (size > _PART_BYTES or len(held) == _PART_FILES):
            yield Inputs(log.name, tuple(held), storage)
            held = []
        held.append(entry)
    if held:
        yield Inputs(log.name, tuple(held), storage)


class _StageOrHash:
    """What a task does with a part: hash it, or what the job does with its own; travels to it."""

    def __init__(self, work: Callable[[Job, Any], FinishedPartition]) -> None:
        self.work = work

    def __call__(self, job: Job, part: Any) -> FinishedPartition:
        return hash_inputs(part) if isinstance(part, Inputs) else self.work(job, part)


def hash_inputs(part: Inputs) -> FinishedPartition:
    """Nothing is staged; the account says what was read."""
    rows = [
        {"file": entry.path, "bytes": entry.size, "sha256": _hash(entry, part.storage)}
        for entry in part.entries
    ]
    return FinishedPartition([], account_row(*part.name) | {"inputs": rows})


def _hash(entry: Entry, storage: StorageOptions) -> str:
    digest = hashlib.sha256()
    buffer = np.empty(min(_CHUNK_BYTES, entry.size), dtype=np.uint8)
    with open_file(entry, storage) as file:
        for position in range(0, entry.size, _CHUNK_BYTES):
            chunk = buffer[: min(_CHUNK_BYTES, entry.size - position)]
            file.fill(chunk, position, chunk.size)
            digest.update(chunk.data)
    return digest.hexdigest()
