"""What a broker would do with a partition when it starts; nothing here changes a file.

LogLoader: remove what an interrupted cleaning or deletion left, finish swaps, drop orphaned
indexes, and after an unclean stop recover every segment from the recovery point on. Recovery looks
at sizes and CRCs only, cuts a segment at the first bad batch, and deletes all segments after it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from ottla.errors import CorruptLogError, Rule
from ottla.format.layout import BATCH_OVERHEAD
from ottla.format.names import (
    CLEAN_SHUTDOWN,
    INDEX_KINDS,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    DirectoryState,
    FileState,
    Kind,
)
from ottla.format.sentinels import INT32_MAX
from ottla.internal.records import CLUSTER_METADATA
from ottla.kernels.tables import Batches, concat_batches
from ottla.log.files.checkpoints import (
    EpochStart,
    read_leader_epochs,
    truncate_epochs_from_end,
    truncate_epochs_from_start,
)
from ottla.log.files.index_file import rows_that_do_not_rise
from ottla.log.files.partition import LogDirectory, Partition, Segment, read_checkpoint
from ottla.log.files.producer_snapshot import read_producer_snapshot
from ottla.log.files.small_files import read_small
from ottla.log.files.swaps import Named, Settled
from ottla.log.files.transaction_index import check_transaction_index
from ottla.log.read.next_offset import read_next_offset
from ottla.log.read.windows import read_windows
from ottla.log.write.extent import remote_offsets
from ottla.log.write.index_builder import build_indexes
from ottla.rules.producers.snapshots import out_of_range, strays
from ottla.storage.files import open_remaining
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions


class Step(StrEnum):
    """What happens to a file."""

    DELETE = "delete"
    RENAME = "rename"
    TRUNCATE = "truncate"
    REBUILD = "rebuild"
    CREATE = "create"
    SPLIT = "split"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a broker does; `position` is where a truncated file ends."""

    step: Step
    file: str
    why: str
    position: int | None = None


class Recovery(NamedTuple):
    """All that a broker does, and the log that it then has."""

    actions: list[Action]
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Shutdown:
    """What the log directory says about how the broker stopped; a checkpoint may name no start."""

    clean: bool
    recovery_point: int
    checkpointed_start: int | None

    @property
    def log_start_offset(self) -> int:
        """What LogManager takes it for."""
        return self.checkpointed_start or 0


def plan_recovery(
    directory: LogDirectory, partition: Partition, options: StorageOptions = DEFAULT_OPTIONS
) -> Recovery:
    """What starting a broker on the directory would do to one of its partitions."""
    if partition.state is DirectoryState.DELETE:
        why = "marked as deleted, with all that is in it"
        return Recovery([Action(Step.DELETE, partition.path, why)], 0, 0)
    shutdown = read_shutdown(directory, partition, options)
    live = partition.settled.live
    loaded = _Loaded(_drop_orphans(live, partition.segments), list(partition.segments), options)
    _load(loaded)
    if not shutdown.clean:
        _recover_from(loaded, shutdown.recovery_point)
    end = _log_end(loaded)
    if end is not None and end < shutdown.log_start_offset:
        for segment in loaded.segments:
            loaded.actions += _delete_segment(segment, "the log ends before its start offset")
        loaded.segments, end = [], None
    start = _log_start(partition, shutdown, loaded)
    if end is None:
        end = start = shutdown.log_start_offset
        loaded.actions.append(Action(Step.CREATE, partition.path, f"an empty segment at {start}"))
    # Cut to what the checkpoint says, also where the log starts later.
    loaded.actions += _check_epochs(partition, shutdown.log_start_offset, end, options)
    loaded.actions += _check_snapshots(live, loaded.segments, start, end, options)
    return Recovery([*_settle(partition.settled), *map(_renamed, loaded.actions)], start, end)


def _log_start(partition: Partition, shutdown: Shutdown, loaded: "_Loaded") -> int:
    """That of the checkpoint; with remote storage alone it may be before the first segment."""
    if remote_offsets(partition, shutdown.checkpointed_start):
        return shutdown.log_start_offset
    return max(shutdown.log_start_offset, *(each.base_offset for each in loaded.segments[:1]), 0)


