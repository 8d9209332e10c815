"""Bytes worked out from kafka-facts 8.3 and the cases of TimeIndexTest."""

import numpy as np
import pytest

from ottla.errors import Rule
from ottla.log.files.time_index import (
    TimeIndex,
    check_time_index,
    lookup_timestamp,
    read_time_index,
    write_time_index,
)

# Base 45: (timestamp 10, offset 55), (timestamp 20, offset 65), (timestamp 2^32, offset 75).
BASE = 45
DATA = bytes.fromhex("000000000000000a 0000000a0000000000000014 000000140000000100000000 0000001e")


def test_entries_are_twelve_bytes_and_written_back() -> None:
    found = read_time_index(DATA, BASE)
    assert found.timestamp.tolist() == [10, 20, 2**32]
    assert found.offset.tolist() == [55, 65, 75]
    assert write_time_index(found) == DATA


def test_the_preallocated_tail_is_no_entry() -> None:
    assert read_time_index(DATA + bytes(10485756 - 36), BASE).offset.tolist() == [55, 65, 75]


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(9, (-1, 45)), (10, (10, 55)), (19, (10, 55)), (20, (20, 65)), (2**40, (2**32, 75))],
)
def test_lookup_gives_the_greatest_timestamp_at_or_below(
    timestamp: int, found: tuple[int, int]
) -> None:
    assert lookup_timestamp(read_time_index(DATA, BASE), timestamp) == found


def test_lookup_in_an_empty_index_gives_no_timestamp_and_the_base() -> None:
    assert lookup_timestamp(read_time_index(b"", BASE), 100) == (-1, 45)


def written(*entries: tuple[int, int]) -> bytes:
    timestamps, offsets = np.array(entries, dtype=np.int64).T
    return write_time_index(TimeIndex(BASE, timestamps, offsets))


@pytest.mark.parametrize(
    ("data", "broken"),
    [
        pytest.param(DATA, [], id="sound"),
        pytest.param(DATA + bytes(120), [], id="zero-tail"),
        pytest.param(DATA[:-1], [Rule.INDEX_SIZE], id="length"),
        pytest.param(written((10, 44)), [Rule.INDEX_OFFSET_RANGE], id="offset-below-base"),
        pytest.param(written((10, 50), (5, 60)), [Rule.TIME_INDEX_ORDER], id="timestamp-falls"),
        pytest.param(written((10, 60), (15, 50)), [Rule.TIME_INDEX_ORDER], id="offset-falls"),
    ],
)
def test_an_index_is_checked_by_itself(data: bytes, broken: list[Rule]) -> None:
    assert [violation.rule for violation in check_time_index(data, BASE, "f")] == broken
