"""The cleaner's decisions: keep this batch, keep this record, and what is written for a batch.

Mirrors Cleaner, CleanedTransactionMetadata and MemoryRecords.filterTo. A round has two passes over
the log from its start: `survivors` finds the offsets that stay for their key's sake, then `Cleaner`
says of every batch what becomes of it. `cleanable` chooses the dirty part.
"""

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.attributes import is_control
from ottla.errors import UnsupportedError
from ottla.format.arrays import Bools
from ottla.format.layout import TRANSACTION_INDEX_ENTRY
from ottla.format.sentinels import NO_OFFSET, NO_PRODUCER_ID
from ottla.kernels.cleaner import compaction as kernels
from ottla.kernels.cleaner import retention
from ottla.kernels.cleaner.compaction import (
    Aborted,
    CleanedTransactions,
)
from ottla.kernels.cleaner.retention import RoundNumbers, Verdicts, check_retention
from ottla.kernels.producers.state import WINDOW, Markers, fill_slots
from ottla.kernels.tables import Batches, Int64s, RecordBuffers
from ottla.rules.cleaner.survivors import is_survivor
from ottla.rules.producers.producer import ProducerState, slots_for
from ottla.rules.producers.transactions import Entries


class Outcome(IntEnum):
    """What is written for a batch."""

    DROPPED = retention.DROPPED
    COPIED = retention.COPIED
    REBUILT = retention.REBUILT
    EMPTIED = retention.EMPTIED


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
    delete_retention_ms: int


class RetainedRecords(NamedTuple):
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

    `aborted` are all aborted transactions up to the bound of the round; batches come in the
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

    def find_discardable(self, batches: Batches, markers: Markers) -> Bools:
        """Which of the next batches may go."""
        needed = int(self._cursor[kernels.COUNT]) + batches.position.size + self._entries.size
        if needed > self._transactions.producer_id.size:
            self._transactions = _grown(
                self._transactions, int(self._cursor[kernels.COUNT]), needed
            )
        discardable = np.zeros(batches.position.size, dtype=np.bool_)
        kernels.find_discardable(
            batches, markers, self._aborted, self._transactions, self._cursor, discardable
        )
        return discardable

    def now(self) -> InTransaction:
        """What must be known to go on with the batches that follow."""
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
    """Checks what stays of a log, batch by batch, from its start or from where `began` was taken.

    `survivors` are the offsets that stay for their key's sake, rising; `aborted` are all aborted
    transactions up to the bound.
    """

    def __init__(
        self,
        round_: Round,
        survivors: Int64s,
        aborted: Entries,
        producers: LastRecords,
        began: InTransaction = NO_TRANSACTIONS,
    ) -> None:
        self.round = round_
        self.survivors = survivors
        self.producers = producers
        self.transactions = RoundTransactions(aborted, began)

    def check_retention(
        self,
        batches: Batches,
        markers: Markers,
        rows: Int64s,
        records: RecordBuffers,
        *,
        keeps_legacy_tombstones: bool,
    ) -> RetainedRecords:
        """What stays of a window; rows[b] records of batch b are in `records`."""
        discardable = self.transactions.find_discardable(batches, markers)
        stays_empty = self._stays_empty(batches)
        keep = np.empty(records.offset.size, dtype=np.bool_)
        found = Verdicts(keep, *np.empty((4, rows.size), dtype=np.int64))
        now, latest = self.round.now, self.round.upper_bound - 1
        horizon = now + self.round.delete_retention_ms
        numbers = RoundNumbers(now, horizon, latest, keeps_legacy_tombstones)
        is_newest = is_survivor(self.survivors, records)
        without_key = check_retention(
            batches, discardable, stays_empty, rows, records, is_newest, numbers, found
        )
        _, outcome, delete_horizon, kept, tombstones = found
        self._refuse_legacy(batches, outcome == Outcome.EMPTIED)
        return RetainedRecords(
            outcome, delete_horizon, keep, kept, without_key, int(tombstones.sum())
        )

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
