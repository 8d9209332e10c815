"""Measure, write and seal v2 batches (DefaultRecord, DefaultRecordBatch).

Of the chosen rows, or of all if none are chosen, bounds[b] to bounds[b + 1] become batch b. Its row
of `batches` says what the writer chose; `measure_v2` adds what follows from the records, `seal_v2`
writes it all. `encode_v2` does both at once, for batches that are written where they stay.
"""

import numpy as np

from ottla.format.arrays import Bytes, Int64s
from ottla.format.attributes import LOG_APPEND_TIME
from ottla.format.layout import BATCH_OVERHEAD, CRC_COVERS, LOG_OVERHEAD
from ottla.format.sentinels import INT32_MAX, INT64_MAX
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.crc import crc32c_inlined
from ottla.kernels.bytes.ints import wrapping_subtract
from ottla.kernels.bytes.writing import (
    span,
    varint_size,
    write_bytes,
    write_i8,
    write_i16,
    write_i32,
    write_i64,
    write_varint,
    zigzag,
)
from ottla.kernels.status import (
    NEW_BATCH_TOO_LARGE,
    OFFSET_DELTA_RANGE,
    OFFSET_NOT_RISING,
    OK,
    TIMESTAMP_NEGATIVE,
)
from ottla.kernels.tables import Batches, RecordBuffers

NO_OFFSET_YET = i64(-INT64_MAX - 1)
LEAST_FIELDS = 6  # attributes, two deltas, and the lengths of a key, a value and no headers
# Beside its bytes a record has at most: attributes, a delta of ten bytes, five numbers of five.
MOST_FIELDS = 36
MOST_OF_HEADER = 10
EVERY_ROW = np.zeros(0, dtype=np.int64)


@inlined
def row_of(chosen: Int64s, at: int) -> int:
    """The row of the record that is written as number `at`."""
    return chosen[at] if chosen.size else at


@inlined
def field_size(size: int) -> int:
    """A length and what it counts; null has no bytes."""
    return varint_size(size) + max(size, i64(0))


@inlined
def header_key(records: RecordBuffers, header: int) -> tuple[int, int]:
    """Where a header's key begins, and its size; it is never null."""
    start = i64(records.header_key_bounds[header])
    return start, i64(records.header_key_bounds[header + 1]) - start


@inlined
def fields_size(records: RecordBuffers, row: int) -> int:
    """Attributes, key, value and headers: all of a record but its length and its two deltas."""
    first = i64(records.header_bounds[row])
    stop = i64(records.header_bounds[row + 1])
    size = 1 + varint_size(stop - first)
    for header in range(first, stop):
        size += field_size(header_key(records, header)[1])
        size += field_size(span(records.header_value_bounds, records.header_value_valid, header)[1])
    size += field_size(span(records.key_bounds, records.key_valid, row)[1])
    size += field_size(span(records.value_bounds, records.value_valid, row)[1])
    return size


@inlined
def is_int32(left: int, right: int) -> bool:
    """Whether left - right fits 32 bits, without computing what may not even fit 64."""
    high = (left >> i64(32)) - (right >> i64(32))
    return -1 <= high <= 1 and -INT32_MAX - 1 <= left - right <= INT32_MAX


