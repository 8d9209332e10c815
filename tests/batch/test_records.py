"""Records of a window by groups of its batches: all of them, once, and not too many at a time."""

from typing import Any

import numpy as np
import pytest

import naive
from builders import Row, batch, batch_of, message, wrapper
from ottla.arrow.to_arrow import records_to_arrow
from ottla.batch.decode import Chunk, Decoder
from ottla.batch.records import Decoded, Reused, decode_groups
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.tables import Wanted, allocate_bytes, take_batches
from rules.histories import tables

ALL = Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS | Wanted.CONTROL
MIB = 1 << 20
SEEN = ("position", "offset", "timestamp", "key", "value")
ALLOCATIONS = [pytest.param(allocate_bytes, id="new"), pytest.param(Reused(), id="reused")]


def rows_from(first: int, count: int, size: int) -> list[Row]:
    """Rows of which each is different, with nulls and headers in between."""
    return [
        Row(
            first + n,
            n,
            None if n % 3 == 0 else b"key %d" % n,
            None if n % 5 == 0 else bytes([first % 251]) * size,
        )
        for n in range(count)
    ]


def with_headers(rows: list[Row]) -> list[Row]:
    return [row._replace(headers=((b"h", row.key),) * (row.offset % 3)) for row in rows]


def mixed() -> bytes:
    """Wrappers that go on in the next chunk, batches of many chunks, empty, broken and plain."""
    broken = bytearray(batch(rows_from(200, 9, 100)))
    broken[-1] ^= 1
    return b"".join(
        [
            batch(with_headers(rows_from(0, 40, 50_000)), codec=4),
            wrapper(rows_from(40, 30, 70_000), magic=1, codec=1),
            wrapper(rows_from(70, 30, 90_000), magic=0, codec=1),
            message(Row(100, 5, None, b"plain"), magic=1),
            batch_of(b"", count=0, base_offset=101),
            batch(with_headers(rows_from(102, 60, 150_000)), codec=4),
            bytes(broken),
            wrapper(rows_from(300, 30, 100_000), magic=1, codec=1),
            *(batch(with_headers(rows_from(n, 7, 60_000)), codec=4) for n in range(400, 470, 7)),
        ]
    )


def described(decoded: Decoded) -> list[tuple[Any, ...]]:
    """A group's records by what a reader sees of them."""
    records = decoded.records
    chunk = Chunk(records, records.offset.size, records.header_key_bounds.size - 1)
    table = records_to_arrow(chunk, ["offset", "timestamp", "key", "value", "rawHeaders"])
    return [
        (row["offset"], row["timestamp"], row["key"], row["value"], len(row["rawHeaders"]))
        for row in table.to_pylist()
    ]


@pytest.mark.parametrize("allocate", ALLOCATIONS)
@pytest.mark.parametrize("most", [1, 3 * MIB, 8 * MIB, 1 << 40])
def test_groups_together_hold_every_record_beside_its_batch(allocate: Any, most: int) -> None:
    data = mixed()
    lines = naive.decode(data)
    region, batches, _ = tables(data)
    compute_crcs(region.data, 0, batches)
    decoder = Decoder(ALL, allocate=allocate)
    spans, named = [], []
    for span, decoded, broken in decode_groups(decoder, region, batches, most):
        spans.append(span)
        named += [bad.violation.position for bad in broken]
        assert all(span.start <= bad.row < span.stop for bad in broken)
        positions = np.repeat(take_batches(batches, span).position, decoded.rows).tolist()
        inside = set(batches.position[span].tolist())
        expected = [
            (*(line[name] for name in SEEN), len(line["headers"]))
            for line in lines
            if line["type"] == "record" and line["position"] in inside
        ]
        found = zip(positions, described(decoded), strict=True)
        assert [(position, *record) for position, record in found] == expected
    edges = [0, *(span.stop for span in spans)]
    assert [span.start for span in spans] == edges[:-1]
    assert edges[-1] == batches.position.size
    assert (len(spans) > 1) == (most < 1 << 40)
    errors = [line["position"] for line in lines if line["type"] == "error"]
    assert named == errors
    assert len(errors) == 1


@pytest.mark.parametrize(
    "nothing",
    [
        pytest.param(batch_of(b"", count=0, base_offset=0), id="empty"),
        pytest.param(batch([Row(0, 0, b"k", b"v")])[:-1] + b"?", id="broken"),
        pytest.param(b"", id="no batch"),
    ],
)
def test_a_window_without_records_leaves_nothing_to_the_next(nothing: bytes) -> None:
    """Memory that one decoder uses again must not be held by it from the window before."""
    decoder = Decoder(ALL, allocate=Reused())
    data = b"".join(batch(rows_from(n, 1000, 4000)) for n in range(0, 4000, 1000))
    for window in (nothing, data, nothing, data):
        region, batches, _ = tables(window)
        compute_crcs(region.data, 0, batches)
        found = [
            row
            for group in decode_groups(decoder, region, batches)
            for row in described(group.decoded)
        ]
        expected = [line for line in naive.decode(window) if line["type"] == "record"]
        assert [row[0] for row in found] == [line["offset"] for line in expected]
        assert [row[3] for row in found] == [line["value"] for line in expected]


def test_a_group_ends_with_the_batch_that_fills_it() -> None:
    data = b"".join(batch([Row(n, 0, None, bytes(MIB))], codec=4) for n in range(100))
    region, batches, _ = tables(data)
    decoder = Decoder(ALL, check_crcs=False, allocate=Reused())
    groups = decode_groups(decoder, region, batches, 8 * MIB)
    counts = [group.decoded.rows.size for group in groups]
    assert sum(counts) == 100
    assert max(counts) <= 9


@pytest.mark.parametrize("wanted", [0, Wanted.KEYS, Wanted.CONTROL])
def test_columns_that_nobody_asked_for_do_not_hinder(wanted: int) -> None:
    data = b"".join(batch(rows_from(n, 3000, 1), codec=4) for n in range(0, 90_000, 3000))
    region, batches, _ = tables(data)
    decoder = Decoder(wanted, check_crcs=False, allocate=Reused())
    groups = [
        (records.offset.tolist(), rows.tolist())
        for _, (records, rows), _ in decode_groups(decoder, region, batches, 1)
    ]
    assert len(groups) > 1
    assert [offset for offsets, _ in groups for offset in offsets] == list(range(90_000))
    assert [count for _, rows in groups for count in rows] == [3000] * 30
