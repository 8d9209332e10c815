"""Cutting batches, against the order of checks of ByteBufferLogInputStream (kafka-facts 1.3)."""

import struct
from typing import Any

import pytest

from builders import Row, batch, segment
from ottla.kernels.records.scan import scan, scan_and_check
from ottla.kernels.status import (
    END,
    MAGIC_UNKNOWN,
    SIZE_TOO_LARGE,
    SIZE_TOO_SMALL,
    TABLE_FULL,
)
from ottla.kernels.tables import allocate_batches
from ottla.region import padded


def frame(size: int, magic: int, total: int) -> bytes:
    return (struct.pack(">qiib", 5, size, 0, magic) + bytes(total))[:total]


CASES = [
    pytest.param(b"", END, 0, id="nothing"),
    pytest.param(bytes(11), END, 0, id="less-than-a-prefix"),
    pytest.param(bytes(12), SIZE_TOO_SMALL, 0, id="size-zero-needs-no-magic"),
    pytest.param(frame(13, 2, 40), SIZE_TOO_SMALL, 13, id="size-below-14"),
    pytest.param(frame(-1, 2, 40), SIZE_TOO_SMALL, -1, id="negative-size"),
    pytest.param(frame(14, 2, 16), END, 0, id="no-magic-yet"),
    pytest.param(frame(14, 3, 26), MAGIC_UNKNOWN, 26, id="magic-3"),
    pytest.param(frame(14, -1, 26), MAGIC_UNKNOWN, 26, id="magic-minus-1"),
    pytest.param(frame(100, 2, 111), END, 112, id="cut-off"),
    pytest.param(frame(2**31 - 12, 2, 40), SIZE_TOO_LARGE, 2**31 - 12, id="size-overflows"),
    pytest.param(frame(2**31 - 13, 2, 40), END, 2**31 - 1, id="largest-size"),
]


BOTH = pytest.mark.parametrize("cut", [scan, scan_and_check])


@BOTH
@pytest.mark.parametrize(("data", "status", "size"), CASES)
def test_what_stops_the_cutting(cut: Any, data: bytes, status: int, size: int) -> None:
    table = allocate_batches(4)
    assert cut(padded(data), 0, len(data), 0, table) == (0, 0, status, size)


@BOTH
def test_positions_count_from_the_origin(cut: Any) -> None:
    data = batch([Row(7), Row(8)]) + batch([Row(9)], leader_epoch=3, producer=(4, 5, 6))
    table = allocate_batches(4)
    rows, stopped, status, _ = cut(padded(data), 0, len(data), 1000, table)
    assert (rows, stopped, status) == (2, len(data), END)
    assert table.position[:2].tolist() == [1000, 1000 + int(table.size[0])]
    assert table.last_offset[:2].tolist() == [8, 9]
    assert table.partition_leader_epoch[:2].tolist() == [0, 3]
    assert [int(column[1]) for column in table[12:16]] == [4, 5, 6, 1]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_crcs_are_computed_on_the_way(magic: int) -> None:
    """Of batches of many sizes; the builder has CRCs of zlib and of a plain loop."""
    whole = [segment([Row(n, 0, b"k", bytes(37 * n))], magic=magic, codec=0) for n in range(1, 200)]
    broken = [data[:-1] + b"?" for data in whole]
    data = b"".join(whole + broken)
    table = allocate_batches(len(whole) * 2)
    rows, stopped, _, _ = scan_and_check(padded(data), 0, len(data), 1000, table)
    assert (rows, stopped) == (len(whole) * 2, len(data))
    assert (table.computed_crc == table.crc).tolist() == [True] * 199 + [False] * 199


@BOTH
def test_a_full_table_is_said(cut: Any) -> None:
    data = batch([Row(0)]) + batch([Row(1)])
    rows, _, status, _ = cut(padded(data), 0, len(data), 0, allocate_batches(1))
    assert (rows, status) == (1, TABLE_FULL)
