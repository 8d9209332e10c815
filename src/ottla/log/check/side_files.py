"""Check the files beside a log against what the log says."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np

from ottla.errors import CorruptLogError, Rule, Violation
from ottla.format.names import (
    INDEX_KINDS,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    Kind,
)
from ottla.kernels.producers.state import Completed
from ottla.log.check.order import LogState
from ottla.log.files.checkpoints import EpochStart, check_leader_epochs, read_leader_epochs
from ottla.log.files.identity import read_topic_id
from ottla.log.files.index_file import Landmarks
from ottla.log.files.offset_index import (
    check_offset_index,
    check_offset_index_against,
    read_offset_index,
)
from ottla.log.files.partition import Partition, Segment
from ottla.log.files.producer_snapshot import read_producer_snapshot
from ottla.log.files.small_files import LIMIT, read_preallocated, read_small
from ottla.log.files.time_index import check_time_index, check_time_index_against, read_time_index
from ottla.log.files.transaction_index import (
    check_transaction_index,
    check_transaction_index_against,
    read_transaction_index,
)
from ottla.rules.producers.producer import ProducerState
from ottla.rules.producers.snapshots import to_snapshot
from ottla.storage.files import open_remaining
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions

T = TypeVar("T")
_OFFSET_KINDS: Final = tuple(kind for kind in Kind if kind is not Kind.METADATA_SNAPSHOT)


def check_indexes(
    segment: Segment, batches: Landmarks, completed: Completed, options: StorageOptions
) -> Iterator[Violation]:
    """The indexes of a segment against its sound batches and the transactions that end in it."""
    offset_index = segment.side_files.get(Kind.OFFSET_INDEX)
    if offset_index:
        yield from _check_offset_index(segment, offset_index, batches, options)
    time_index = segment.side_files.get(Kind.TIME_INDEX)
    if time_index:
        yield from _check_time_index(segment, time_index, batches, options)
    yield from _check_transaction_index(segment, completed, options)


def _check_offset_index(
    segment: Segment, entry: Entry, batches: Landmarks, options: StorageOptions
) -> Iterator[Violation]:
    base = segment.base_offset
    data, violations = _read_data(read_preallocated, entry, options)
    violations += check_offset_index(data, base, entry.path)
    yield from violations
    if not violations:
        index = read_offset_index(data, base)
        yield from check_offset_index_against(index, batches, segment.log.size, entry.path)


def _check_time_index(
    segment: Segment, entry: Entry, batches: Landmarks, options: StorageOptions
) -> Iterator[Violation]:
    base = segment.base_offset
    data, violations = _read_data(read_preallocated, entry, options)
    violations += check_time_index(data, base, entry.path)
    yield from violations
    # An offset can only be looked up where offsets rise; that they do not is said elsewhere.
    if not violations and (np.diff(batches.last_offset) > 0).all():
        yield from check_time_index_against(read_time_index(data, base), batches, entry.path)


def _check_transaction_index(
    segment: Segment, completed: Completed, options: StorageOptions
) -> Iterator[Violation]:
    entry = segment.side_files.get(Kind.TRANSACTION_INDEX)
    path = entry.path if entry else segment.beside(Kind.TRANSACTION_INDEX)
    data, violations = _read_data(read_small, entry, options) if entry else (b"", [])
    if violations:
        yield from violations
        return
    yield from check_transaction_index(data, segment.base_offset, path)
    yield from check_transaction_index_against(read_transaction_index(data), completed, path)


def check_snapshot(
    segment: Segment, state: ProducerState, log_start: int, options: StorageOptions
) -> Iterator[Violation]:
    """The snapshot at a segment's base against the producers of the log before it."""
    entry = segment.side_files.get(Kind.PRODUCER_SNAPSHOT)
    if entry:
        yield from _check_snapshot(entry, state, log_start, options)


def _check_snapshot(
    entry: Entry, state: ProducerState, log_start: int, options: StorageOptions
) -> Iterator[Violation]:
    """Expired producers are in the log only, those of deleted segments in the snapshot only."""
    found, broken = _read(read_producer_snapshot, entry, options)
    if found is None:
        yield from broken
        return
    known = {int(row["producer_id"]): row for row in to_snapshot(state)}
    for row in found:
        expected = known.get(int(row["producer_id"]))
        if expected is None and row["last_offset"] < log_start:
            continue
        fields = ("producer_epoch", "last_sequence", "last_offset")
        if expected is None or any(row[field] != expected[field] for field in fields):
            yield Violation(
                Rule.SNAPSHOT_LOG,
                f"producer {row['producer_id']} is not as the log has it",
                entry.path,
                position=0,
                offset=int(row["last_offset"]),
                found=str([int(row[field]) for field in fields]),
                expected=str(expected and [int(expected[field]) for field in fields]),
            )


