"""Fold batches into what a partition knows of its producers: epochs, sequences and transactions.

One fold serves the broker's checks (ProducerAppendInfo) and the transactions of a log, so that
where a transaction begins and ends is written once. A refused batch changes nothing.
"""

from typing import NamedTuple

from ottla.format.arrays import Int64s
from ottla.format.attributes import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    ControlType,
)
from ottla.format.producers import Origin
from ottla.format.sentinels import MAX_SEQUENCE, NO_OFFSET, NO_PRODUCER_EPOCH, NO_SEQUENCE
from ottla.kernels._jit import inlined, kernel
from ottla.kernels.bytes.ints import wrapping_add
from ottla.kernels.producers.sequences import add_sequence, subtract_sequence
from ottla.kernels.status import (
    COORDINATOR_FENCED,
    DUPLICATE,
    EPOCH_FENCED,
    NOT_TRANSACTIONAL,
    OK,
    SEQUENCE_OUT_OF_ORDER,
    TABLE_FULL,
)
from ottla.kernels.tables import Batches

WINDOW = 5  # batches that are remembered of a producer (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)

# Who writes (AppendOrigin); the checks depend on it.
REPLICATION = Origin.REPLICATION.value
CLIENT = Origin.CLIENT.value
RAFT_LEADER = Origin.RAFT_LEADER.value

# The slots of the cursor.
COUNT = 0  # producers known
COMPLETED = 1  # rows of the table of completed transactions
OLDEST = 2  # the ends of the list of open transactions, by first offset
NEWEST = 3
DUPLICATE_AT = 4  # where in the windows a duplicate was found
CURSOR_SIZE = 5

NO_MARKER = -2  # the control type of whatever is not a control batch with a readable first record


class Markers(NamedTuple):
    """One row per batch: what the first record of a control batch says, else NO_MARKER."""

    control_type: Int64s
    coordinator_epoch: Int64s
    timestamp: Int64s


class Producers(NamedTuple):
    """One row per producer (ProducerStateEntry), with the transaction that it has open.

    `appended` counts data batches of the epoch. An open transaction has a `first_offset`; `older`
    and `newer` link the open ones by it. The rest is about the open transaction alone.
    """

    producer_id: Int64s
    producer_epoch: Int64s
    coordinator_epoch: Int64s
    last_timestamp: Int64s
    appended: Int64s
    first_offset: Int64s
    older: Int64s
    newer: Int64s
    first_timestamp: Int64s
    last_offset: Int64s
    batches: Int64s
    records: Int64s
    size: Int64s


class Windows(NamedTuple):
    """The last WINDOW data batches of each producer (BatchMetadata): rings, one after another."""

    last_sequence: Int64s
    last_offset: Int64s
    offset_delta: Int64s
    timestamp: Int64s


class Completed(NamedTuple):
    """Transactions that a marker ended; one that wrote nothing has no first offset.

    `last_offset` is the marker's and `last_stable_offset` what a transaction index would hold.
    """

    producer_id: Int64s
    producer_epoch: Int64s
    coordinator_epoch: Int64s
    control_type: Int64s
    first_offset: Int64s
    last_offset: Int64s
    last_stable_offset: Int64s
    first_timestamp: Int64s
    timestamp: Int64s
    batches: Int64s
    records: Int64s
    size: Int64s


@inlined
def find_slot(producer_id: int, slots: Int64s, producer_ids: Int64s) -> int:
    """The slot that holds a producer's row plus one, or the empty slot where it belongs."""
    mask = slots.size - 1
    low = (producer_id & 0x7FFFFFFF) * 0x9E3779B1
    high = ((producer_id >> 31) & 0x7FFFFFFF) * 0x85EBCA6B
    slot = ((low ^ high) >> 15) & mask
    while slots[slot] != 0 and producer_ids[slots[slot] - 1] != producer_id:
        slot = (slot + 1) & mask
    return slot


@kernel
def fill_slots(count: int, slots: Int64s, producer_ids: Int64s) -> None:
    """Enter the first `count` producers into empty slots."""
    for row in range(count):
        slots[find_slot(producer_ids[row], slots, producer_ids)] = row + 1


@inlined
def begin_producer(producer_id: int, row: int, producers: Producers) -> None:
    """A producer of whom nothing is known (ProducerStateEntry.empty)."""
    producers.producer_id[row] = producer_id
    producers.producer_epoch[row] = NO_PRODUCER_EPOCH
    producers.coordinator_epoch[row] = -1
    producers.last_timestamp[row] = -1
    producers.appended[row] = 0
    producers.first_offset[row] = NO_OFFSET