def read_shutdown(
    directory: LogDirectory, partition: Partition, options: StorageOptions = DEFAULT_OPTIONS
) -> Shutdown:
    """The clean-shutdown mark and the checkpoints; LogManager takes a bad one for an empty one."""
    if partition.name.topic == CLUSTER_METADATA:
        return Shutdown(clean=False, recovery_point=0, checkpointed_start=None)  # KafkaMetadataLog
    offsets = []
    for file in (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT):
        try:
            known = read_checkpoint(directory, file, options)
        except CorruptLogError:
            known = {}
        offsets.append(known.get(partition.name))
    return Shutdown(CLEAN_SHUTDOWN in directory.files, offsets[0] or 0, offsets[1])


@dataclass(slots=True)
class _Loaded:
    """The segments as they are being loaded, and what was done to them."""

    actions: list[Action]
    segments: list[Segment]
    options: StorageOptions
    ends: dict[int, int] = field(
        default_factory=dict
    )  # next offsets of recovered segments, by base


def _settle(settled: Settled) -> Iterator[Action]:
    """LogLoader's first three passes: temporary files go, complete swaps take their place."""
    for entry, why in settled.deleted:
        yield Action(Step.DELETE, entry.path, why)
    for _, entry in settled.swapped:
        yield Action(Step.RENAME, entry.path, "a swap that did not finish")


def _renamed(action: Action) -> Action:
    """What is done to a file after it was swapped in."""
    return replace(action, file=action.file.removesuffix(FileState.SWAP))


def _drop_orphans(live: Sequence[Named], segments: Sequence[Segment]) -> list[Action]:
    bases = {segment.base_offset for segment in segments}
    return [
        Action(Step.DELETE, entry.path, "an index without its log")
        for name, entry in live
        if name.kind in INDEX_KINDS and name.offset not in bases
    ]


def _load(loaded: _Loaded) -> None:
    """LogLoader.loadSegmentFiles: a missing offset index or a bad transaction index matters."""
    for segment in loaded.segments:
        why = _why_recover(segment, loaded.options)
        if why:
            _recover(loaded, segment, why)
        elif Kind.TIME_INDEX not in segment.side_files:
            path = segment.beside(Kind.TIME_INDEX)
            loaded.actions.append(Action(Step.CREATE, path, "there is no time index"))


def _why_recover(segment: Segment, options: StorageOptions) -> str | None:
    if Kind.OFFSET_INDEX not in segment.side_files:
        return "there is no offset index"
    entry = segment.side_files.get(Kind.TRANSACTION_INDEX)
    if entry is None:
        return None
    try:
        data = read_small(entry, options)
    except CorruptLogError as error:
        return f"its transaction index is corrupt: {error.violation.detail}"
    violations = check_transaction_index(data, segment.base_offset, entry.path)
    bad = next((one for one in violations if one.rule is Rule.INDEX_OFFSET_RANGE), None)
    return f"its transaction index is corrupt: {bad.detail}" if bad else None


def _recover_from(loaded: _Loaded, recovery_point: int) -> None:
    """LogLoader.recoverLog after an unclean stop."""
    bases = np.array([segment.base_offset for segment in loaded.segments], dtype=np.int64)
    first = max(0, int(np.searchsorted(bases, recovery_point, side="right")) - 1)
    for index in range(first, len(loaded.segments)):
        if _recover(loaded, loaded.segments[index], "the stop was not clean"):
            for later in loaded.segments[index + 1 :]:
                loaded.actions += _delete_segment(later, "a segment before it was cut")
            loaded.segments = loaded.segments[: index + 1]
            return


