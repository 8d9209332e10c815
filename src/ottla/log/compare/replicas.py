"""Two replicas of one partition: equal up to where, diverged in which epochs, what each has alone.

A follower stores the batches of its leader byte for byte, so that headers (with the CRC in them)
say whether two batches are the same. Only where they do not match, since compaction took records
from one replica and not yet from the other, are records read: what has the same offset must be the
same record, of the same leader epoch. From the first that is not, both logs go their own ways.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from ottla.kernels.tables import Batches, Int64s
from ottla.log.compare.headers import BatchCursor, BatchRecords
from ottla.log.files.partition import Partition
from ottla.storage.object_store import StorageOptions

_SAME: Final = ("base_offset", "last_offset", "partition_leader_epoch", "crc", "size")


@dataclass(slots=True)
class Alone:
    """Records that only one replica has, and the bytes of the batches that hold them."""

    records: int = 0
    bytes: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    def add(self, records: int, size: int, first: int, last: int) -> None:
        """Count some more, at offsets that follow."""
        self.records += records
        self.bytes += size
        self.first_offset = first if self.first_offset is None else self.first_offset
        self.last_offset = last


class Divergence(NamedTuple):
    """The first offset at which both have a record and not the same one, and whose it is."""

    offset: int
    epochs: tuple[int, int]


@dataclass(slots=True)
class Comparison:
    """What two replicas have in common; pairs are of the first and the second.

    `equal_to` is the offset before which all that both have is the same.
    """

    equal_to: int
    divergence: Divergence | None = None
    before: tuple[Alone, Alone] = field(default_factory=lambda: (Alone(), Alone()))
    inside: tuple[Alone, Alone] = field(default_factory=lambda: (Alone(), Alone()))
    after: tuple[Alone, Alone] = field(default_factory=lambda: (Alone(), Alone()))
    problems: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))

    @property
    def is_equal(self) -> bool:
        pairs = (self.before, self.inside, self.after)
        alone = any(each.records or each.bytes for pair in pairs for each in pair)
        return self.divergence is None and not alone and not any(self.problems)


def compare_replicas(first: Partition, second: Partition, storage: StorageOptions) -> Comparison:
    """Walk both from their first batch to their last."""
    cursors = BatchCursor(first, storage), BatchCursor(second, storage)
    starts = [_start(cursor) for cursor in cursors]
    found = Comparison(max((start for start in starts if start is not None), default=0))
    found.problems = cursors[0].problems, cursors[1].problems
    if None not in starts:
        for side, other in ((0, 1), (1, 0)):
            _skip_to(cursors[side], int(starts[other] or 0), found.before[side])
    while not cursors[0].at_end and not cursors[1].at_end:
        if _pass_equal(cursors, found):
            continue
        if not _pass_one(cursors, found) and not _pass_records(cursors, found):
            break
    for side in (0, 1):
        _count_rest(cursors[side], found.after[side])
    return found


def _start(cursor: BatchCursor) -> int | None:
    return None if cursor.at_end else int(cursor.rows().base_offset[0])


def _skip_to(cursor: BatchCursor, offset: int, alone: Alone) -> None:
    """Count what ends before another replica begins."""
    while not cursor.at_end:
        rows = cursor.rows()
        count = int(np.searchsorted(rows.last_offset, offset))
        _add(alone, rows, count)
        if count:
            cursor.advance(count)
        if count < rows.position.size:
            return


def _add(alone: Alone, rows: Batches, count: int) -> None:
    """Count whole batches; those of an old format that do not say how much they hold as one."""
    if count:
        records = int(np.where(rows.count[:count] < 0, 1, rows.count[:count]).sum())
        alone.add(
            records,
            int(rows.size[:count].sum()),
            int(rows.base_offset[0]),
            int(rows.last_offset[count - 1]),
        )


def _count_rest(cursor: BatchCursor, alone: Alone) -> None:
    while not cursor.at_end:
        rows = cursor.rows()
        _add(alone, rows, rows.position.size)
        cursor.advance(rows.position.size)


def _pass_equal(cursors: tuple[BatchCursor, BatchCursor], found: Comparison) -> int:
    """Move behind batches that are the same; how many were."""
    first, second = (cursor.rows() for cursor in cursors)
    count = min(first.position.size, second.position.size)
    same = np.ones(count, dtype=np.bool_)
    for name in _SAME:
        same &= getattr(first, name)[:count] == getattr(second, name)[:count]
    differing = np.flatnonzero(~same)
    equal = int(differing[0]) if differing.size else count
    if equal:
        found.equal_to = int(first.last_offset[equal - 1]) + 1
        for cursor in cursors:
            cursor.advance(equal)
    return equal


def _pass_one(cursors: tuple[BatchCursor, BatchCursor], found: Comparison) -> bool:
    """Move behind a batch where the other replica has none; whether there was one."""
    heads = [cursor.rows() for cursor in cursors]
    for side, other in ((0, 1), (1, 0)):
        if heads[side].last_offset[0] < heads[other].base_offset[0]:
            _add(found.inside[side], heads[side], 1)
            cursors[side].advance(1)
            return True
    return False


class _Held:
    """The batch that one replica has at a place, as far as it is not settled yet."""

    def __init__(self, cursor: BatchCursor) -> None:
        self.cursor = cursor
        self.batch: BatchRecords | None = None
        self.at = 0  # the first record that is not settled
        self.counted = False

    def fill(self) -> BatchRecords | None:
        if self.batch is None and not self.cursor.at_end:
            self.batch, self.at, self.counted = self.cursor.read(), 0, False
        return self.batch

    def settle(self, stop: int, missing: Int64s, alone: Alone) -> None:
        """Be done with offsets below `stop`, of which the other replica has some not."""
        assert self.batch is not None
        if missing.size:
            self.count(missing, alone)
        self.at = int(np.searchsorted(self.batch.offsets, stop))
        if self.batch.last_offset < stop:
            self.batch = None
            self.cursor.advance(1)

    def count(self, offsets: Int64s, alone: Alone) -> None:
        """Count records of the batch that only this replica has; its bytes once."""
        assert self.batch is not None
        size = 0 if self.counted else int(self.batch.header.size[0])
        alone.add(offsets.size, size, int(offsets[0]), int(offsets[-1]))
        self.counted = True

    def drop_rest(self, alone: Alone) -> None:
        """Count what is left of the batch, and go behind it."""
        if self.batch is not None:
            if self.batch.offsets.size > self.at:
                self.count(self.batch.offsets[self.at :], alone)
            self.batch = None
            self.cursor.advance(1)


def _pass_records(cursors: tuple[BatchCursor, BatchCursor], found: Comparison) -> bool:
    """Compare records until batches begin together again; False where the logs part."""
    held = _Held(cursors[0]), _Held(cursors[1])
    while True:
        first, second = held[0].fill(), held[1].fill()
        if first is None or second is None:
            for side in (0, 1):
                held[side].drop_rest(found.after[side])
            return True
        stop = min(first.last_offset, second.last_offset) + 1
        offsets = [
            _until(one, batch, stop) for one, batch in zip(held, (first, second), strict=True)
        ]
        common = np.intersect1d(offsets[0], offsets[1])
        parted = _first_difference(first, second, common)
        if parted is not None:
            found.divergence = Divergence(parted, (first.epoch, second.epoch))
            found.equal_to = parted
            for side in (0, 1):
                missing = offsets[side][offsets[side] < parted]
                held[side].settle(parted, np.setdiff1d(missing, common), found.inside[side])
                held[side].drop_rest(found.after[side])
            return False
        for side in (0, 1):
            missing = np.setdiff1d(offsets[side], common)
            held[side].settle(stop, missing, found.inside[side])
        found.equal_to = stop
        if held[0].batch is None and held[1].batch is None:
            return True


def _until(held: _Held, batch: BatchRecords, stop: int) -> Int64s:
    """The offsets of a batch that are not settled and below `stop`."""
    return batch.offsets[held.at : int(np.searchsorted(batch.offsets, stop))]


def _first_difference(first: BatchRecords, second: BatchRecords, common: Int64s) -> int | None:
    """The first of the common offsets at which the records are not the same."""
    if common.size == 0:
        return None
    if first.epoch != second.epoch:
        return int(common[0])
    columns = [
        batch.columns.take(np.searchsorted(batch.offsets, common)) for batch in (first, second)
    ]
    low, high = 0, common.size  # the first `low` are the same, the first `high` are not
    if columns[0].equals(columns[1]):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if columns[0].slice(0, middle).equals(columns[1].slice(0, middle)):
            low = middle
        else:
            high = middle
    return int(common[low])
