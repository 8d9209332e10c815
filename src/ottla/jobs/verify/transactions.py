"""The transactions of a partition from its files: headers are walked, only control batches read.

Reading may begin at a producer snapshot, which knows what was open there; without a usable one it
begins at the first segment, because a transaction can have begun anywhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ottla.batch.attributes import is_control
from ottla.errors import Rule, Violation
from ottla.format.arrays import Bools
from ottla.format.sentinels import NO_OFFSET
from ottla.kernels import status
from ottla.kernels.producers import transactions as kernels
from ottla.kernels.producers.state import Markers
from ottla.kernels.tables import Batches, take_batches
from ottla.log.files.partition import Partition, Segment
from ottla.log.files.producer_snapshot import find_newest_snapshot
from ottla.log.read.walk import TABLE_ROWS, Walk, walk_file
from ottla.region import PADDING, Bytes, Region
from ottla.rules.producers.producer import no_markers
from ottla.rules.producers.snapshots import from_snapshot
from ottla.rules.producers.transactions import Transactions, read_markers
from ottla.storage.files import File, open_remaining
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions


@dataclass(slots=True)
class PartitionTransactions:
    """What was found, where it began, and what stood in the way."""

    transactions: Transactions
    start_offset: int
    problems: list[Violation] = field(default_factory=list)


def read_transactions(
    partition: Partition,
    *,
    from_offset: int | None = None,
    storage: StorageOptions = DEFAULT_OPTIONS,
) -> PartitionTransactions:
    """The transactions of a partition, from the newest snapshot at or below `from_offset`."""
    found = _start(partition, from_offset, storage)
    for segment in partition.segments:
        if segment.base_offset >= found.start_offset:
            _read_segment(segment, found, storage)
    return found


def _start(
    partition: Partition, from_offset: int | None, storage: StorageOptions
) -> PartitionTransactions:
    limit = NO_OFFSET if from_offset is None else from_offset
    snapshot, problems = find_newest_snapshot(partition, limit, storage)
    if snapshot is None:
        first = partition.segments[0].base_offset if partition.segments else 0
        return PartitionTransactions(Transactions(end_offset=first), first, problems)
    transactions = Transactions(from_snapshot(snapshot.entries), snapshot.offset)
    return PartitionTransactions(transactions, snapshot.offset, problems)


def _read_segment(segment: Segment, found: PartitionTransactions, storage: StorageOptions) -> None:
    found.transactions.begin_segment(segment.base_offset)
    with open_remaining(segment.log, storage) as file:
        for walked, markers in walk_markers(file):
            batches = walked.batches
            corrupt = is_control(batches) & (batches.crc != batches.computed_crc)
            if corrupt.any():
                found.problems += _corrupt_markers(file, batches, corrupt)
                batches = take_batches(batches, ~corrupt)
                markers = Markers(*(column[~corrupt] for column in markers))
            found.transactions.add(batches, markers)
            if walked.status not in (status.END, status.TABLE_FULL):
                detail = "no valid batch begins here"
                found.problems.append(
                    Violation(Rule.BATCH_SIZE_MINIMUM, detail, file.path, walked.stop)
                )


def walk_markers(file: File) -> Iterator[tuple[Walk, Markers]]:
    """The headers of a segment with what its control batches say; used before the next is asked."""
    room = no_markers(TABLE_ROWS)

    def step(
        data: Bytes, held: int, origin: int, end: int, table: Batches, first: int
    ) -> tuple[int, int, int, int]:
        return kernels.walk_markers(data, held, origin, end, table, first, room)

    for walked in walk_file(file, step=step):
        markers = Markers(*(column[: walked.batches.position.size] for column in room))
        _read_others(file, walked.batches, markers)
        yield walked, markers


def _read_others(file: File, batches: Batches, markers: Markers) -> None:
    """Open the control batches that are compressed, or that a block did not hold to their end."""
    for row in np.flatnonzero(markers.control_type == kernels.NOT_READ).tolist():
        alone = take_batches(batches, slice(row, row + 1))
        start = int(alone.position[0])
        region = _read(file, start, start + int(alone.size[0]))
        for column, value in zip(markers, read_markers(region, alone), strict=True):
            column[row] = value[0]


def _read(file: File, start: int, stop: int) -> Region:
    data = np.zeros(stop - start + PADDING, dtype=np.uint8)
    got = file.read_into(data, start, stop - start)
    return Region(data, got, file.path, start)


def _corrupt_markers(file: File, batches: Batches, corrupt: Bools) -> Sequence[Violation]:
    detail = "a control batch is not what was sealed, and was passed over"
    return [
        Violation(
            Rule.CRC_MATCHES,
            detail,
            file.path,
            int(batches.position[row]),
            size=int(batches.size[row]),
            offset=int(batches.base_offset[row]),
            last_offset=int(batches.last_offset[row]),
        )
        for row in np.flatnonzero(corrupt).tolist()
    ]
