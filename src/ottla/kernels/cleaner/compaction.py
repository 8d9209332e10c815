"""What the cleaner asks of batches, the hashes of keys, and the copying of what stays.

Keys have a keyed hash (SipHash), where Kafka takes MD5: nobody who writes keys can make many of
them collide without the job's own secret.
"""

from typing import NamedTuple

import numpy as np

from ottla.format.arrays import Bools, Bytes, Int32s, Int64s, Words
from ottla.format.attributes import CONTROL, TRANSACTIONAL, ControlType
from ottla.kernels._jit import INTERPRETED, i64, inlined, kernel
from ottla.kernels.bytes.memory import load_u64
from ottla.kernels.bytes.writing import write_bytes
from ottla.kernels.producers.state import Markers, find_slot
from ottla.kernels.tables import Batches, RecordBuffers

# The slots of the cursor of cleaned transactions.
COUNT = 0  # producers known
NEXT_ABORTED = 1  # the first aborted transaction not begun yet


class CleanedTransactions(NamedTuple):
    """One row per producer (CleanedTransactionMetadata), and the slots to find it by.

    `aborted` is the row plus one of the aborted transaction that it is in, `seen` whether a batch
    of that one was still there, `committed` whether one of a transaction that is not aborted.
    """

    producer_id: Int64s
    aborted: Int64s
    seen: Int64s
    committed: Int64s
    slots: Int64s


class Aborted(NamedTuple):
    """Aborted transactions by first offset; `retained` marks those that a new index still needs."""

    producer_id: Int64s
    first_offset: Int64s
    retained: Bools


if INTERPRETED:

    def add_u64(left: np.uint64, right: np.uint64) -> np.uint64:
        """Addition that wraps in silence, as compiled code does."""
        return np.uint64((int(left) + int(right)) & 0xFFFFFFFFFFFFFFFF)

else:

    @inlined
    def add_u64(left: np.uint64, right: np.uint64) -> np.uint64:
        """Addition that wraps."""
        return left + right


@inlined
def rotate(word: np.uint64, bits: int) -> np.uint64:
    """Rotate to the left."""
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def sip_round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """One round of SipHash."""
    v0 = add_u64(v0, v1)
    v1 = rotate(v1, 13) ^ v0
    v0 = rotate(v0, 32)
    v2 = add_u64(v2, v3)
    v3 = rotate(v3, 16) ^ v2
    v0 = add_u64(v0, v3)
    v3 = rotate(v3, 21) ^ v0
    v2 = add_u64(v2, v1)
    v1 = rotate(v1, 17) ^ v2
    v2 = rotate(v2, 32)
    return v0, v1, v2, v3


@inlined
def hash_bytes(data: Bytes, at: int, size: int, secret: Words) -> np.uint64:
    """The first half of SipHash-2-4 with 128 bits; eight bytes after the end must be readable."""
    v0 = secret[0] ^ np.uint64(0x736F6D6570736575)
    v1 = secret[1] ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
    v2 = secret[0] ^ np.uint64(0x6C7967656E657261)
    v3 = secret[1] ^ np.uint64(0x7465646279746573)
    whole = size >> 3
    for index in range(whole + 1):
        word = load_u64(data, at + 8 * index)
        if index == whole:
            word &= (np.uint64(1) << np.uint64(8 * (size & 7))) - np.uint64(1)
            word |= np.uint64(size & 0xFF) << np.uint64(56)
        v3 ^= word
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0 ^= word
    v2 ^= np.uint64(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    hashed: np.uint64 = v0 ^ v1 ^ v2 ^ v3
    return hashed


@kernel
def hash_keys(records: RecordBuffers, secret: Words, hashes: Words) -> None:
    """The hash of every key; of a record without one, of no bytes."""
    for row in range(hashes.size):
        start, stop = records.key_bounds[row], records.key_bounds[row + 1]
        hashes[row] = hash_bytes(records.key_bytes, start, stop - start, secret)


@inlined
def cleaned_row(producer_id: int, state: CleanedTransactions, cursor: Int64s) -> int:
    """The row of a producer, a new one if it has none; there must be room for it."""
    slot = find_slot(producer_id, state.slots, state.producer_id)
    if state.slots[slot] == 0:
        row = cursor[COUNT]
        cursor[COUNT] = row + 1
        state.slots[slot] = row + 1
        state.producer_id[row] = producer_id
        state.aborted[row] = 0
        state.seen[row] = 0
        state.committed[row] = 0
    return i64(state.slots[slot] - 1)


@kernel
def find_discardable(
    batches: Batches,
    markers: Markers,
    aborted: Aborted,
    state: CleanedTransactions,
    cursor: Int64s,
    discardable: Bools,
) -> None:
    """Fill `discardable`: what need not stay for its transaction's sake (shouldDiscardBatch).

    A marker must stay while any batch of its transaction is there, even an empty one.
    """
    for at in range(batches.position.size):
        while (
            cursor[NEXT_ABORTED] < aborted.first_offset.size
            and aborted.first_offset[cursor[NEXT_ABORTED]] <= batches.last_offset[at]
        ):
            row = cleaned_row(aborted.producer_id[cursor[NEXT_ABORTED]], state, cursor)
            cursor[NEXT_ABORTED] += 1
            if state.aborted[row] == 0:
                state.aborted[row] = cursor[NEXT_ABORTED]
                state.seen[row] = 0
        row = cleaned_row(batches.producer_id[at], state, cursor)
        attributes = batches.attributes[at] if batches.magic[at] >= 2 else 0
        if attributes & CONTROL == 0:
            inside = attributes & TRANSACTIONAL != 0 and state.aborted[row] != 0
            discardable[at] = inside
            if inside:
                state.seen[row] = 1
            elif attributes & TRANSACTIONAL:
                state.committed[row] = 1
        elif markers.control_type[at] == ControlType.ABORT:
            still_there = state.aborted[row] != 0 and state.seen[row] != 0
            if still_there:
                aborted.retained[state.aborted[row] - 1] = True
            state.aborted[row] = 0
            discardable[at] = not still_there
        elif markers.control_type[at] == ControlType.COMMIT:
            discardable[at] = state.committed[row] == 0
            state.committed[row] = 0
        else:
            # What cleaning left of a marker may go; other control records never.
            discardable[at] = batches.count[at] == 0


@kernel
def take_bytes(bounds: Int32s, data: Bytes, rows: Int64s, out_bounds: Int32s, out: Bytes) -> None:
    """Copy the chosen fields one after another; `out` has room for them and its padding."""
    at = 0
    out_bounds[0] = 0
    for target in range(rows.size):
        start = bounds[rows[target]]
        size = bounds[rows[target] + 1] - start
        at = write_bytes(out, at, data, start, size)
        out_bounds[target + 1] = at


@kernel
def assemble(
    window: Bytes, made: Bytes, from_made: Bools, starts: Int64s, sizes: Int64s, out: Bytes
) -> None:
    """Copy batches one after another, each from the window or from what was made anew."""
    at = 0
    for row in range(starts.size):
        if from_made[row]:
            at = write_bytes(out, at, made, starts[row], sizes[row])
        else:
            at = write_bytes(out, at, window, starts[row], sizes[row])
