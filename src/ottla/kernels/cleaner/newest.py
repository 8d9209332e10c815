"""The newest offset of each key, told apart by the keys themselves and not by their hashes alone.

Entries of a hash, an offset and a key, which tasks exchange, are brought together in tables.
"""

from typing import Final, NamedTuple

import numpy as np

from ottla.format.arrays import Bools, Bytes, Int32s, Int64s, Words
from ottla.format.sentinels import NO_OFFSET
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.memory import load_u64
from ottla.kernels.bytes.writing import write_bytes
from ottla.kernels.status import OK, TABLE_FULL

# The slots of the cursor of a table.
KEYS: Final = 0  # rows taken
BYTES: Final = 1  # bytes of keys taken


class KeyTable(NamedTuple):
    """Keys in order of arrival: the bytes of row r end at key_ends[r].

    A slot holds a row plus one; at most half of them are taken. `newest` is NO_OFFSET where a key
    was only asked about.
    """

    slots: Int64s
    hashes: Words
    newest: Int64s
    key_ends: Int64s
    key_bytes: Bytes


@inlined
def same_bytes(left: Bytes, at: int, right: Bytes, start: int, size: int) -> bool:
    """Whether two spans are equal; eight bytes after the end of each must be readable."""
    done = 0
    while done + 8 <= size:
        if load_u64(left, at + done) != load_u64(right, start + done):
            return False
        done += 8
    if done == size:
        return True
    differs = load_u64(left, at + done) ^ load_u64(right, start + done)
    return bool(differs & ((np.uint64(1) << np.uint64(8 * (size - done))) - np.uint64(1)) == 0)


@kernel
def mark_last(
    hashes: Words,
    bounds: Int32s,
    data: Bytes,
    wanted: Bools,
    slots: Int64s,
    is_last: Bools,
) -> None:
    """Mark the wanted rows after which no other one has the same key; `slots` are empty."""
    mask = slots.size - 1
    for row in range(hashes.size - 1, -1, -1):
        is_last[row] = False
        if not wanted[row]:
            continue
        start = bounds[row]
        size = bounds[row + 1] - start
        at = i64(hashes[row] & np.uint64(mask))
        while slots[at] != 0:
            other = slots[at] - 1
            if (
                hashes[other] == hashes[row]
                and bounds[other + 1] - bounds[other] == size
                and same_bytes(data, i64(bounds[other]), data, i64(start), i64(size))
            ):
                break
            at = (at + 1) & mask
        if slots[at] == 0:
            slots[at] = row + 1
            is_last[row] = True


@inlined
def find_row(key_hash: np.uint64, data: Bytes, start: int, size: int, table: KeyTable) -> int:
    """The slot of a key, or the empty one where it belongs."""
    mask = table.slots.size - 1
    at = i64(key_hash & np.uint64(mask))
    while table.slots[at] != 0:
        row = table.slots[at] - 1
        if table.hashes[row] == key_hash:
            begin = table.key_ends[row - 1] if row > 0 else 0
            if table.key_ends[row] - begin == size and same_bytes(
                table.key_bytes, i64(begin), data, i64(start), i64(size)
            ):
                return at
        at = (at + 1) & mask
    return at


@kernel
def put_entries(
    hashes: Words,
    offsets: Int64s,
    bounds: Int64s,
    data: Bytes,
    first: int,
    table: KeyTable,
    padding: int,
    cursor: Int64s,
    rows: Int64s,
) -> tuple[int, int]:
    """Bring entries into a table from `first` on, and tell the row of each.

    An offset is learnt; one that is inverted, so that it is negative, only asks for its key.
    TABLE_FULL when the table has no room for the next one.
    """
    for at in range(first, hashes.size):
        size = bounds[at + 1] - bounds[at]
        if (
            2 * cursor[KEYS] >= table.slots.size
            or cursor[KEYS] >= table.newest.size
            or cursor[BYTES] + size + padding > table.key_bytes.size
        ):
            return TABLE_FULL, at
        slot = find_row(hashes[at], data, bounds[at], size, table)
        if table.slots[slot] == 0:
            row = cursor[KEYS]
            table.slots[slot] = row + 1
            table.hashes[row] = hashes[at]
            table.newest[row] = NO_OFFSET
            cursor[BYTES] = write_bytes(table.key_bytes, cursor[BYTES], data, bounds[at], size)
            table.key_ends[row] = cursor[BYTES]
            cursor[KEYS] = row + 1
        row = table.slots[slot] - 1
        rows[at] = row
        table.newest[row] = max(table.newest[row], offsets[at])
    return OK, hashes.size


@kernel
def fill_key_slots(count: int, table: KeyTable) -> None:
    """Enter the rows of a table whose slots are empty; their keys are all different."""
    mask = table.slots.size - 1
    for row in range(count):
        at = i64(table.hashes[row] & np.uint64(mask))
        while table.slots[at] != 0:
            at = (at + 1) & mask
        table.slots[at] = row + 1
