"""What tasks staged of one partition gets its offsets, and all that lies beside logs.

Segments move as wholes: entries of their indexes are relative to the base, so that only the names
of files change, and the first bytes of each batch: its offset and its leader epoch.
"""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.batch.restamp import move_offsets, set_leader_epoch
from ottla.errors import CorruptLogError, OptionError, PublishError, Row, Term
from ottla.format.names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    Kind,
    TopicPartition,
    file_name,
    parse_file_name,
)
from ottla.format.sentinels import INT64_MAX
from ottla.jobs.verify.transactions import read_transactions
from ottla.jobs.write.stage import StagedPart
from ottla.kernels import status
from ottla.kernels.records.scan import scan
from ottla.kernels.tables import allocate_batches, take_batches
from ottla.log.files.checkpoints import (
    EpochStart,
    follow_leader_epochs,
    read_leader_epochs,
    write_leader_epochs,
)
from ottla.log.files.identity import read_topic_id, write_topic_id
from ottla.log.files.partition import Partition, Segment, find_partitions
from ottla.log.files.producer_snapshot import write_producer_snapshot
from ottla.log.files.small_files import read_small
from ottla.log.read.walk import walk_file
from ottla.log.write.extent import join_lineage
from ottla.log.write.side_files import stage_file, stage_segment
from ottla.options.write import WriteOptions
from ottla.publish.account import account_row
from ottla.publish.checked import StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import staged_path
from ottla.region import Bytes, padded
from ottla.rules.producers.producer import ProducerState, empty_state
from ottla.rules.producers.snapshots import to_snapshot
from ottla.storage.files import open_file, read_bytes
from ottla.storage.listing import exists
from ottla.storage.paths import is_remote, join, local_path
from ottla.storage.writing import write_file

_TABLE_ROWS: Final = 1 << 14


class PartitionEnd(NamedTuple):
    """Where a partition ends and what is known there; `bases` are those of its segments.

    `has_checkpoint` if there is a checkpoint that has all its epochs.
    """

    directory: str
    offset: int
    bases: tuple[int, ...]
    empty: frozenset[int]
    epochs: tuple[EpochStart, ...]
    has_checkpoint: bool
    producers: ProducerState
    topic_id: str | None


def find_end(job: Job, starts: Mapping[TopicPartition, int], name: TopicPartition) -> PartitionEnd:
    """The end of a partition of OUT, or of one that is new.

    A broker deletes what ends before the log start, so that nothing is written below it.
    """
    directory = str(name)
    path = join(job.out, directory)
    start = starts.get(name, 0)
    found = find_partitions([path], job.storage) if exists(path, job.storage) else []
    if not found or not found[0].segments:
        epochs, topic_id = _read_identity(found[0], job) if found else ((), None)
        return PartitionEnd(
            directory, start, (), frozenset(), epochs, bool(epochs), empty_state(), topic_id
        )
    segments = found[0].segments
    epochs, topic_id = _read_identity(found[0], job)
    said = _walked_epochs(segments[-1:] if epochs else segments, job)
    known = read_transactions(found[0], from_offset=INT64_MAX, storage=job.storage)
    if known.problems:
        raise CorruptLogError(known.problems[0])
    lineage = join_lineage(epochs, said)
    return PartitionEnd(
        directory,
        max(known.transactions.end_offset, start),
        tuple(segment.base_offset for segment in segments),
        frozenset(segment.base_offset for segment in segments if not segment.log.size),
        lineage,
        bool(epochs) and lineage == epochs,
        known.transactions.state,
        topic_id,
    )


def _read_identity(partition: Partition, job: Job) -> tuple[tuple[EpochStart, ...], str | None]:
    epochs = partition.find(LEADER_EPOCH_CHECKPOINT)
    metadata = partition.find(PARTITION_METADATA)
    starts = read_leader_epochs(read_small(epochs, job.storage), epochs.path) if epochs else []
    topic_id = read_topic_id(read_small(metadata, job.storage), metadata.path) if metadata else None
    return tuple(starts), topic_id


def _walked_epochs(segments: Sequence[Segment], job: Job) -> tuple[EpochStart, ...]:
    """What the batches of segments say: a checkpoint may be behind them, or was not copied.

    To append behind bytes that are no batch is refused: readers would take them for damage.
    """
    starts: list[EpochStart] = []
    stop = 0
    for segment in segments:
        with open_file(segment.log, job.storage) as file:
            stop = 0
            for walked in walk_file(file):
                follow_leader_epochs(starts, walked.batches)
                stop = walked.stop
    last = segments[-1].log
    if stop < last.size:
        raise PublishError(
            f"{last.path} ends with {last.size - stop} bytes that are no batch: append to a"
            " copy that ",
            Term.SALVAGE,
            " made",
        )
    return tuple(starts)


class Placed(NamedTuple):
    """Files of one partition, with their places; logs are not stamped yet."""

    files: list[StagedFile]
    stamps: list["Stamp"]
    account: Row


class Stamp(NamedTuple):
    """A staged log and what all its batches get."""

    staged: str
    shift: int
    leader_epoch: int | None


def place_parts(
    job: Job, options: WriteOptions, end: PartitionEnd, parts: Sequence[StagedPart], topic_id: str
) -> Placed:
    """Give parts, in the order of their tasks, the offsets from the end of the partition on."""
    epoch = _leader_epoch(options, end)
    shifts = _kept(end, parts) if options.keep_offsets else _shifts(end, parts)
    files, stamps, bases = [], [], []
    for part, shift in shifts:
        for file in part.files:
            named = parse_file_name(posixpath.basename(file.target))
            assert named is not None
            base = named.offset + shift
            target = join(end.directory, file_name(base, named.kind))
            files.append(file._replace(target=target, replaces=base in end.empty))
            if named.kind is Kind.LOG:
                stamps.append(Stamp(file.staged, shift, epoch))
                bases.append(base)
    next_offset = max((part.next_offset + shift for part, shift in shifts), default=end.offset)
    files += _stage_beside(job, end, sorted(bases), next_offset)
    files += _stage_identity(job, end, min(bases, default=None), epoch, topic_id)
    return Placed(files, stamps, _account(shifts, files, next_offset))


