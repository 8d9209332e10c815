"""The newest record of each key, found by many tasks: what they exchange and what comes of it.

A first pass makes entries of the keys of a window. Whoever holds all entries of a key says which
of its offsets stay. The second pass needs no keys then: a record stays if its offset is one of
these. Keys travel with their hashes, so that two keys with one hash are still two.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.attributes import is_control
from ottla.batch.records import Decoded, unpack_bits
from ottla.format.arrays import Bools, Words
from ottla.format.sentinels import NO_OFFSET
from ottla.kernels.cleaner import newest as kernels
from ottla.kernels.cleaner.compaction import hash_keys, take_bytes
from ottla.kernels.cleaner.newest import KeyTable
from ottla.kernels.status import TABLE_FULL
from ottla.kernels.tables import Batches, Int64s, RecordBuffers
from ottla.region import PADDING, Bytes, padded
from ottla.rules.producers.transactions import Entries, aborted_mask

_FIRST_KEYS: Final = 1 << 10
_FIRST_BYTES: Final = 1 << 14


class KeyEntries(NamedTuple):
    """Keys with an offset each; one that is inverted asks whether its record is the newest.

    `key_bytes` has padding after the last key.
    """

    hashes: Words
    offsets: Int64s
    key_sizes: Int64s
    key_bytes: Bytes


class Learning(NamedTuple):
    """What the first pass of a round is told; all tasks have the same `secret` of two words.

    Records below `log_start` were deleted and stay so. Fewer `hash_bits` than 64 make keys collide.
    """

    secret: Words
    first_dirty_offset: int
    log_start: int = 0
    hash_bits: int = 64


def find_entries(
    told: Learning, batches: Batches, decoded: Decoded, aborted: Entries
) -> KeyEntries:
    """The entries of some batches: of the dirty part the newest of each key, of the rest all.

    What is aborted teaches nothing (Cleaner.buildOffsetMapForSegment), and neither do records
    before the dirty part: they are only asked about.
    """
    records, rows = decoded
    count = records.offset.size
    hashes = np.empty(count, dtype=np.uint64)
    hash_keys(records, told.secret, hashes)
    hashes >>= np.uint64(64 - told.hash_bits)
    skipped = np.repeat(aborted_mask(batches, aborted), rows)
    wanted = unpack_bits(records.key_valid, count) & (records.offset >= told.log_start)
    wanted &= ~np.repeat(is_control(batches), rows)
    learns = wanted & ~skipped & (records.offset >= told.first_dirty_offset)
    is_last = np.empty(count, dtype=np.bool_)
    slots = np.zeros(1 << max(1, 2 * count - 1).bit_length(), dtype=np.int64)
    kernels.mark_last(hashes, records.key_bounds, records.key_bytes, learns, slots, is_last)
    chosen = np.flatnonzero(is_last | (wanted & ~learns))
    offsets = np.where(learns, records.offset, ~records.offset)
    sizes = np.diff(records.key_bounds).astype(np.int64)
    return _take(KeyEntries(hashes, offsets, sizes, records.key_bytes), chosen)


def has_unkeyed(told: Learning, batches: Batches, decoded: Decoded, aborted: Entries) -> bool:
    """Whether there are records that a cleaner drops because they have no key."""
    records, rows = decoded
    dropped = ~unpack_bits(records.key_valid, records.offset.size)
    if not dropped.any():
        return False
    passed_over = aborted_mask(batches, aborted) | is_control(batches)
    dropped &= ~np.repeat(passed_over, rows) & (records.offset >= told.log_start)
    return bool(dropped.any())


def _take(entries: KeyEntries, rows: Int64s) -> KeyEntries:
    bounds = np.zeros(entries.key_sizes.size + 1, dtype=np.int32)
    np.cumsum(entries.key_sizes, out=bounds[1:])
    sizes = entries.key_sizes[rows]
    out = np.empty(int(sizes.sum()) + PADDING, dtype=np.uint8)
    out_bounds = np.empty(rows.size + 1, dtype=np.int32)
    take_bytes(bounds, entries.key_bytes, rows, out_bounds, out)
    return KeyEntries(entries.hashes[rows], entries.offsets[rows], sizes, out)


def concat_entries(parts: Sequence[KeyEntries]) -> KeyEntries:
    """Entries one after another."""
    hashes, offsets, sizes = (
        np.concatenate([part[column] for part in parts]) for column in range(3)
    )
    keys = [part.key_bytes[: part.key_bytes.size - PADDING] for part in parts]
    padding = np.zeros(PADDING, dtype=np.uint8)
    return KeyEntries(hashes, offsets, sizes, np.concatenate([*keys, padding]))


def sort_entries(entries: KeyEntries, bucket_count: int) -> tuple[KeyEntries, Int64s]:
    """Entries by bucket, and where each bucket begins; all entries of a key are in one bucket."""
    high = entries.hashes >> np.uint64(32)
    bucket = ((high * np.uint64(bucket_count)) >> np.uint64(32)).astype(np.uint16)
    order = np.argsort(bucket, kind="stable")  # of 16 bits: a radix sort
    starts = np.searchsorted(bucket[order], np.arange(bucket_count + 1))
    return _take(entries, order), starts.astype(np.int64)


class NewestKeys:
    """A table of keys, as large as it must be, and what was asked about them."""

    def __init__(self) -> None:
        self._table = _allocate(_FIRST_KEYS, _FIRST_BYTES)
        self._cursor = np.zeros(2, dtype=np.int64)
        self._asked: list[tuple[Int64s, Int64s]] = []

    def put(self, entries: KeyEntries) -> None:
        """Learn entries, in any order."""
        bounds = np.zeros(entries.key_sizes.size + 1, dtype=np.int64)
        np.cumsum(entries.key_sizes, out=bounds[1:])
        rows = np.empty(entries.hashes.size, dtype=np.int64)
        status, at = TABLE_FULL, 0
        while status == TABLE_FULL:
            status, at = kernels.put_entries(
                entries.hashes,
                entries.offsets,
                bounds,
                entries.key_bytes,
                at,
                self._table,
                PADDING,
                self._cursor,
                rows,
            )
            if status == TABLE_FULL:
                self._grow(int(entries.key_sizes[at]))
        asks = entries.offsets < 0
        if asks.any():
            self._asked.append((rows[asks], ~entries.offsets[asks]))

    def _grow(self, needed: int) -> None:
        """Twice the room for what is full."""
        count, size = self._cursor.tolist()
        old = self._table
        capacity = old.newest.size * (2 if count >= old.newest.size else 1)
        room = old.key_bytes.size
        if size + needed + PADDING > room:
            room = 2 * (size + needed + PADDING)
        self._table = _allocate(capacity, room)
        for new, column in zip(self._table[1:4], old[1:4], strict=True):
            new[:count] = column[:count]
        self._table.key_bytes[:size] = old.key_bytes[:size]
        kernels.fill_key_slots(count, self._table)

    def newest(self) -> Int64s:
        """The newest offset of each key that was learnt, rising."""
        found = self._table.newest[: self._cursor[kernels.KEYS]]
        return np.sort(found[found != NO_OFFSET])

    def confirmed(self) -> Int64s:
        """What was asked about and is not older than the newest of its key."""
        kept = [offsets[offsets >= self._table.newest[rows]] for rows, offsets in self._asked]
        return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *kept]))


def _allocate(capacity: int, size: int) -> KeyTable:
    slots = np.zeros(2 * capacity, dtype=np.int64)
    hashes = np.empty(capacity, dtype=np.uint64)
    newest, key_ends = np.empty((2, capacity), dtype=np.int64)
    return KeyTable(slots, hashes, newest, key_ends, np.empty(size, dtype=np.uint8))


def is_survivor(survivors: Int64s, records: RecordBuffers) -> Bools:
    """Which records stay for their key's sake; `survivors` are the offsets that do, rising."""
    at = np.searchsorted(survivors, records.offset)
    inside = at < survivors.size
    found: Bools = np.zeros(at.size, dtype=np.bool_)
    found[inside] = survivors[at[inside]] == records.offset[inside]
    return found


