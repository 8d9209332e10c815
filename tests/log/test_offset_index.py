"""Bytes worked out from kafka-facts 8.2 and the cases of OffsetIndexTest."""

import numpy as np
import pytest

from ottla.errors import Rule
from ottla.log.files.offset_index import (
    OffsetIndex,
    check_offset_index,
    read_offset_index,
    write_offset_index,
)

# Base 45: (offset 47, position 10), (offset 50, position 300).
BASE = 45
DATA = bytes.fromhex("00000002 0000000a 00000005 0000012c")


def index(*entries: tuple[int, int], base: int = 0) -> OffsetIndex:
    offsets, positions = np.array(entries, dtype=np.int64).reshape(-1, 2).T
    return OffsetIndex(base, offsets, positions)


def rules(data: bytes, base: int = BASE) -> list[Rule]:
    return [violation.rule for violation in check_offset_index(data, base, "f")]


def test_entries_are_read_with_absolute_offsets_and_written_back() -> None:
    found = read_offset_index(DATA, BASE)
    assert found.offset.tolist() == [47, 50]
    assert found.position.tolist() == [10, 300]
    assert write_offset_index(found) == DATA


def test_the_preallocated_tail_is_no_entry() -> None:
    found = read_offset_index(DATA + bytes(10485760 - 16), BASE)
    assert found.offset.tolist() == [47, 50]
    assert read_offset_index(bytes(10485760), BASE).offset.size == 0


@pytest.mark.parametrize(
    ("data", "broken"),
    [
        pytest.param(DATA, [], id="sound"),
        pytest.param(DATA + bytes(80), [], id="zero-tail"),
        pytest.param(DATA + b"\0\0\0", [Rule.INDEX_SIZE], id="odd-size"),
        pytest.param(
            bytes.fromhex("ffffffff 00000001"), [Rule.INDEX_OFFSET_RANGE], id="below-base"
        ),
        pytest.param(DATA + DATA[8:], [Rule.INDEX_ORDER, Rule.INDEX_ORDER], id="repeated"),
        pytest.param(DATA + bytes(8) + DATA, [Rule.INDEX_TAIL], id="after-the-tail"),
    ],
)
def test_an_index_is_checked_by_itself(data: bytes, broken: list[Rule]) -> None:
    assert rules(data) == broken