@inlined
def last_sequence(producers: Producers, windows: Windows, row: int) -> int:
    """The last sequence of the epoch, NO_SEQUENCE if it has none yet."""
    if producers.appended[row] == 0:
        return NO_SEQUENCE
    newest = row * WINDOW + (producers.appended[row] - 1) % WINDOW
    return int(windows.last_sequence[newest])


@inlined
def find_duplicate(first: int, last: int, row: int, producers: Producers, windows: Windows) -> int:
    """Where the window has a batch with exactly these sequences, else -1 (findDuplicateBatch)."""
    for at in range(row * WINDOW, row * WINDOW + min(WINDOW, producers.appended[row])):
        known = windows.last_sequence[at]
        if known == last and subtract_sequence(known, windows.offset_delta[at]) == first:
            return at
    return -1


@inlined
def in_sequence(last: int, first: int) -> bool:
    """Whether `first` comes after `last` (ProducerAppendInfo.inSequence); after -1 comes 0."""
    return first == last + 1 or (first == 0 and last == MAX_SEQUENCE)


@inlined
def change_epoch(epoch: int, row: int, producers: Producers) -> None:
    """Another epoch, even a lower one, forgets the window (maybeUpdateProducerEpoch)."""
    if producers.producer_epoch[row] != epoch:
        producers.appended[row] = 0
        producers.producer_epoch[row] = epoch


@kernel
def open_transaction(row: int, first_offset: int, producers: Producers, cursor: Int64s) -> None:
    """Put a transaction into the list of open ones, kept by first offset; nearly always last."""
    producers.first_offset[row] = first_offset
    before = cursor[NEWEST]
    while before >= 0 and producers.first_offset[before] > first_offset:
        before = producers.older[before]
    after = cursor[OLDEST] if before < 0 else producers.newer[before]
    producers.older[row] = before
    producers.newer[row] = after
    if before < 0:
        cursor[OLDEST] = row
    else:
        producers.newer[before] = row
    if after < 0:
        cursor[NEWEST] = row
    else:
        producers.older[after] = row
    producers.first_timestamp[row] = -1
    producers.last_offset[row] = first_offset
    producers.batches[row] = 0
    producers.records[row] = 0
    producers.size[row] = 0


@inlined
def close_transaction(row: int, producers: Producers, cursor: Int64s) -> None:
    """Take a transaction out of the list of open ones."""
    before, after = producers.older[row], producers.newer[row]
    if before < 0:
        cursor[OLDEST] = after
    else:
        producers.newer[before] = after
    if after < 0:
        cursor[NEWEST] = before
    else:
        producers.older[after] = before
    producers.first_offset[row] = NO_OFFSET


@inlined
def check_data(
    batches: Batches,
    at: int,
    last: int,
    origin: int,
    row: int,
    producers: Producers,
    windows: Windows,
    cursor: Int64s,
) -> int:
    """ProducerAppendInfo.appendDataBatch before it changes anything; clients have sequences."""
    epoch, known = batches.producer_epoch[at], producers.producer_epoch[row]
    first = batches.base_sequence[at]
    if origin == CLIENT and epoch == known:
        duplicate = find_duplicate(first, last, row, producers, windows)
        if duplicate >= 0:
            cursor[DUPLICATE_AT] = duplicate
            return DUPLICATE
    if epoch < known and origin != REPLICATION:
        return EPOCH_FENCED
    if origin == CLIENT and known != NO_PRODUCER_EPOCH:
        expected = last_sequence(producers, windows, row) if epoch == known else NO_SEQUENCE
        if not in_sequence(expected, first):
            return SEQUENCE_OUT_OF_ORDER
    if producers.first_offset[row] != NO_OFFSET and batches.attributes[at] & TRANSACTIONAL == 0:
        return NOT_TRANSACTIONAL
    return OK


@inlined
def add_data(
    batches: Batches,
    at: int,
    last: int,
    row: int,
    producers: Producers,
    windows: Windows,
    cursor: Int64s,
) -> None:
    """Remember a data batch, and the transaction that it begins or goes on with."""
    change_epoch(batches.producer_epoch[at], row, producers)
    ring = row * WINDOW + producers.appended[row] % WINDOW
    windows.last_sequence[ring] = last
    windows.last_offset[ring] = batches.last_offset[at]
    windows.offset_delta[ring] = batches.last_offset_delta[at]
    windows.timestamp[ring] = batches.max_timestamp[at]
    producers.appended[row] += 1
    producers.last_timestamp[row] = batches.max_timestamp[at]
    if batches.attributes[at] & TRANSACTIONAL == 0:
        return
    if producers.first_offset[row] == NO_OFFSET:
        open_transaction(row, batches.base_offset[at], producers, cursor)
    if producers.batches[row] == 0:
        # With these flags the base timestamp is not the first record's.
        other = batches.attributes[at] & (LOG_APPEND_TIME | DELETE_HORIZON)
        producers.first_timestamp[row] = (
            batches.max_timestamp[at] if other else batches.base_timestamp[at]
        )
    producers.last_offset[row] = batches.last_offset[at]
    producers.batches[row] += 1
    producers.records[row] += max(batches.count[at], 0)
    producers.size[row] += batches.size[at]


