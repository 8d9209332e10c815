"""Locate the fields of v2 records (DefaultRecord).

Kafka lets a record's fields run past its declared size and refuses it afterwards; here nothing
may pass the end of the record, which refuses the same records.
"""

from ottla.format.arrays import Bytes
from ottla.format.layout import RECORD_ATTRIBUTES_SIZE
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.varint import read_varint, read_varlong
from ottla.kernels.status import (
    BYTES_REMAIN,
    FIELD_TOO_LONG,
    HEADER_COUNT,
    HEADER_KEY_NULL,
    OK,
    RECORD_SIZE,
    RECORD_TRUNCATED,
)

# Located: timestamp delta, offset delta, key at, key size, value at, value size, header count,
# where the headers begin, where the record ends. A size below 0 is null.
Located = tuple[int, int, int, int, int, int, int, int, int, int]


@inlined
def locate_record(data: Bytes, at: int, stop: int) -> Located:
    """Status and fields of the record at `at`; its headers are not looked at yet."""
    zero = i64(0)
    size, at = read_varint(data, at, stop)
    if at < 0:
        return -at, zero, zero, 0, zero, 0, zero, zero, 0, 0
    if size < 0:
        return RECORD_SIZE, zero, zero, 0, zero, 0, zero, zero, 0, 0
    end = at + size
    if end > stop or size == 0:
        return RECORD_TRUNCATED, zero, zero, 0, zero, 0, zero, zero, 0, 0
    timestamp_delta, at = read_varlong(data, at + RECORD_ATTRIBUTES_SIZE, end)
    if at < 0:
        return -at, zero, zero, 0, zero, 0, zero, zero, 0, 0
    offset_delta, at = read_varint(data, at, end)
    if at < 0:
        return -at, zero, zero, 0, zero, 0, zero, zero, 0, 0
    key_size, key_at = read_varint(data, at, end)
    if key_at < 0:
        return -key_at, zero, zero, 0, zero, 0, zero, zero, 0, 0
    at = key_at + max(key_size, zero)
    if at > end:
        return FIELD_TOO_LONG, zero, zero, 0, zero, 0, zero, zero, 0, 0
    value_size, value_at = read_varint(data, at, end)
    if value_at < 0:
        return -value_at, zero, zero, 0, zero, 0, zero, zero, 0, 0
    at = value_at + max(value_size, zero)
    if at > end:
        return FIELD_TOO_LONG, zero, zero, 0, zero, 0, zero, zero, 0, 0
    header_count, at = read_varint(data, at, end)
    if at < 0:
        return -at, zero, zero, 0, zero, 0, zero, zero, 0, 0
    if header_count < 0 or header_count > end - at:
        return HEADER_COUNT, zero, zero, 0, zero, 0, zero, zero, 0, 0
    if header_count == 0 and at != end:
        return RECORD_SIZE, zero, zero, 0, zero, 0, zero, zero, 0, 0
    return (
        OK,
        timestamp_delta,
        offset_delta,
        key_at,
        key_size,
        value_at,
        value_size,
        header_count,
        at,
        end,
    )


@inlined
def locate_header(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int, int]:
    """Status, key at, key size, value at, value size and where the next header begins."""
    zero = i64(0)
    key_size, key_at = read_varint(data, at, end)
    if key_at < 0:
        return -key_at, 0, zero, 0, zero, 0
    if key_size < 0:
        return HEADER_KEY_NULL, 0, zero, 0, zero, 0
    if key_at + key_size > end:
        return FIELD_TOO_LONG, 0, zero, 0, zero, 0
    value_size, value_at = read_varint(data, key_at + key_size, end)
    if value_at < 0:
        return -value_at, 0, zero, 0, zero, 0
    after = value_at + max(value_size, zero)
    if after > end:
        return FIELD_TOO_LONG, 0, zero, 0, zero, 0
    return OK, key_at, key_size, value_at, value_size, after


@kernel
def check_records(data: Bytes, start: int, stop: int, count: int) -> tuple[int, int, int]:
    """Walk the records of a batch and return (status, index, at) of the first broken one."""
    at = start
    for index in range(count):
        status, _, _, _, _, _, _, header_count, header_at, end = locate_record(data, at, stop)
        if status != OK:
            return status, index, at
        for _ in range(header_count):
            status, _, _, _, _, header_at = locate_header(data, header_at, end)
            if status != OK:
                return status, index, at
        if header_at != end:
            return RECORD_SIZE, index, at
        at = end
    if at != stop:
        return BYTES_REMAIN, count, at
    return OK, count, at
