"""Record tables as wholes: all records of batches, chosen rows, tables one after another."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.batch.decode import Broken, Chunk, Decoder
from ottla.batch.memory import allocate_from_pool
from ottla.batch.rows import pack_rows
from ottla.errors import UnsupportedError, require_sound
from ottla.format.arrays import Bools, Int32s
from ottla.format.sentinels import INT32_MAX
from ottla.kernels.cleaner.compaction import take_bytes
from ottla.kernels.tables import Batches, Int64s, RecordBuffers
from ottla.region import PADDING, Bytes, Region

GROUP_BYTES: Final = 32 << 20  # of records that are held at once, if one batch has not more
_NO_BOUND: Final = 1 << 62
_RECORD_BYTES: Final = 28  # offset, timestamp and three bounds


class Decoded(NamedTuple):
    """All records of some batches; rows[b] of them are of batch b, none of a broken one."""

    records: RecordBuffers
    rows: Int64s


class Reused:
    """Memory for a decoder whose records are used up before the next window is decoded.

    New pages cost as much as decoding into them.
    """

    def __init__(self) -> None:
        self.arrays: list[Bytes] = []
        self.taken = 0

    def __call__(self, size: int) -> Bytes:
        """Room for `size` bytes: what this call got in the round before, if that is enough."""
        if self.taken == len(self.arrays):
            self.arrays.append(np.empty(0, dtype=np.uint8))
        if self.arrays[self.taken].size < size:
            self.arrays[self.taken] = np.empty(size, dtype=np.uint8)
        self.taken += 1
        return self.arrays[self.taken - 1][:size]


class DecodedGroup(NamedTuple):
    """Some batches of a window, their records, and what was left out of them.

    Rows of `broken` count from the first batch of the window.
    """

    span: slice
    decoded: Decoded
    broken: list[Broken]


def decode_groups(
    decoder: Decoder, region: Region, batches: Batches, most: int = GROUP_BYTES
) -> Iterator[DecodedGroup]:
    """The batches of a window in groups, each with all records of its batches.

    A window may expand to anything: a group ends when its records have about `most` bytes, or is
    one batch with more. Each must be used before the next is asked for.
    """
    reused = decoder.allocate if isinstance(decoder.allocate, Reused) else Reused()
    decoder.flush()  # it may hold memory that is given out again now
    reused.taken = 0
    rows = np.zeros(batches.position.size, dtype=np.int64)
    held: list[RecordBuffers] = []
    broken: list[Broken] = []
    first = size = 0
    for chunk, left_out in decoder.decode(region, batches):
        broken += left_out
        if chunk is None:
            break
        last = _hold(chunk, batches, held, rows)
        size += _size_of(held[-1])
        if size < most or last == first:
            continue
        # The chunk may have ended inside its last batch, which is therefore left to the next group.
        records, count = concat_records(held), int(rows[first:last].sum())
        held = [take_records(records, np.arange(count, records.offset.size))]
        decoded = Decoded(_first_rows(records, count), rows[first:last])
        yield DecodedGroup(slice(first, last), decoded, [bad for bad in broken if bad.row < last])
        reused.taken = 1  # the decoder still needs its payloads, which it asked for first
        broken = [bad for bad in broken if bad.row >= last]
        first, size = last, _size_of(held[0])
    rest = decoder.flush()
    if rest is not None:
        _hold(rest, batches, held, rows)
    yield DecodedGroup(slice(first, rows.size), Decoded(concat_records(held), rows[first:]), broken)


def decode_sound_groups(
    decoder: Decoder, region: Region, batches: Batches
) -> Iterator[tuple[slice, Decoded]]:
    """As `decode_groups`, for who writes: a broken batch raises, as leaving it out loses data."""
    for span, decoded, broken in decode_groups(decoder, region, batches):
        require_sound(bad.violation for bad in broken)
        yield span, decoded


def _hold(chunk: Chunk, batches: Batches, held: list[RecordBuffers], rows: Int64s) -> int:
    """Take in a chunk; the row of the last batch that it may have records of."""
    for piece, counts in chunk.pieces:
        rows[np.searchsorted(batches.position, piece.position)] += counts
    held.append(_first_rows(chunk.buffers, chunk.count))
    return int(np.searchsorted(batches.position, chunk.pieces[-1][0].position[-1]))


def decode_whole(decoder: Decoder, region: Region, batches: Batches) -> DecodedGroup:
    """All batches as one group; for those of which someone knows that they are not too many."""
    (group,) = decode_groups(decoder, region, batches, most=_NO_BOUND)
    return group


def _first_rows(records: RecordBuffers, count: int) -> RecordBuffers:
    """The first rows as a table that is exactly so long."""
    header_bounds = records.header_bounds[: count + 1]
    header_count = int(header_bounds[-1])
    return records._replace(
        offset=records.offset[:count],
        timestamp=records.timestamp[:count],
        key_bounds=records.key_bounds[: count + 1],
        value_bounds=records.value_bounds[: count + 1],
        header_bounds=header_bounds,
        header_key_bounds=records.header_key_bounds[: header_count + 1],
        header_value_bounds=records.header_value_bounds[: header_count + 1],
    )


def _size_of(records: RecordBuffers) -> int:
    fields = (
        records.key_bounds,
        records.value_bounds,
        records.header_key_bounds,
        records.header_value_bounds,
    )
    return _RECORD_BYTES * records.offset.size + sum(int(bounds[-1]) for bounds in fields)


def take_records(records: RecordBuffers, rows: Int64s) -> RecordBuffers:
    """The chosen rows, in the order given, in buffers of their own."""
    header_bounds, headers = _take_headers(records.header_bounds, rows)
    key_bounds, key_bytes = _take_field(records.key_bounds, records.key_bytes, rows)
    value_bounds, value_bytes = _take_field(records.value_bounds, records.value_bytes, rows)
    header_key_bounds, header_key_bytes = _take_field(
        records.header_key_bounds, records.header_key_bytes, headers
    )
    header_value_bounds, header_value_bytes = _take_field(
        records.header_value_bounds, records.header_value_bytes, headers
    )
    return RecordBuffers(
        offset=records.offset[rows],
        timestamp=records.timestamp[rows],
        index=np.zeros(0, dtype=np.int64),
        key_bounds=key_bounds,
        key_bytes=key_bytes,
        key_valid=_take_bits(records.key_valid, rows),
        value_bounds=value_bounds,
        value_bytes=value_bytes,
        value_valid=_take_bits(records.value_valid, rows),
        header_bounds=header_bounds,
        header_key_bounds=header_key_bounds,
        header_key_bytes=header_key_bytes,
        header_value_bounds=header_value_bounds,
        header_value_bytes=header_value_bytes,
        header_value_valid=_take_bits(records.header_value_valid, headers),
    )


def _take_headers(bounds: Int32s, rows: Int64s) -> tuple[Int32s, Int64s]:
    """The bounds of the chosen rows' headers, and which headers these are."""
    if bounds.size == 1:  # nobody asked for headers
        return bounds.copy(), np.zeros(0, dtype=np.int64)
    taken = np.zeros(rows.size + 1, dtype=np.int32)
    if bounds[-1] == 0:
        return taken, np.zeros(0, dtype=np.int64)
    first = bounds[rows].astype(np.int64)
    counts = bounds[rows + 1] - first
    np.cumsum(counts, out=taken[1:])
    return taken, np.repeat(first - taken[:-1], counts) + np.arange(int(taken[-1]))