def _recover(loaded: _Loaded, segment: Segment, why: str) -> bool:
    """LogSegment.recover: whether bytes are cut off."""
    valid, batches = _valid_batches(segment, loaded.options)
    if _overflows(batches, segment.base_offset):
        loaded.actions.append(
            Action(Step.SPLIT, segment.log.path, "offsets out of an index's reach")
        )
    offset_index, _ = build_indexes(batches, segment.base_offset)
    if rows_that_do_not_rise(offset_index.offset).size:
        # OffsetIndex.append throws InvalidOffsetException, and the whole segment is emptied.
        valid, batches = 0, concat_batches([])
    loaded.ends[segment.base_offset] = (
        int(batches.last_offset[-1]) + 1 if batches.position.size else segment.base_offset
    )
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX):
        if kind in segment.side_files or kind is not Kind.TRANSACTION_INDEX:
            loaded.actions.append(Action(Step.REBUILD, segment.beside(kind), why))
    if valid == segment.log.size:
        return False
    lost = segment.log.size - valid
    reason = f"{lost} bytes from the first invalid batch on"
    loaded.actions.append(Action(Step.TRUNCATE, segment.log.path, reason, valid))
    return True


def _valid_batches(segment: Segment, options: StorageOptions) -> tuple[int, Batches]:
    """Where the first invalid batch begins, and the batches before it."""
    tables: list[Batches] = []
    with open_remaining(segment.log, options) as file:
        stop = 0
        for window in read_windows(file):
            bad = window.batches.crc != window.batches.computed_crc
            bad |= (window.batches.magic == 2) & (window.batches.size < BATCH_OVERHEAD)
            rows = int(np.flatnonzero(bad)[0]) if bad.any() else bad.size
            tables.append(Batches(*(column[:rows].copy() for column in window.batches)))
            if rows < bad.size:
                return int(window.batches.position[rows]), concat_batches(tables)
            stop = window.stop
            if window.violation is not None:
                break
        return stop, concat_batches(tables)


def _overflows(batches: Batches, base_offset: int) -> bool:
    relative = batches.last_offset - base_offset
    return bool(((relative < 0) | (relative > INT32_MAX)).any())


def _log_end(loaded: _Loaded) -> int | None:
    if not loaded.segments:
        return None
    last = loaded.segments[-1]
    known = loaded.ends.get(last.base_offset)
    if known is not None:
        return known
    index = last.side_files.get(Kind.OFFSET_INDEX)
    return read_next_offset(last.log, index, last.base_offset, loaded.options)


def _delete_segment(segment: Segment, why: str) -> Iterator[Action]:
    for entry in (segment.log, *segment.side_files.values()):
        yield Action(Step.DELETE, entry.path, why)


def _check_epochs(
    partition: Partition, start: int, end: int, options: StorageOptions
) -> Iterator[Action]:
    entry = partition.find(LEADER_EPOCH_CHECKPOINT)
    if entry is None:
        return
    try:
        epochs: list[EpochStart] = read_leader_epochs(read_small(entry, options), entry.path)
    except CorruptLogError as error:
        yield Action(Step.REBUILD, entry.path, f"unreadable: {error.violation.detail}")
        return
    kept = truncate_epochs_from_start(truncate_epochs_from_end(epochs, end), start)
    if kept != epochs:
        yield Action(Step.REBUILD, entry.path, f"cut to offsets {start} to {end}")


def _check_snapshots(
    live: Sequence[Named],
    segments: Sequence[Segment],
    start: int,
    end: int,
    options: StorageOptions,
) -> Iterator[Action]:
    """removeStraySnapshots, then truncateAndReload: the newest that can be read is loaded."""
    found = {name.offset: entry for name, entry in live if name.kind is Kind.PRODUCER_SNAPSHOT}
    for offset in strays(found, [segment.base_offset for segment in segments]):
        path = found.pop(offset).path
        yield Action(Step.DELETE, path, "a producer snapshot without its segment")
    for offset in out_of_range(found, start, end):
        path = found.pop(offset).path
        yield Action(Step.DELETE, path, "a producer snapshot outside of the log")
    for _, entry in sorted(found.items(), reverse=True):
        try:
            read_producer_snapshot(read_small(entry, options), entry.path)
        except CorruptLogError as error:
            yield Action(Step.DELETE, entry.path, f"corrupt: {error.violation.detail}")
            continue
        return