def check_leader_epoch_file(
    partition: Partition, epochs: Sequence[EpochStart], options: StorageOptions
) -> Iterator[Violation]:
    """The leader epoch checkpoint against the epochs of the batches."""
    entry = partition.find(LEADER_EPOCH_CHECKPOINT)
    if entry is None:
        return
    stored, broken = _read(read_leader_epochs, entry, options)
    yield from broken
    if stored is None:
        return
    yield from check_leader_epochs(stored, entry.path)
    for start in epochs:
        covering = [kept.epoch for kept in stored if kept.start_offset <= start.start_offset]
        if not covering and stored:
            continue  # below the log's start, where the checkpoint was truncated
        if not covering or covering[-1] != start.epoch:
            yield Violation(
                Rule.LEADER_EPOCH_CHECKPOINT_LOG,
                "the batches say another epoch",
                entry.path,
                position=0,
                offset=start.start_offset,
                found=f"epoch {covering[-1]}" if covering else "no epoch",
                expected=f"epoch {start.epoch}",
            )


def check_partition_metadata(partition: Partition, options: StorageOptions) -> Iterator[Violation]:
    """The topic id can be read, where there is one."""
    entry = partition.find(PARTITION_METADATA)
    if entry:
        yield from _read(read_topic_id, entry, options)[1]


def check_swaps(partition: Partition) -> Iterator[Violation]:
    """Files that a broker was putting in place of others when it stopped; remote ones in no use."""
    yield from partition.findings
    for entry, detail in partition.settled.explain():
        yield Violation(Rule.SWAP_FINISHED, detail, entry.path, 0, size=entry.size)


def check_kept_files(partition: Partition, options: StorageOptions) -> Iterator[Violation]:
    """Files beside the log that can not be had as they were kept; a log is read by others."""
    for name, entry in partition.settled.live:
        if entry.kept is not None and name.kind is not Kind.LOG:
            with open_remaining(entry, options) as file:
                held = np.empty(min(file.size, LIMIT), dtype=np.uint8)
                file.read_into(held, 0, held.size)
                yield from file.damages


def check_file_names(partition: Partition) -> Iterator[Violation]:
    """Files that end like those of segments, with no offset before it (LogFileUtils)."""
    for name, entry in partition.others.items():
        if name.endswith(_OFFSET_KINDS):
            detail = "no offset from 0 to 2^63-1 stands before the dot: a broker fails to load it"
            yield Violation(Rule.FILE_NAME, detail, entry.path, 0, size=entry.size)


def check_orphans(
    partition: Partition, state: LogState, log_start: int, options: StorageOptions
) -> Iterator[Violation]:
    """Indexes without their log; snapshots that no segment begins with."""
    bases = {segment.base_offset for segment in partition.segments}
    for name, entry in partition.settled.live:
        if name.offset in bases:
            continue
        if name.kind in INDEX_KINDS:
            detail = "there is no log of this name: a broker deletes it"
            yield Violation(Rule.SIDE_FILE_HAS_LOG, detail, entry.path, 0, size=entry.size)
        elif name.kind is Kind.PRODUCER_SNAPSHOT and name.offset == state.last_offset + 1:
            yield from _check_snapshot(entry, state.producers, log_start, options)
        elif name.kind is Kind.PRODUCER_SNAPSHOT:
            yield from _read(read_producer_snapshot, entry, options)[1]


def _read(
    read: Callable[[bytes, str], T], entry: Entry, options: StorageOptions
) -> tuple[T | None, list[Violation]]:
    """Read a small file; what is wrong with it is a value here."""
    try:
        return read(read_small(entry, options), entry.path), []
    except CorruptLogError as error:
        return None, [error.violation]


def _read_data(
    read: Callable[[Entry, StorageOptions], bytes], entry: Entry, options: StorageOptions
) -> tuple[bytes, list[Violation]]:
    try:
        return read(entry, options), []
    except CorruptLogError as error:
        return b"", [error.violation]