def concat_records(tables: Sequence[RecordBuffers]) -> RecordBuffers:
    """Tables one after another."""
    if not tables:
        return pack_rows([])
    if len(tables) == 1:
        return tables[0]
    counts = [table.offset.size for table in tables]
    headers = [table.header_key_bounds.size - 1 for table in tables]
    key_bounds, key_bytes = _join([(t.key_bounds, t.key_bytes) for t in tables])
    value_bounds, value_bytes = _join([(t.value_bounds, t.value_bytes) for t in tables])
    header_key_bounds, header_key_bytes = _join(
        [(t.header_key_bounds, t.header_key_bytes) for t in tables]
    )
    header_value_bounds, header_value_bytes = _join(
        [(t.header_value_bounds, t.header_value_bytes) for t in tables]
    )
    return RecordBuffers(
        offset=np.concatenate([table.offset for table in tables]),
        timestamp=np.concatenate([table.timestamp for table in tables]),
        index=np.zeros(0, dtype=np.int64),
        key_bounds=key_bounds,
        key_bytes=key_bytes,
        key_valid=_join_bits([t.key_valid for t in tables], counts),
        value_bounds=value_bounds,
        value_bytes=value_bytes,
        value_valid=_join_bits([t.value_valid for t in tables], counts),
        header_bounds=_join_bounds([t.header_bounds for t in tables]),
        header_key_bounds=header_key_bounds,
        header_key_bytes=header_key_bytes,
        header_value_bounds=header_value_bounds,
        header_value_bytes=header_value_bytes,
        header_value_valid=_join_bits([t.header_value_valid for t in tables], headers),
    )


def unpack_bits(bits: Bytes, count: int) -> Bools:
    """Arrow's validity bits as booleans."""
    return np.unpackbits(bits, count=count, bitorder="little").view(np.bool_)


def _take_bits(bits: Bytes, rows: Int64s) -> Bytes:
    if (bits == 0xFF).all():  # nothing is null, as nearly always
        return np.full(rows.size // 8 + 1, 0xFF, dtype=np.uint8)
    return np.packbits((bits[rows >> 3] >> (rows & 7).astype(np.uint8)) & 1, bitorder="little")


def _pack(valid: Bools) -> Bytes:
    return np.packbits(valid, bitorder="little")


def _take_field(bounds: Int32s, data: Bytes, rows: Int64s) -> tuple[Int32s, Bytes]:
    if bounds.size == 1:  # nobody asked for the field
        return bounds.copy(), data[:PADDING].copy()
    size = int((bounds[rows + 1].astype(np.int64) - bounds[rows]).sum())
    out_bounds = np.empty(rows.size + 1, dtype=np.int32)
    out = allocate_from_pool(size + PADDING)
    take_bytes(bounds, data, rows, out_bounds, out)
    return out_bounds, out


def _join(fields: Sequence[tuple[Int32s, Bytes]]) -> tuple[Int32s, Bytes]:
    pieces = [data[: bounds[-1]] for bounds, data in fields]
    padding = np.zeros(PADDING, dtype=np.uint8)
    return _join_bounds([bounds for bounds, _ in fields]), np.concatenate([*pieces, padding])


def _join_bounds(tables: Sequence[Int32s]) -> Int32s:
    sizes: npt.NDArray[np.int32] = np.concatenate([np.diff(bounds) for bounds in tables])
    if int(sizes.sum(dtype=np.int64)) > INT32_MAX:
        raise UnsupportedError(
            "records that are needed at once have more than 2 GiB: lower maxBatchBytes to leave"
            " out the batches that expand so much"
        )
    joined = np.zeros(sizes.size + 1, dtype=np.int32)
    np.cumsum(sizes, out=joined[1:])
    return joined


def _join_bits(tables: Sequence[Bytes], counts: Sequence[int]) -> Bytes:
    pairs = zip(tables, counts, strict=True)
    return _pack(np.concatenate([unpack_bits(bits, count) for bits, count in pairs]))
