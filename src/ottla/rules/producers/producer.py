"""What a partition knows of its producers, and which batches a broker refuses because of it.

Mirrors ProducerStateManager, ProducerStateEntry and ProducerAppendInfo; `docs/rules.md` lists the
rules. A `ProducerState` is changed in place, batch by batch; a refused batch leaves it as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.batch.attributes import is_control
from ottla.batch.memory import allocate_from_pool
from ottla.errors import Rule
from ottla.format.producers import DEFAULT_EXPIRATION_MS as DEFAULT_EXPIRATION_MS
from ottla.format.producers import Origin as Origin
from ottla.format.sentinels import MAX_SEQUENCE, NO_OFFSET, NO_SEQUENCE
from ottla.kernels.producers import state as kernels
from ottla.kernels.producers.state import WINDOW, Completed, Markers, Producers, Windows
from ottla.kernels.status import (
    COORDINATOR_FENCED,
    DUPLICATE,
    EPOCH_FENCED,
    NOT_TRANSACTIONAL,
    OK,
    SEQUENCE_OUT_OF_ORDER,
    TABLE_FULL,
)
from ottla.kernels.tables import Batches, Int64s

FIRST_CAPACITY: Final = 64


_REFUSALS: Final = {
    EPOCH_FENCED: (Rule.PRODUCER_EPOCH_FENCED, "a newer epoch was seen"),
    SEQUENCE_OUT_OF_ORDER: (Rule.SEQUENCE_IN_ORDER, "does not follow the last sequence"),
    COORDINATOR_FENCED: (Rule.COORDINATOR_EPOCH_FENCED, "a newer coordinator was seen"),
    NOT_TRANSACTIONAL: (Rule.TRANSACTION_STATE, "a transaction is open"),
}


@dataclass(slots=True)
class ProducerState:
    """The tables of the fold; `open` and `entry` read them."""

    producers: Producers
    windows: Windows
    slots: Int64s
    cursor: Int64s

    @property
    def count(self) -> int:
        """How many producers are known."""
        return int(self.cursor[kernels.COUNT])


class SeenBatch(NamedTuple):
    """A batch of a producer's window (BatchMetadata)."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Producer(NamedTuple):
    """What is known of one producer (ProducerStateEntry), its oldest batch first."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp: int
    transaction_first_offset: int | None
    window: tuple[SeenBatch, ...]


class Refusal(NamedTuple):
    """Why a broker does not take the batch in `row`."""

    row: int
    rule: Rule
    detail: str
    found: str
    expected: str


class Duplicate(NamedTuple):
    """The batch in `row` is already in the log: the broker answers with where and when."""

    row: int
    batch: SeenBatch


class Appended(NamedTuple):
    """What came of an append: the transactions it ended, and why it stopped early, if it did."""

    completed: Completed
    stopped: Refusal | Duplicate | None


def empty_state(capacity: int = FIRST_CAPACITY) -> ProducerState:
    """Nothing known."""
    producers = Producers(*np.zeros((len(Producers._fields), capacity), dtype=np.int64))
    windows = Windows(*np.zeros((len(Windows._fields), capacity * WINDOW), dtype=np.int64))
    cursor = np.zeros(kernels.CURSOR_SIZE, dtype=np.int64)
    cursor[[kernels.OLDEST, kernels.NEWEST]] = -1
    return ProducerState(producers, windows, slots_for(capacity), cursor)


def slots_for(capacity: int) -> Int64s:
    """At most half of the slots are ever taken."""
    return np.zeros(1 << (2 * capacity - 1).bit_length(), dtype=np.int64)


def _grow(state: ProducerState) -> None:
    """Twice the room; rows stay where they are."""
    larger = empty_state(2 * state.producers.producer_id.size)
    for new, old in zip(
        larger.producers + larger.windows, state.producers + state.windows, strict=True
    ):
        new[: old.size] = old
    state.producers, state.windows, state.slots = larger.producers, larger.windows, larger.slots
    kernels.fill_slots(state.count, state.slots, state.producers.producer_id)


def allocate_completed(capacity: int) -> Completed:
    """Room for so many transactions, uninitialised."""
    room = allocate_from_pool(8 * len(Completed._fields) * capacity).view(np.int64)
    return Completed(*room.reshape(len(Completed._fields), capacity))


def concat_completed(tables: Sequence[Completed]) -> Completed:
    """Tables one after another."""
    if len(tables) == 1:
        return tables[0]
    whole = allocate_completed(sum(table.last_offset.size for table in tables))
    for column, parts in zip(whole, zip(*tables, strict=True), strict=False):
        np.concatenate(parts, out=column)
    return whole


def no_markers(count: int) -> Markers:
    """The markers of batches of which none is a control batch."""
    nothing = np.full((3, count), -1, dtype=np.int64)
    nothing[0] = kernels.NO_MARKER
    return Markers(*nothing)


def append(
    state: ProducerState, batches: Batches, markers: Markers, origin: Origin, first: int = 0
) -> Appended:
    """Append rows from `first` on until one is refused or a duplicate."""
    completed = allocate_completed(int(np.count_nonzero(is_control(batches))))
    state.cursor[kernels.COMPLETED] = 0
    status, row = TABLE_FULL, first
    while status == TABLE_FULL:
        status, row = kernels.append_batches(
            batches,
            markers,
            row,
            int(origin),  # Numba recognises an enum only slowly
            state.producers,
            state.windows,
            state.slots,
            state.cursor,
            completed,
        )
        if status == TABLE_FULL:
            _grow(state)
    done = Completed(*(column[: state.cursor[kernels.COMPLETED]] for column in completed))
    if status == OK:
        return Appended(done, None)
    if status == DUPLICATE:
        known = _seen(state.windows, int(state.cursor[kernels.DUPLICATE_AT]))
        return Appended(done, Duplicate(row, known))
    return Appended(done, _refusal(state, batches, markers, row, status))


def append_all(
    state: ProducerState, batches: Batches, markers: Markers, origin: Origin
) -> tuple[Completed, list[Refusal | Duplicate]]:
    """Append every row that is taken, and note the others."""
    completed: list[Completed] = []
    stops: list[Refusal | Duplicate] = []
    first = 0
    while first < batches.position.size:
        done, stopped = append(state, batches, markers, origin, first)
        completed.append(done)
        if stopped is None:
            break
        stops.append(stopped)
        first = stopped.row + 1
    return concat_completed(completed), stops


def _refusal(
    state: ProducerState, batches: Batches, markers: Markers, row: int, status: int
) -> Refusal:
    rule, detail = _REFUSALS[status]
    producer_id, epoch = int(batches.producer_id[row]), int(batches.producer_epoch[row])
    known = _producer(state, _row_of(state, producer_id))
    found = expected = ""
    if status == EPOCH_FENCED:
        found, expected = str(epoch), f"at least {known.producer_epoch}"
    elif status == SEQUENCE_OUT_OF_ORDER:
        same_epoch = known.window and epoch == known.producer_epoch
        last = known.window[-1].last_sequence if same_epoch else NO_SEQUENCE
        found, expected = str(batches.base_sequence[row]), str((last + 1) % (MAX_SEQUENCE + 1))
    elif status == COORDINATOR_FENCED:
        found, expected = str(markers.coordinator_epoch[row]), f"at least {known.coordinator_epoch}"
    elif status == NOT_TRANSACTIONAL:
        first_offset = known.transaction_first_offset
        found, expected = "not transactional", f"the transaction from offset {first_offset}"
    return Refusal(row, rule, f"producer {producer_id}: {detail}", found, expected)


def _seen(windows: Windows, at: int) -> SeenBatch:
    last, offset, delta = (int(column[at]) for column in windows[:3])
    first = (last - delta) % (MAX_SEQUENCE + 1)
    return SeenBatch(first, last, offset - delta, offset, int(windows.timestamp[at]))


def entry(state: ProducerState, producer_id: int) -> Producer | None:
    """What is known of a producer."""
    row = _row_of(state, producer_id)
    return _producer(state, row) if row >= 0 else None


def _row_of(state: ProducerState, producer_id: int) -> int:
    rows = np.flatnonzero(state.producers.producer_id[: state.count] == producer_id)
    return int(rows[0]) if rows.size else -1


def _producer(state: ProducerState, row: int) -> Producer:
    appended = int(state.producers.appended[row])
    rings = [row * WINDOW + at % WINDOW for at in range(max(0, appended - WINDOW), appended)]
    first_offset = int(state.producers.first_offset[row])
    return Producer(
        int(state.producers.producer_id[row]),
        int(state.producers.producer_epoch[row]),
        int(state.producers.coordinator_epoch[row]),
        int(state.producers.last_timestamp[row]),
        None if first_offset == NO_OFFSET else first_offset,
        tuple(_seen(state.windows, at) for at in rings),
    )


def open_rows(state: ProducerState) -> list[int]:
    """The rows of producers with an open transaction, by its first offset."""
    rows = []
    row = int(state.cursor[kernels.OLDEST])
    while row >= 0:
        rows.append(row)
        row = int(state.producers.newer[row])
    return rows


def remove_expired(
    state: ProducerState, now: int, expiration_ms: int = DEFAULT_EXPIRATION_MS
) -> ProducerState:
    """Without the producers that have been idle for too long, by the time of their data."""
    entries = state.producers
    kept = now - entries.last_timestamp[: state.count] < expiration_ms
    # Not by the first offset: that of a transaction may be -1, where a batch says so.
    kept[open_rows(state)] = True
    return _with_rows(state, np.flatnonzero(kept))


def _with_rows(state: ProducerState, rows: npt.NDArray[np.intp]) -> ProducerState:
    smaller = empty_state(max(FIRST_CAPACITY, rows.size))
    for new, old in zip(smaller.producers, state.producers, strict=True):
        new[: rows.size] = old[rows]
    rings = (rows[:, None] * WINDOW + np.arange(WINDOW)).ravel()
    for new, old in zip(smaller.windows, state.windows, strict=True):
        new[: rings.size] = old[rings]
    smaller.cursor[kernels.COUNT] = rows.size
    kernels.fill_slots(rows.size, smaller.slots, smaller.producers.producer_id)
    # Links are rows, which have moved.
    moved = {int(row): at for at, row in enumerate(rows)}
    chain = [-1, *(moved[row] for row in open_rows(state)), -1]
    for before, row, after in zip(chain, chain[1:], chain[2:], strict=False):
        smaller.producers.older[row] = before
        smaller.producers.newer[row] = after
    smaller.cursor[kernels.OLDEST], smaller.cursor[kernels.NEWEST] = chain[1], chain[-2]
    return smaller