def pack_offsets(offsets: Int64s) -> bytes:
    """Rising offsets in few bytes: the width of the differences, the first, the differences.

    >>> len(pack_offsets(np.arange(7, 1007))), len(pack_offsets(np.array([1, 2, 70000])))
    (1008, 17)
    """
    if not offsets.size:
        return b""
    differences = np.diff(offsets)
    width = np.min_scalar_type(int(differences.max(initial=0)))
    first = int(offsets[0]).to_bytes(8, "little", signed=True)
    return bytes([width.itemsize]) + first + differences.astype(width).tobytes()


def unpack_offsets(data: bytes) -> Int64s:
    """
    >>> unpack_offsets(pack_offsets(np.array([5, 6, 300]))).tolist()
    [5, 6, 300]
    """
    if not data:
        return np.empty(0, dtype=np.int64)
    differences = np.frombuffer(data, dtype=f"<u{data[0]}", offset=9)
    offsets = np.empty(differences.size + 1, dtype=np.int64)
    offsets[0] = int.from_bytes(data[1:9], "little", signed=True)
    np.cumsum(differences.astype(np.int64), out=offsets[1:])
    offsets[1:] += offsets[0]
    return offsets


def read_entries(hashes: bytes, offsets: bytes, sizes: bytes, keys: bytes) -> KeyEntries:
    """Entries as tasks exchange them."""
    return KeyEntries(
        np.frombuffer(hashes, dtype=np.uint64).copy(),
        np.frombuffer(offsets, dtype=np.int64).copy(),
        np.frombuffer(sizes, dtype=np.int64).copy(),
        padded(keys),
    )