def _shifts(end: PartitionEnd, parts: Sequence[StagedPart]) -> list[tuple[StagedPart, int]]:
    """One part after another, from the end on."""
    shifts, next_offset = [], end.offset
    for part in parts:
        shifts.append((part, next_offset))
        next_offset += part.next_offset
    if next_offset > INT64_MAX:
        raise PublishError(f"{end.directory}: there are no offsets left")
    return shifts


def _kept(end: PartitionEnd, parts: Sequence[StagedPart]) -> list[tuple[StagedPart, int]]:
    """Parts where they said that they are; none may reach into another or into what is there."""
    next_offset = end.offset
    ordered = sorted(parts, key=lambda part: part.first_offset)
    for part in ordered:
        if part.first_offset < next_offset:
            raise OptionError(
                Term.KEEP_OFFSETS,
                f": offset {part.first_offset} of {end.directory} is in a task by"
                f" itself, or in the log, where offsets have reached {next_offset}: sort the rows"
                " by topic, partition and offset, and append only what is behind the log",
            )
        next_offset = part.next_offset
    return [(part, 0) for part in ordered]


def _leader_epoch(options: WriteOptions, end: PartitionEnd) -> int | None:
    """The epoch that batches get: the one asked for, else the log's last; magic 0, 1 have none."""
    if options.magic < CURRENT_MAGIC:
        return None
    last = end.epochs[-1].epoch if end.epochs else None
    if options.leader_epoch is None:
        return last or 0
    if last is not None and options.leader_epoch < last:
        raise OptionError(
            Term.LEADER_EPOCH,
            f" {options.leader_epoch} is below {last}, the last of {end.directory}",
        )
    return options.leader_epoch


def _stage_beside(
    job: Job, end: PartitionEnd, bases: list[int], next_offset: int
) -> list[StagedFile]:
    """Producers at every base but the log's first and at the end: rows come from none of them.

    A partition that has nothing gets a segment with nothing in it.
    """
    if not bases and not end.bases:
        return stage_segment(job, end.directory, end.offset, b"")
    if not bases:
        return []
    data = write_producer_snapshot(to_snapshot(end.producers))
    first = min((*end.bases, *bases))
    return [
        # A snapshot at the old end is there already, and says the same.
        stage_file(job, end.directory, file_name(at, Kind.PRODUCER_SNAPSHOT), data)._replace(
            replaces=True
        )
        for at in (*bases, next_offset)
        if at > first
    ]


def _stage_identity(
    job: Job, end: PartitionEnd, first: int | None, epoch: int | None, topic_id: str
) -> list[StagedFile]:
    epochs = list(end.epochs)
    if first is not None and epoch is not None and (not epochs or epochs[-1].epoch < epoch):
        epochs.append(EpochStart(epoch, first))
    files = []
    if not end.has_checkpoint or epochs != list(end.epochs):
        data = write_leader_epochs(epochs)
        staged = stage_file(job, end.directory, LEADER_EPOCH_CHECKPOINT, data)
        files.append(staged._replace(replaces=True))
    if end.topic_id is None:
        data = write_topic_id(topic_id)
        files.append(stage_file(job, end.directory, PARTITION_METADATA, data))
    return files


def _account(
    shifts: Sequence[tuple[StagedPart, int]], files: Sequence[StagedFile], next_offset: int
) -> Row:
    name = (shifts[0][0].topic, shifts[0][0].partition) if shifts else (None, None)
    first = min((part.first_offset + shift for part, shift in shifts), default=None)
    return account_row(
        *name,
        writtenBytes=sum(file.size for file in files if file.target.endswith(Kind.LOG)),
        writtenBatches=sum(part.batch_count for part, _ in shifts),
        readRecords=sum(part.record_count for part, _ in shifts),
        writtenRecords=sum(part.record_count for part, _ in shifts),
        firstOffset=first,
        lastOffset=next_offset - 1 if shifts else None,
        requests=sum(part.requests for part, _ in shifts),
        requestBytes=sum(part.request_bytes for part, _ in shifts),
    )


def stamp_log(job: Job, stamp: Stamp) -> None:
    """Write offsets and leader epoch into all batches of a staged log, durably."""
    path = staged_path(job, stamp.staged)
    if is_remote(path):  # objects can not be changed, only written again
        data = padded(read_bytes(path, job.storage))
        size = data.size - padded(b"").size
        _stamp(data, size, stamp)
        write_file(path, data[:size].tobytes(), job.storage)
        return
    mapped = np.memmap(local_path(path), dtype=np.uint8, mode="r+")
    _stamp(mapped.view(np.ndarray), mapped.size, stamp)
    mapped.flush()


def _stamp(data: Bytes, size: int, stamp: Stamp) -> None:
    table = allocate_batches(_TABLE_ROWS)
    at, outcome = 0, status.TABLE_FULL
    while outcome == status.TABLE_FULL:
        rows, at, outcome, _ = scan(data, at, size, 0, table)
        batches = take_batches(table, slice(0, rows))
        move_offsets(data, batches, shift=stamp.shift)
        if stamp.leader_epoch is not None:
            set_leader_epoch(data, batches, epoch=stamp.leader_epoch)
    assert at == size, "a staged log is whole batches"