@inlined
def check_marker(
    epoch: int, coordinator_epoch: int, origin: int, row: int, producers: Producers
) -> int:
    """ProducerAppendInfo.appendEndTxnMarker before it changes anything; replicas take all."""
    if origin == REPLICATION:
        return OK
    if epoch < producers.producer_epoch[row]:
        return EPOCH_FENCED
    if coordinator_epoch < producers.coordinator_epoch[row]:
        return COORDINATOR_FENCED
    return OK


@inlined
def add_marker(
    batches: Batches,
    markers: Markers,
    at: int,
    row: int,
    producers: Producers,
    cursor: Int64s,
    completed: Completed,
) -> None:
    """End the producer's transaction, and note the new epochs; a marker is not in the window."""
    done = cursor[COMPLETED]
    is_open = producers.first_offset[row] != NO_OFFSET
    completed.producer_id[done] = producers.producer_id[row]
    completed.producer_epoch[done] = batches.producer_epoch[at]
    completed.coordinator_epoch[done] = markers.coordinator_epoch[at]
    completed.control_type[done] = markers.control_type[at]
    completed.first_offset[done] = producers.first_offset[row]
    completed.last_offset[done] = batches.base_offset[at]
    completed.first_timestamp[done] = producers.first_timestamp[row] if is_open else -1
    completed.timestamp[done] = markers.timestamp[at]
    completed.batches[done] = producers.batches[row] if is_open else 0
    completed.records[done] = producers.records[row] if is_open else 0
    completed.size[done] = producers.size[row] if is_open else 0
    if is_open:
        close_transaction(row, producers, cursor)
    # ProducerStateManager.lastStableOffset: the earliest transaction of any other producer.
    oldest = cursor[OLDEST]
    completed.last_stable_offset[done] = (
        producers.first_offset[oldest] if oldest >= 0 else wrapping_add(batches.base_offset[at], 1)
    )
    cursor[COMPLETED] = done + 1
    change_epoch(batches.producer_epoch[at], row, producers)
    producers.coordinator_epoch[row] = markers.coordinator_epoch[at]
    producers.last_timestamp[row] = markers.timestamp[at]


@inlined
def ends_transaction(control_type: int) -> bool:
    """Whether a control record is a marker."""
    return control_type == ControlType.ABORT or control_type == ControlType.COMMIT


@kernel
def append_batches(
    batches: Batches,
    markers: Markers,
    first: int,
    origin: int,
    producers: Producers,
    windows: Windows,
    slots: Int64s,
    cursor: Int64s,
    completed: Completed,
) -> tuple[int, int]:
    """Append rows from `first` on; return (status, row) of where it stopped, OK at the end.

    TABLE_FULL asks for more room for producers. `completed` must have room for every control batch.
    """
    for at in range(first, batches.position.size):
        producer_id = batches.producer_id[at]
        if producer_id < 0:
            continue
        slot = find_slot(producer_id, slots, producers.producer_id)
        row = slots[slot] - 1
        if row < 0:
            if cursor[COUNT] == producers.producer_id.size:
                return TABLE_FULL, at
            row = cursor[COUNT]
            begin_producer(producer_id, row, producers)
        if batches.attributes[at] & CONTROL == 0:
            first_sequence = batches.base_sequence[at]
            last = NO_SEQUENCE
            if first_sequence != NO_SEQUENCE:
                last = add_sequence(first_sequence, batches.last_offset_delta[at])
            status = check_data(batches, at, last, origin, row, producers, windows, cursor)
            if status != OK:
                return status, at
            add_data(batches, at, last, row, producers, windows, cursor)
        elif ends_transaction(markers.control_type[at]):
            status = check_marker(
                batches.producer_epoch[at], markers.coordinator_epoch[at], origin, row, producers
            )
            if status != OK:
                return status, at
            add_marker(batches, markers, at, row, producers, cursor, completed)
        if slots[slot] == 0:
            slots[slot] = row + 1
            cursor[COUNT] += 1
    return OK, batches.position.size
