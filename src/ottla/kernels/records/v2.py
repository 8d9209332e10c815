"""Locate the fields of v2 records (DefaultRecord).

Kafka lets a record's fields run past its declared size and refuses it afterwards; here nothing
may pass the end of the record, which refuses the same records.
"""

from typing import NamedTuple

from ottla.format.arrays import Bytes
from ottla.format.layout import RECORD_ATTRIBUTES_SIZE
from ottla.kernels._jit import called, i64, inlined
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


class Located(NamedTuple):
    """Where the fields of a record are; a size below 0 is null. Only `status` counts if not OK."""

    status: int
    timestamp_delta: int
    offset_delta: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    header_count: int
    header_at: int  # where the headers begin
    end: int  # where the record ends


@inlined
def broken(status: int) -> Located:
    """A record of which nothing else is known."""
    zero = i64(0)
    return Located(i64(status), zero, zero, zero, zero, zero, zero, zero, zero, zero)


@inlined
def locate_record(data: Bytes, at: int, stop: int) -> Located:
    """Status and fields of the record at `at`; its headers are not looked at yet."""
    zero = i64(0)
    size, at = read_varint(data, at, stop)
    if at < 0:
        return broken(-at)
    if size < 0:
        return broken(RECORD_SIZE)
    end = at + size
    if end > stop or size == 0:
        return broken(RECORD_TRUNCATED)
    timestamp_delta, at = read_varlong(data, at + RECORD_ATTRIBUTES_SIZE, end)
    if at < 0:
        return broken(-at)
    offset_delta, at = read_varint(data, at, end)
    if at < 0:
        return broken(-at)
    key_size, key_at = read_varint(data, at, end)
    if key_at < 0:
        return broken(-key_at)
    at = key_at + max(key_size, zero)
    if at > end:
        return broken(FIELD_TOO_LONG)
    value_size, value_at = read_varint(data, at, end)
    if value_at < 0:
        return broken(-value_at)
    at = value_at + max(value_size, zero)
    if at > end:
        return broken(FIELD_TOO_LONG)
    count, at = read_varint(data, at, end)
    if at < 0:
        return broken(-at)
    if count < 0 or count > end - at:
        return broken(HEADER_COUNT)
    if count == 0 and at != end:
        return broken(RECORD_SIZE)
    ok = i64(OK)
    return Located(
        ok,
        timestamp_delta,
        offset_delta,
        key_at,
        key_size,
        value_at,
        value_size,
        count,
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


@called
def check_records(data: Bytes, start: int, stop: int, count: int) -> tuple[int, int, int]:
    """Walk the records of a batch and return (status, index, at) of the first broken one."""
    at = start
    for index in range(count):
        record = locate_record(data, at, stop)
        if record.status != OK:
            return record.status, index, at
        header_at = record.header_at
        for _ in range(record.header_count):
            status, _, _, _, _, header_at = locate_header(data, header_at, record.end)
            if status != OK:
                return status, index, at
        if header_at != record.end:
            return RECORD_SIZE, index, at
        at = record.end
    if at != stop:
        return BYTES_REMAIN, count, at
    return OK, count, at
