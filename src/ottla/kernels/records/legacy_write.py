"""Measure and write v0 and v1 messages (LegacyRecord), alone or inside a wrapper."""

from ottla.format.arrays import Bytes, Int64s
from ottla.format.attributes import LOG_APPEND_TIME
from ottla.format.layout import (
    CRC_SIZE,
    LOG_OVERHEAD,
    MESSAGE_CRC_COVERS,
    MESSAGE_CRC_POSITION,
    MESSAGE_V0,
    MESSAGE_V1,
    VALUE_LENGTH_SIZE,
)
from ottla.format.sentinels import INT32_MAX
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.crc import crc32
from ottla.kernels.bytes.writing import span, write_bytes, write_i8, write_i32, write_i64
from ottla.kernels.status import (
    HEADERS_NOT_ALLOWED,
    NEW_BATCH_TOO_LARGE,
    OFFSET_DELTA_RANGE,
    OFFSET_NOT_RISING,
    OK,
    TIMESTAMP_NEGATIVE,
)
from ottla.kernels.tables import RecordBuffers

# Of messages by magic, with the 12 bytes of offset and length.
OVERHEADS = (MESSAGE_V0.itemsize + VALUE_LENGTH_SIZE, MESSAGE_V1.itemsize + VALUE_LENGTH_SIZE)


@inlined
def message_overhead(magic: int) -> int:
    """A message without key and value."""
    return OVERHEADS[0] if magic == 0 else OVERHEADS[1]


@inlined
def message_size(records: RecordBuffers, row: int, magic: int) -> int:
    """A message with its offset and length."""
    size = i64(message_overhead(magic))
    size += max(span(records.key_bounds, records.key_valid, row)[1], i64(0))
    size += max(span(records.value_bounds, records.value_valid, row)[1], i64(0))
    return size


@kernel
def measure_legacy(
    records: RecordBuffers, bounds: Int64s, magic: int, sizes: Int64s
) -> tuple[int, int]:
    """Fill `sizes` with the bytes of each batch's messages; return a status and its row."""
    for batch in range(sizes.size):
        first = bounds[batch]
        total = i64(0)
        for row in range(first, bounds[batch + 1]):
            if row > first and records.offset[row] <= records.offset[row - 1]:
                return OFFSET_NOT_RISING, row
            if row > first and records.offset[row] - records.offset[first] > INT32_MAX:
                return OFFSET_DELTA_RANGE, row
            if records.timestamp[row] < -1:
                return TIMESTAMP_NEGATIVE, row
            if records.header_bounds[row + 1] > records.header_bounds[row]:
                return HEADERS_NOT_ALLOWED, row
            total += message_size(records, row, magic)
        if total > INT32_MAX:
            return NEW_BATCH_TOO_LARGE, first
        sizes[batch] = total
    return OK, 0


@inlined
def write_front(
    out: Bytes, at: int, offset: int, size: int, magic: int, attributes: int, timestamp: int
) -> int:
    """Everything before the key's length, but for the CRC."""
    at = write_i64(out, at, offset)
    at = write_i32(out, at, size - LOG_OVERHEAD)
    at = write_i8(out, at + CRC_SIZE, magic)
    at = write_i8(out, at, attributes)
    if magic == 1:
        at = write_i64(out, at, timestamp)
    return at


@inlined
def seal_message(out: Bytes, start: int, stop: int) -> None:
    """The CRC covers everything behind itself."""
    crc = crc32(out, start + MESSAGE_CRC_COVERS, stop)
    write_i32(out, start + MESSAGE_CRC_POSITION, crc)


@inlined
def write_message(
    out: Bytes,
    start: int,
    records: RecordBuffers,
    row: int,
    offset: int,
    kind: tuple[int, int, int],
) -> int:
    """One message; `kind` is magic, attributes and the broker's clock."""
    magic, attributes, log_append_time = kind
    timestamp = log_append_time if attributes & LOG_APPEND_TIME else records.timestamp[row]
    size = message_size(records, row, magic)
    at = write_front(out, start, offset, size, magic, attributes, timestamp)
    first, length = span(records.key_bounds, records.key_valid, row)
    at = write_i32(out, at, length)
    at = write_bytes(out, at, records.key_bytes, first, max(length, i64(0)))
    first, length = span(records.value_bounds, records.value_valid, row)
    at = write_i32(out, at, length)
    at = write_bytes(out, at, records.value_bytes, first, max(length, i64(0)))
    seal_message(out, start, at)
    return at


@kernel
def write_legacy(
    records: RecordBuffers,
    bounds: Int64s,
    bases: Int64s,
    starts: Int64s,
    kind: tuple[int, int, int],
    out: Bytes,
) -> None:
    """Write the messages of each batch from its start on, offsets relative to its base."""
    for batch in range(starts.size):
        at = starts[batch]
        for row in range(bounds[batch], bounds[batch + 1]):
            offset = records.offset[row] - bases[batch]
            at = write_message(out, at, records, row, offset, kind)


@kernel
def seal_wrapper(
    out: Bytes, start: int, stop: int, offset: int, timestamp: int, magic: int, attributes: int
) -> None:
    """Write what goes around a compressed value that ends at `stop`: no key, and the CRC last."""
    at = write_front(out, start, offset, stop - start, magic, attributes, timestamp)
    at = write_i32(out, at, -1)
    write_i32(out, at, stop - at - VALUE_LENGTH_SIZE)
    seal_message(out, start, stop)
