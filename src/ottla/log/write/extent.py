"""What a partition is besides its batches: log start, log end, leader epochs and topic id.

Every job that writes logs keeps them, and here is how. A broker that mounts a log with fewer epochs
or a later start than remote storage knows deletes what is there; one whose log ends earlier gives
offsets out again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.encode import encode_empty
from ottla.batch.new_batch import CURRENT_MAGIC, NewBatch
from ottla.errors import CorruptLogError, Rule, Violation
from ottla.format.layout import FRAME_SIZE
from ottla.format.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    PARTITION_METADATA,
    TopicPartition,
)
from ottla.format.sentinels import INT32_MAX, NO_PARTITION_LEADER_EPOCH
from ottla.log.files.checkpoints import (
    EpochStart,
    check_leader_epochs,
    read_leader_epochs,
    read_offset_checkpoint,
    truncate_epochs_from_end,
    write_leader_epochs,
    write_offset_checkpoint,
)
from ottla.log.files.partition import Partition, Segment
from ottla.log.files.small_files import read_small
from ottla.log.tiered.names import is_remote_log
from ottla.log.write.side_files import SideFiles, stage_file, stage_segment
from ottla.publish.checked import StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import staged_path
from ottla.storage.files import open_file
from ottla.storage.listing import exists
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import join
from ottla.storage.writing import set_modified

_NO_BATCH: Final = -1


@dataclass(frozen=True, slots=True)
class Extent:
    """`base_offset` is where segments begin. The log may start inside the first of them, or before
    it: then remote storage has the rest.

    `magic` is that of the log's batches, where one of them may have to say where it ends. Retention
    judges an empty first segment by when it was modified.
    """

    log_start: int
    base_offset: int
    log_end: int
    epochs: tuple[EpochStart, ...]
    metadata: bytes | None
    magic: int
    modified_ms: int

    def within(self, start: int | None, stop: int | None) -> "Extent":
        """That of a log of which only the offsets from `start` to before `stop` are kept.

        Epochs below the start stay: to a broker that has no older records they mean nothing.
        """
        base = max(self.base_offset, start or 0)
        log_start = max(self.log_start, start or 0)
        if stop is None or stop >= self.log_end:
            return replace(self, log_start=log_start, base_offset=base)
        end = max(base, stop)
        epochs = tuple(truncate_epochs_from_end(self.epochs, end))
        return replace(self, log_start=log_start, base_offset=base, log_end=end, epochs=epochs)


class Staged(NamedTuple):
    """What was staged of a log: the base of its first segment and the offset after its last batch.

    None and where its segments begin, if there is none.
    """

    first_base: int | None
    next_offset: int


def find_extent(
    partition: Partition,
    log_start: int | None,
    log_end: int,
    epochs: tuple[EpochStart, ...],
    storage: StorageOptions,
) -> Extent:
    """That of a partition as it is; `log_start` is what the checkpoint of its directory says.

    `epochs` are what `read_lineage` found.
    """
    base = first_base(partition, log_start)
    metadata = partition.find(PARTITION_METADATA)
    return Extent(
        base if log_start is None else log_start,
        base,
        max(log_end, base),
        epochs,
        None if metadata is None else read_small(metadata, storage),
        _find_magic(partition, storage),
        max((segment.log.modified_ns for segment in partition.segments[:1]), default=0)
        // 1_000_000,
    )


def first_base(partition: Partition, log_start: int | None) -> int:
    """Where segments begin; a broker makes the first one at the log start."""
    bases = [segment.base_offset for segment in partition.segments]
    return bases[0] if bases else log_start or 0


def remote_offsets(partition: Partition, log_start: int | None) -> range:
    """The offsets that only remote storage has: the log starts before its first segment."""
    base = first_base(partition, log_start)
    return range(base if log_start is None else log_start, base)


def remote_range(remote: range, spans: Iterable[tuple[Segment, int | None]]) -> list[int] | None:
    """The first and the last offset that remote storage has, whether they can be read here or not.

    `remote` are those that can not, which lie before all others; `spans` are segments with their
    last offsets.
    """
    found = [(remote.start, remote.stop - 1)] if remote else []
    for segment, last in spans:
        if last is not None and is_remote_log(segment.log.path):
            found.append((segment.base_offset, last))
    return [found[0][0], found[-1][1]] if found else None


def _find_magic(partition: Partition, storage: StorageOptions) -> int:
    """The magic of the first batch of the last segment that has any."""
    filled = [segment for segment in partition.segments if segment.log.size >= FRAME_SIZE]
    if not filled:
        return _NO_BATCH
    frame = np.zeros(FRAME_SIZE, dtype=np.uint8)
    with open_file(filled[-1].log, storage) as file:
        file.read_into(frame, 0, FRAME_SIZE)
    return int(frame[-1])


def read_lineage(
    partition: Partition, log_start: int | None, storage: StorageOptions
) -> tuple[EpochStart, ...]:
    """All epochs of the checkpoint; none if it is not there or can not be right.

    A broker takes the latter for an empty one, and then deletes what remote storage has: refused.
    """
    entry = partition.find(LEADER_EPOCH_CHECKPOINT)
    epochs: list[EpochStart] = []
    if entry is not None:
        try:
            epochs = read_leader_epochs(read_small(entry, storage), entry.path)
        except CorruptLogError:
            epochs = []
        if any(check_leader_epochs(epochs, entry.path)):
            epochs = []
    remote = remote_offsets(partition, log_start)
    if remote and (not epochs or epochs[0].start_offset >= remote.stop):
        raise _lineage_is_missing(partition, remote)
    return tuple(epochs)


def _lineage_is_missing(partition: Partition, remote: range) -> CorruptLogError:
    return CorruptLogError(
        Violation(
            Rule.LEADER_EPOCH_CHECKPOINT_LOG,
            f"the log starts at {remote.start}, so that offsets {remote.start} to"
            f" {remote.stop - 1} are in remote storage only, and no leader epoch begins there: a"
            " broker would delete them. Put the checkpoint of another replica here; or, if the"
            f" topic has no remote storage, take its line out of {LOG_START_CHECKPOINT}",
            join(partition.path, LEADER_EPOCH_CHECKPOINT),
            position=0,
            offset=remote.start,
            last_offset=remote.stop - 1,
        )
    )


def join_lineage(
    stored: Sequence[EpochStart], said: Sequence[EpochStart]
) -> tuple[EpochStart, ...]:
    """What a checkpoint says, and batches where it lacks an epoch or contradicts them.

    >>> stored = [EpochStart(0, 0), EpochStart(2, 40)]
    >>> [tuple(each) for each in join_lineage(stored, [EpochStart(2, 50), EpochStart(3, 60)])]
    [(0, 0), (2, 40), (3, 60)]
    """
    epochs = list(stored)
    for start in said:
        covering = epoch_of(epochs, start.start_offset).epoch
        if covering == start.epoch or (covering == NO_PARTITION_LEADER_EPOCH and epochs):
            continue
        # LeaderEpochFileCache.assign: later ones give way.
        epochs = [
            each
            for each in epochs
            if each.epoch < start.epoch and each.start_offset < start.start_offset
        ]
        epochs.append(start)
    return tuple(epochs)


def epoch_of(epochs: Sequence[EpochStart], offset: int) -> EpochStart:
    """The epoch that an offset is of."""
    before = [start for start in epochs if start.start_offset <= offset]
    return before[-1] if before else EpochStart(NO_PARTITION_LEADER_EPOCH, 0)


def stage_extent(beside: SideFiles, extent: Extent, staged: Staged) -> None:
    """Stage what says where a log begins and ends, its epochs and its topic id.

    `beside` has followed all batches; the producers at the log end are staged by who knows them.
    """
    if extent.log_start < extent.base_offset:
        beside.notes.append(_rest_is_remote(beside, extent))
    epochs = join_lineage(extent.epochs, beside.epochs)
    last = _last_segment(extent, epochs, staged.next_offset)
    bases = [base for base in (staged.first_base, last and last[0]) if base is not None]
    if not bases or min(bases) > extent.base_offset:
        empty = stage_segment(beside.job, beside.directory, extent.base_offset, b"")
        for file in empty:
            set_modified(staged_path(beside.job, file.staged), extent.modified_ms)
        beside.files += empty
    if last is not None:
        base, data = last
        beside.files += stage_segment(beside.job, beside.directory, base, data)
        if extent.base_offset < base < extent.log_end:
            beside.stage_snapshot(base)
        if not data:
            beside.notes.append(_only_the_name_says_it(beside, extent, staged))
    beside.stage(LEADER_EPOCH_CHECKPOINT, write_leader_epochs(epochs))
    if extent.metadata is not None:
        beside.stage(PARTITION_METADATA, extent.metadata)


def _rest_is_remote(beside: SideFiles, extent: Extent) -> str:
    return (
        f"{beside.directory}: offsets {extent.log_start} to {extent.base_offset - 1} are in remote"
        " storage only: they were not read, and belong to this log as before"
    )


def _only_the_name_says_it(beside: SideFiles, extent: Extent, staged: Staged) -> str:
    return (
        f"{beside.directory}: offsets {staged.next_offset} to {extent.log_end - 1} are in no batch,"
        f" and magic 0 and 1 have none without records: only the name of an empty segment says that"
        f" the log ends at {extent.log_end}. Mount it on every replica: a follower or a consumer"
        f" that comes to {staged.next_offset} waits there for the next record"
    )


def _last_segment(
    extent: Extent, epochs: Sequence[EpochStart], next_offset: int
) -> tuple[int, bytes] | None:
    """The base and the batch of a segment that says where the log ends, if nothing else does.

    The batch is one as compaction leaves it: followers and consumers go on behind it. Old formats
    have none without records, so that only the name of an empty segment says it.
    """
    if next_offset >= extent.log_end:
        return None
    if extent.magic < CURRENT_MAGIC:
        return extent.log_end, b""
    last = extent.log_end - 1
    leader = epoch_of(epochs, last)
    base = max(next_offset, last - INT32_MAX, leader.start_offset)
    new = NewBatch(
        base_offset=base,
        last_offset_delta=last - base,
        partition_leader_epoch=leader.epoch,
    )
    return base, encode_empty(new)


def read_log_starts(out: str, storage: StorageOptions) -> dict[TopicPartition, int]:
    """The log starts that the checkpoint of a log directory names."""
    path = join(out, LOG_START_CHECKPOINT)
    if not exists(path, storage):
        return {}
    return read_offset_checkpoint(read_small(path, storage), path)


def stage_log_starts(
    job: Job, log_starts: Mapping[TopicPartition, int | None]
) -> Iterator[StagedFile]:
    """Stage a checkpoint with these log starts beside those that OUT has of other partitions.

    None is for a log whose first segment says where it starts: an old line would be wrong.
    """
    there = read_log_starts(job.out, job.storage)
    kept = {name: start for name, start in there.items() if name not in log_starts}
    merged = kept | {name: start for name, start in log_starts.items() if start is not None}
    if merged != there:
        data = write_offset_checkpoint(merged)
        staged = stage_file(job, "", LOG_START_CHECKPOINT, data)
        yield staged._replace(target=LOG_START_CHECKPOINT, replaces=True)