@kernel
def measure_v2(
    records: RecordBuffers, chosen: Int64s, bounds: Int64s, batches: Batches, sizes: Int64s
) -> tuple[int, int]:
    """Fill `sizes` with the length of each record; return a status and the row it is about.

    Of each batch, base offset and base timestamp must be there; last offset, count, size and the
    largest timestamp are filled in.
    """
    for batch in range(batches.position.size):
        base_offset = batches.base_offset[batch]
        base_timestamp = batches.base_timestamp[batch]
        first = row_of(chosen, bounds[batch])
        last = row_of(chosen, bounds[batch + 1] - 1)
        if not is_int32(records.offset[first], base_offset):
            return OFFSET_DELTA_RANGE, first
        if not is_int32(records.offset[last], base_offset):
            return OFFSET_DELTA_RANGE, last
        newest = i64(-1)
        total = i64(BATCH_OVERHEAD)
        previous = NO_OFFSET_YET
        for at in range(bounds[batch], bounds[batch + 1]):
            row = row_of(chosen, at)
            offset = records.offset[row]
            timestamp = records.timestamp[row]
            if offset <= previous:
                return OFFSET_NOT_RISING, row
            if timestamp < -1:
                return TIMESTAMP_NEGATIVE, row
            previous = offset
            newest = max(newest, timestamp)
            size = fields_size(records, row)
            size += varint_size(wrapping_subtract(timestamp, base_timestamp))
            size += varint_size(offset - base_offset)
            sizes[at] = size
            total += field_size(size)
        if total > INT32_MAX:
            return NEW_BATCH_TOO_LARGE, first
        batches.last_offset[batch] = records.offset[last]
        batches.max_timestamp[batch] = newest
        batches.count[batch] = bounds[batch + 1] - bounds[batch]
        batches.size[batch] = total
    return OK, 0


@inlined
def write_field(out: Bytes, at: int, source: Bytes, start: int, size: int) -> int:
    """A length and what it counts; null is a length of -1."""
    at = write_varint(out, at, size)
    return write_bytes(out, at, source, start, size) if size > 0 else at


@inlined
def write_record(
    out: Bytes, at: int, records: RecordBuffers, row: int, size: int, base: tuple[int, int]
) -> int:
    """One record; `base` is the batch's offset and timestamp."""
    return write_fields(out, write_varint(out, at, size), records, row, base)


@inlined
def write_fields(
    out: Bytes, at: int, records: RecordBuffers, row: int, base: tuple[int, int]
) -> int:
    """All of a record but its length."""
    at = write_i8(out, at, 0)  # attributes
    at = write_varint(out, at, wrapping_subtract(records.timestamp[row], base[1]))
    at = write_varint(out, at, records.offset[row] - base[0])
    start, size = span(records.key_bounds, records.key_valid, row)
    at = write_field(out, at, records.key_bytes, start, size)
    start, size = span(records.value_bounds, records.value_valid, row)
    at = write_field(out, at, records.value_bytes, start, size)
    first = i64(records.header_bounds[row])
    stop = i64(records.header_bounds[row + 1])
    at = write_varint(out, at, stop - first)
    for header in range(first, stop):
        start, size = header_key(records, header)
        at = write_field(out, at, records.header_key_bytes, start, size)
        start, size = span(records.header_value_bounds, records.header_value_valid, header)
        at = write_field(out, at, records.header_value_bytes, start, size)
    return at


@inlined
def seal_batch(out: Bytes, batches: Batches, row: int) -> None:
    """Write the fixed part of a batch in front of its records, the CRC last."""
    start = batches.position[row]
    stop = start + batches.size[row]
    at = write_i64(out, start, batches.base_offset[row])
    at = write_i32(out, at, batches.size[row] - LOG_OVERHEAD)
    at = write_i32(out, at, batches.partition_leader_epoch[row])
    crc_at = write_i8(out, at, batches.magic[row])
    covered = start + CRC_COVERS
    at = write_i16(out, covered, batches.attributes[row])
    at = write_i32(out, at, batches.last_offset_delta[row])
    at = write_i64(out, at, batches.base_timestamp[row])
    at = write_i64(out, at, batches.max_timestamp[row])
    at = write_i64(out, at, batches.producer_id[row])
    at = write_i16(out, at, batches.producer_epoch[row])
    at = write_i32(out, at, batches.base_sequence[row])
    write_i32(out, at, batches.count[row])
    crc = crc32c_inlined(out, covered, stop)
    write_i32(out, crc_at, crc)
    batches.crc[row] = crc
    batches.computed_crc[row] = crc


