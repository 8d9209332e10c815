"""Entries of keys brought together in any order, against a dictionary; offsets packed and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.rules.cleaner.survivors import (
    KeyEntries,
    NewestKeys,
    concat_entries,
    pack_offsets,
    read_entries,
    sort_entries,
    unpack_offsets,
)

# A key, an offset, and whether it is only asked about.
LISTS = st.lists(
    st.tuples(st.binary(max_size=20), st.integers(0, 10**12), st.booleans()), max_size=60
)


def entries_of(rows: list[tuple[bytes, int, bool]], bits: int) -> KeyEntries:
    """A hash of the key's size and first byte: many keys share it."""
    hashes = [
        ((len(key) * 7 + sum(key[:1])) << 56) % (1 << 64) >> (64 - bits) for key, _, _ in rows
    ]
    return read_entries(
        np.array(hashes, dtype=np.uint64).tobytes(),
        np.array([~at if asks else at for _, at, asks in rows], dtype=np.int64).tobytes(),
        np.array([len(key) for key, _, _ in rows], dtype=np.int64).tobytes(),
        b"".join(key for key, _, _ in rows),
    )


def expected(rows: list[tuple[bytes, int, bool]]) -> tuple[list[int], list[int]]:
    newest: dict[bytes, int] = {}
    for key, offset, asks in rows:
        if not asks:
            newest[key] = max(offset, newest.get(key, -1))
    kept = [at for key, at, asks in rows if asks and at >= newest.get(key, -1)]
    return sorted(newest.values()), sorted(kept)


@given(LISTS, st.sampled_from([1, 8, 64]), st.integers(1, 5))
def test_keys_are_told_apart_by_their_bytes(
    rows: list[tuple[bytes, int, bool]], bits: int, pieces: int
) -> None:
    table = NewestKeys()
    for piece in range(pieces):
        table.put(entries_of(rows[piece::pieces], bits))
    assert (table.newest().tolist(), table.confirmed().tolist()) == expected(rows)


def test_a_table_grows_with_its_keys_and_with_their_bytes() -> None:
    rows = [(b"%d" % at * (1 + at % 50), at, False) for at in range(5000)]
    table = NewestKeys()
    table.put(entries_of(rows, 64))
    assert table.newest().tolist() == list(range(5000))


@given(LISTS, st.integers(1, 7))
def test_every_entry_is_in_the_bucket_of_its_hash(
    rows: list[tuple[bytes, int, bool]], count: int
) -> None:
    entries = entries_of(rows, 64)
    ordered, starts = sort_entries(concat_entries([entries, entries]), count)
    high = (ordered.hashes >> np.uint64(32)).astype(object)
    buckets = [int(word) * count >> 32 for word in high]
    assert buckets == [
        bucket for bucket in range(count) for _ in range(*starts[bucket : bucket + 2])
    ]
    both = NewestKeys()
    both.put(ordered)
    assert both.newest().tolist() == expected(rows)[0]


@given(st.sets(st.integers(0, 2**62)))
def test_offsets_come_back(offsets: set[int]) -> None:
    rising = sorted(offsets)
    assert unpack_offsets(pack_offsets(np.array(rising, dtype=np.int64))).tolist() == rising


@pytest.mark.parametrize(("step", "width"), [(1, 1), (255, 1), (256, 2), (70_000, 4), (2**40, 8)])
def test_an_offset_takes_as_many_bytes_as_the_largest_step(step: int, width: int) -> None:
    packed = pack_offsets(np.arange(0, 1000 * step, step, dtype=np.int64))
    assert len(packed) == 9 + 999 * width
