"""The cleaner's decisions: keep this batch, keep this record, and what is written for a batch.

Mirrors Cleaner, CleanedTransactionMetadata and MemoryRecords.filterTo. A round has two passes over
the log from its start: `KeyOffsets` learns the newest offset of each key in the dirty part, then
`Cleaner` says of every batch what becomes of it. `cleanable` chooses the dirty part.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Protocol

import numpy as np

from ottla.batch.attributes import Bools, is_control
from ottla.errors import UnsupportedError
from ottla.format.layout import TRANSACTION_INDEX_ENTRY
from ottla.format.sentinels import NO_OFFSET, NO_PRODUCER_ID
from ottla.kernels.cleaner import compaction as kernels
from ottla.kernels.cleaner import retention
from ottla.kernels.cleaner.compaction import (
    Aborted,
    CleanedTransactions,
    KeyMap,
    Words,
)
from ottla.kernels.cleaner.retention import RoundNumbers, Verdicts, judge_window
from ottla.kernels.producers.state import WINDOW, Markers, fill_slots
from ottla.kernels.status import KEYS_FULL, TABLE_FULL
from ottla.kernels.tables import Batches, Int64s, RecordBuffers
from ottla.rules.producers.producer import ProducerState, slots_for
from ottla.rules.producers.transactions import Entries, aborted_mask

DEFAULT_DELETE_RETENTION_MS: Final = 86_400_000

_FIRST_KEYS: Final = 1 << 12


class Outcome(IntEnum):
    """What is written for a batch."""

    DROPPED = retention.DROPPED
    COPIED = retention.COPIED
    REBUILT = retention.REBUILT
    EMPTIED = retention.EMPTIED


class KeyOffsets:
    """The newest offset of each key, as far as `latest_offset` (SkimpyOffsetMap).

    `secret` is two words; tasks that share a map share it. `max_keys` is where Kafka's buffer would
    be full: the round then ends at the last record that had room.
    """

    def __init__(self, secret: Words, max_keys: int | None = None) -> None:
        self.secret = secret
        self.max_keys = max_keys
        self.is_full = False
        self.keys = _allocate_keys(_FIRST_KEYS)
        self.cursor = np.array([0, NO_OFFSET], dtype=np.int64)

    @property
    def count(self) -> int:
        """How many keys it holds."""
        return int(self.cursor[kernels.KEYS])

    @property
    def latest_offset(self) -> int:
        """Up to where every record is known; those after it stay as they are."""
        return int(self.cursor[kernels.LATEST])

    def advance(self, offset: int) -> None:
        """Everything up to `offset` was seen, be it a batch without keys or a gap."""
        if not self.is_full:
            self.cursor[kernels.LATEST] = max(self.latest_offset, offset)

    def hash(self, records: RecordBuffers) -> tuple[Words, Words]:
        """The hashes of all keys."""
        low, high = np.empty((2, records.offset.size), dtype=np.uint64)
        kernels.hash_keys(records, records.offset.size, self.secret, low, high)
        return low, high

    def is_newest(self, records: RecordBuffers) -> Bools:
        """Which records no newer one of their key follows."""
        found = np.empty(records.offset.size, dtype=np.bool_)
        kernels.mark_newest(records.offset, *self.hash(records), self.keys, found)
        return found

    def put(self, records: RecordBuffers, wanted: Bools) -> None:
        """Learn the wanted records, which all have a key."""
        if self.is_full:
            return
        low, high = self.hash(records)
        limit = -1 if self.max_keys is None else self.max_keys
        status, row = TABLE_FULL, 0
        while status == TABLE_FULL:
            status, row = kernels.put_keys(
                low, high, records.offset, wanted, row, limit, self.keys, self.cursor
            )
            if status == TABLE_FULL:
                larger = _allocate_keys(2 * self.keys.offset.size)
                kernels.move_keys(self.keys, larger)
                self.keys = larger
        self.is_full = status == KEYS_FULL


def _allocate_keys(capacity: int) -> KeyMap:
    hashes = np.zeros((2, capacity), dtype=np.uint64)
    return KeyMap(hashes[0], hashes[1], np.full(capacity, NO_OFFSET, dtype=np.int64))


def learn(
    offsets: KeyOffsets,
    batches: Batches,
    rows: Int64s,
    records: RecordBuffers,
    has_key: Bools,
    aborted: Entries,
    first_dirty_offset: int,
) -> None:
    """Take the batches of a window into the map; rows[b] records of batch b are in `records`.

    Aborted and control batches are passed over (Cleaner.buildOffsetMapForSegment).
    """
    skipped = aborted_mask(batches, aborted) | is_control(batches)
    wanted = has_key & (records.offset >= first_dirty_offset)
    if skipped.any():
        wanted &= ~np.repeat(skipped, rows)
    offsets.put(records, wanted)
    dirty = batches.last_offset[batches.last_offset >= first_dirty_offset]
    if dirty.size:
        offsets.advance(int(dirty.max()))


class LastRecords(NamedTuple):
    """What the log must keep of active producers, by id (lastRecordsOfActiveProducers).

    Without data in the window, NO_OFFSET stands for it and the newest marker is kept instead.
    """

    producer_id: Int64s
    last_data_offset: Int64s
    producer_epoch: Int64s


def last_records(state: ProducerState) -> LastRecords:
    """The last records of all producers of a state."""
    count = state.count
    producers = state.producers
    order = np.argsort(producers.producer_id[:count])
    newest = order * WINDOW + (producers.appended[order] - 1) % WINDOW
    data = np.where(producers.appended[order] > 0, state.windows.last_offset[newest], NO_OFFSET)
    return LastRecords(producers.producer_id[order], data, producers.producer_epoch[order])


class Round(NamedTuple):
    """What a round is told; `upper_bound` is the first offset that it must not clean."""

    upper_bound: int
    now: int
    delete_retention_ms: int = DEFAULT_DELETE_RETENTION_MS


class Judged(NamedTuple):
    """What becomes of the batches of a window, and of their records.

    `delete_horizon` is what a rebuilt batch gets, NO_TIMESTAMP if none; `tombstones` are those that
    stay.
    """

    outcome: Int64s
    delete_horizon: Int64s
    keep: Bools
    kept: Int64s
    without_key: int
    tombstones: int


class Newest(Protocol):
    """What the first pass found out: `KeyOffsets`, or the offsets that stay of it."""

    @property
    def latest_offset(self) -> int: ...

    def is_newest(self, records: RecordBuffers) -> Bools: ...


class InTransaction(NamedTuple):
    """What a round knows of transactions between two batches: producers that are in one.

    The columns are those of `CleanedTransactions`; `next_aborted` is the first aborted transaction
    that has not begun yet.
    """

    producer_id: Int64s
    aborted: Int64s
    seen: Int64s
    committed: Int64s
    next_aborted: int


_NOBODY: Final = np.zeros(0, dtype=np.int64)
NO_TRANSACTIONS: Final = InTransaction(_NOBODY, _NOBODY, _NOBODY, _NOBODY, 0)


class RoundTransactions:
    """Which batches need not stay for their transaction's sake (CleanedTransactionMetadata).

    `aborted` are all aborted transactions up to the bound of the round; batches are judged in the
    order of the log, from its start or from where `began` was taken.
    """

    def __init__(self, aborted: Entries, began: InTransaction = NO_TRANSACTIONS) -> None:
        self._entries = aborted[np.argsort(aborted["first_offset"], kind="stable")]
        self._aborted = Aborted(
            self._entries["producer_id"].astype(np.int64),
            self._entries["first_offset"].astype(np.int64),
            np.zeros(aborted.size, dtype=np.bool_),
        )
        count = began.producer_id.size
        self._transactions = _grown(CleanedTransactions(*began[:4], slots_for(1)), count, 1)
        self._cursor = np.array([count, began.next_aborted], dtype=np.int64)

    def judge(self, batches: Batches, markers: Markers) -> Bools:
        """Which of the next batches may go."""
        needed = int(self._cursor[kernels.COUNT]) + batches.position.size + self._entries.size
        if needed > self._transactions.producer_id.size:
            self._transactions = _grown(
                self._transactions, int(self._cursor[kernels.COUNT]), needed
            )
        discardable = np.zeros(batches.position.size, dtype=np.bool_)
        kernels.judge_batches(
            batches, markers, self._aborted, self._transactions, self._cursor, discardable
        )
        return discardable

    def now(self) -> InTransaction:
        """What a judge of the batches that follow must be told."""
        count = int(self._cursor[kernels.COUNT])
        ids, aborted, seen, committed = (column[:count] for column in self._transactions[:4])
        rows = np.flatnonzero(aborted | seen | committed)
        following = int(self._cursor[kernels.NEXT_ABORTED])
        return InTransaction(ids[rows], aborted[rows], seen[rows], committed[rows], following)

    def retained_aborted(self) -> Entries:
        """Aborted transactions of which batches were still there, in order of their markers."""
        kept = self._entries[self._aborted.retained]
        return kept[np.argsort(kept["last_offset"], kind="stable")].astype(TRANSACTION_INDEX_ENTRY)


class Cleaner:
    """Judges the batches of a log in order, from its first one on or from where `began` was taken.

    `aborted` are all aborted transactions up to the bound; `retained_aborted` afterwards those
    that the cleaned segments' transaction indexes still need.
    """

    def __init__(
        self,
        round_: Round,
        offsets: Newest,
        aborted: Entries,
        producers: LastRecords,
        began: InTransaction = NO_TRANSACTIONS,
    ) -> None:
        self.round = round_
        self.offsets = offsets
        self.producers = producers
        self.transactions = RoundTransactions(aborted, began)

    def retained_aborted(self) -> Entries:
        """Aborted transactions of which batches were still there, in order of their markers."""
        return self.transactions.retained_aborted()

    def judge(
        self,
        batches: Batches,
        markers: Markers,
        rows: Int64s,
        records: RecordBuffers,
        *,
        keeps_legacy_tombstones: bool,
    ) -> Judged:
        """Judge a window; rows[b] records of batch b are in `records`."""
        discardable = self.transactions.judge(batches, markers)
        stays_empty = self._stays_empty(batches)
        keep = np.empty(records.offset.size, dtype=np.bool_)
        found = Verdicts(keep, *np.empty((4, rows.size), dtype=np.int64))
        now, latest = self.round.now, self.offsets.latest_offset
        horizon = now + self.round.delete_retention_ms
        numbers = RoundNumbers(now, horizon, latest, keeps_legacy_tombstones)
        is_newest = self.offsets.is_newest(records)
        without_key = judge_window(
            batches, discardable, stays_empty, rows, records, is_newest, numbers, found
        )
        _, outcome, delete_horizon, kept, tombstones = found
        self._refuse_legacy(batches, outcome == Outcome.EMPTIED)
        return Judged(outcome, delete_horizon, keep, kept, without_key, int(tombstones.sum()))

    def _refuse_legacy(self, batches: Batches, emptied: Bools) -> None:
        """Kafka's cleaner dies here too (MemoryRecords.filterTo)."""
        for row in np.flatnonzero(emptied & (batches.magic < 2)).tolist():
            offset = int(batches.last_offset[row])
            raise UnsupportedError(
                f"nothing of the batch with last offset {offset} would stay, and it is the last one"
                f" of the round; magic {batches.magic[row]} has no empty batches: convert it first"
            )

    def _stays_empty(self, batches: Batches) -> Bools:
        """Batches that hold a producer's last sequence or epoch, and the last one of the round."""
        known = self.producers
        ends_round: Bools = batches.last_offset + 1 == self.round.upper_bound
        if not known.producer_id.size:
            return ends_round
        at = np.searchsorted(known.producer_id, batches.producer_id)
        found = np.zeros(at.size, dtype=np.bool_)
        inside = at < known.producer_id.size
        found[inside] = known.producer_id[at[inside]] == batches.producer_id[inside]
        found &= batches.producer_id > NO_PRODUCER_ID
        at[~found] = 0
        last = known.last_data_offset[at]
        is_last: Bools = np.where(
            last >= 0,
            batches.last_offset == last,
            is_control(batches) & (batches.producer_epoch == known.producer_epoch[at]),
        )
        return (found & is_last) | ends_round


def _allocate_transactions(capacity: int) -> CleanedTransactions:
    ids, aborted, seen, committed = np.zeros((4, capacity), dtype=np.int64)
    return CleanedTransactions(ids, aborted, seen, committed, slots_for(capacity))


def _grown(old: CleanedTransactions, count: int, needed: int) -> CleanedTransactions:
    """At least twice the room."""
    larger = _allocate_transactions(max(needed, 2 * old.producer_id.size))
    for new, column in zip(larger[:4], old[:4], strict=True):
        new[: column.size] = column
    fill_slots(count, larger.slots, larger.producer_id)
    return larger
