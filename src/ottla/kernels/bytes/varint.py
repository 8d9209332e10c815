"""Kafka's variable-length integers (ByteUtils): zigzag, seven bits a byte, least significant first.

A read returns (value, next position). A negative next position is the failure: -RECORD_TRUNCATED
or -VARINT_TOO_LONG. Encodings longer than needed are accepted and bits past the width are
dropped, as in Kafka.
"""

import numpy as np

from ottla.format.arrays import Bytes
from ottla.kernels._jit import called, i64, inlined
from ottla.kernels.status import RECORD_TRUNCATED, VARINT_TOO_LONG

MAX_VARINT_SIZE = 5
MAX_VARLONG_SIZE = 10


@called
def read_long_form(data: Bytes, at: int, end: int, most: int) -> tuple[np.uint64, int]:
    """An unsigned varint of up to `most` bytes."""
    raw = np.uint64(0)
    for index in range(most):
        if at + index >= end:
            return np.uint64(0), -RECORD_TRUNCATED
        byte = np.uint64(data[at + index])
        raw |= (byte & np.uint64(0x7F)) << np.uint64(7 * index)
        if byte < np.uint64(0x80):
            return raw, at + index + 1
    return np.uint64(0), -VARINT_TOO_LONG


@inlined
def read_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A signed 32-bit varint."""
    if at < end:
        first = i64(data[at])
        if first < 0x80:
            return (first >> i64(1)) ^ -(first & i64(1)), at + 1
        second = i64(data[at + 1])
        if second < 0x80 and at + 1 < end:
            both = (first & i64(0x7F)) | (second << i64(7))
            return (both >> i64(1)) ^ -(both & i64(1)), at + 2
    raw, after = read_long_form(data, at, end, MAX_VARINT_SIZE)
    word = i64(raw & np.uint64(0xFFFFFFFF))
    return (word >> i64(1)) ^ -(word & i64(1)), after


@inlined
def read_varlong(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A signed 64-bit varint."""
    if at < end:
        first = i64(data[at])
        if first < 0x80:
            return (first >> i64(1)) ^ -(first & i64(1)), at + 1
        second = i64(data[at + 1])
        if second < 0x80 and at + 1 < end:
            both = (first & i64(0x7F)) | (second << i64(7))
            return (both >> i64(1)) ^ -(both & i64(1)), at + 2
    raw, after = read_long_form(data, at, end, MAX_VARLONG_SIZE)
    return i64(raw >> np.uint64(1)) ^ -i64(raw & np.uint64(1)), after