@inlined
def write_records(
    out: Bytes,
    at: int,
    records: RecordBuffers,
    chosen: Int64s,
    bounds: Int64s,
    batches: Batches,
    batch: int,
    sizes: Int64s,
) -> None:
    """The records of one batch, from `at` on."""
    base = (batches.base_offset[batch], batches.base_timestamp[batch])
    for number in range(bounds[batch], bounds[batch + 1]):
        at = write_record(out, at, records, row_of(chosen, number), sizes[number], base)


@kernel
def write_payloads_v2(
    records: RecordBuffers,
    chosen: Int64s,
    bounds: Int64s,
    batches: Batches,
    sizes: Int64s,
    starts: Int64s,
    out: Bytes,
) -> None:
    """Write the records of each batch from its start on, to be compressed."""
    for batch in range(batches.position.size):
        write_records(out, starts[batch], records, chosen, bounds, batches, batch, sizes)


@kernel
def write_v2(
    records: RecordBuffers,
    chosen: Int64s,
    bounds: Int64s,
    batches: Batches,
    sizes: Int64s,
    out: Bytes,
) -> None:
    """Write each batch at its position, and seal it while its bytes are in the cache."""
    for batch in range(batches.position.size):
        at = batches.position[batch] + BATCH_OVERHEAD
        write_records(out, at, records, chosen, bounds, batches, batch, sizes)
        seal_batch(out, batches, batch)


@inlined
def write_unmeasured(
    out: Bytes, at: int, records: RecordBuffers, row: int, base: tuple[int, int]
) -> int:
    """One record whose length nobody knows yet: it is written behind the room that it may need."""
    key_size = i64(records.key_bounds[row + 1]) - i64(records.key_bounds[row])
    value_size = i64(records.value_bounds[row + 1]) - i64(records.value_bounds[row])
    width = varint_size(key_size + value_size + LEAST_FIELDS)
    while True:
        start = at + width
        stop = write_fields(out, start, records, row, base)
        needed = varint_size(stop - start)
        if needed == width:
            break
        width = needed  # of a record with headers, or by chance: once more
    # Not by `write_varint`, which spoils what follows.
    raw = zigzag(stop - start)
    while raw >= np.uint64(0x80):
        out[at] = np.uint8((raw & np.uint64(0x7F)) | np.uint64(0x80))
        raw >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(raw)
    return stop


@kernel
def encode_v2(
    records: RecordBuffers, bounds: Int64s, batches: Batches, out: Bytes
) -> tuple[int, int, int]:
    """Write and seal batches one after another; return a status, its row, and where they end.

    All that is not filled in here must be there: largest timestamps, too, if they are append time.
    """
    start = i64(0)
    for batch in range(batches.position.size):
        base = (batches.base_offset[batch], batches.base_timestamp[batch])
        first = bounds[batch]
        last = bounds[batch + 1] - 1
        if not is_int32(records.offset[first], base[0]):
            return OFFSET_DELTA_RANGE, first, start
        if not is_int32(records.offset[last], base[0]):
            return OFFSET_DELTA_RANGE, last, start
        newest = i64(-1)
        previous = NO_OFFSET_YET
        at = start + BATCH_OVERHEAD
        for row in range(first, last + 1):
            offset = records.offset[row]
            timestamp = records.timestamp[row]
            if offset <= previous:
                return OFFSET_NOT_RISING, row, start
            if timestamp < -1:
                return TIMESTAMP_NEGATIVE, row, start
            previous = offset
            newest = max(newest, timestamp)
            at = write_unmeasured(out, at, records, row, base)
        if not batches.attributes[batch] & LOG_APPEND_TIME:
            batches.max_timestamp[batch] = newest
        batches.count[batch] = last + 1 - first
        batches.position[batch] = start
        batches.size[batch] = at - start
        seal_batch(out, batches, batch)
        start = at
    return OK, 0, start


@kernel
def seal_v2(out: Bytes, batches: Batches) -> None:
    """Seal every batch."""
    for row in range(batches.position.size):
        seal_batch(out, batches, row)
