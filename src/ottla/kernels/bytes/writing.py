"""Big-endian integers, varints and bytes into an array that has PADDING bytes after its end.

A write returns the position after it. Varints and copies may spoil what follows them, so records
are written from front to back.
"""

import numpy as np

from ottla.format.arrays import Bytes, Int32s
from ottla.kernels._jit import i64, inlined
from ottla.kernels.bytes.ints import swap_bytes
from ottla.kernels.bytes.memory import WIDE, bit_length, copy_wide, store_u64


@inlined
def zigzag(value: int) -> np.uint64:
    """Small numbers of both signs as small numbers."""
    return np.uint64((value << i64(1)) ^ (value >> i64(63)))


@inlined
def varint_size(value: int) -> int:
    """How many bytes `write_varint` needs: one for every seven bits, without a division."""
    return (bit_length(zigzag(value) | np.uint64(1)) * 9 + 64) >> 6


@inlined
def write_varint(out: Bytes, at: int, value: int) -> int:
    """A signed varint; one of 32 and one of 64 bits differ only in their range."""
    raw = zigzag(value)
    if raw < np.uint64(0x80):
        store_u64(out, at, raw)
        return at + 1
    if raw < np.uint64(0x4000):
        store_u64(
            out,
            at,
            (raw & np.uint64(0x7F)) | np.uint64(0x80) | (raw >> np.uint64(7) << np.uint64(8)),
        )
        return at + 2
    while raw >= np.uint64(0x80):
        out[at] = np.uint8((raw & np.uint64(0x7F)) | np.uint64(0x80))
        raw >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(raw)
    return at + 1


@inlined
def write_i64(out: Bytes, at: int, value: int) -> int:
    """Eight bytes."""
    store_u64(out, at, swap_bytes(np.uint64(i64(value))))
    return at + 8


@inlined
def write_i32(out: Bytes, at: int, value: int) -> int:
    """Four bytes, signed or not."""
    out[at] = np.uint8((value >> i64(24)) & i64(0xFF))
    out[at + 1] = np.uint8((value >> i64(16)) & i64(0xFF))
    out[at + 2] = np.uint8((value >> i64(8)) & i64(0xFF))
    out[at + 3] = np.uint8(value & i64(0xFF))
    return at + 4


@inlined
def write_i16(out: Bytes, at: int, value: int) -> int:
    """Two bytes, signed or not."""
    out[at] = np.uint8((value >> i64(8)) & i64(0xFF))
    out[at + 1] = np.uint8(value & i64(0xFF))
    return at + 2


@inlined
def write_i8(out: Bytes, at: int, value: int) -> int:
    """One byte, signed or not."""
    out[at] = np.uint8(value & i64(0xFF))
    return at + 1


@inlined
def write_bytes(out: Bytes, at: int, source: Bytes, start: int, size: int) -> int:
    """Copy `size` bytes; only `out` is known to be padded."""
    if start + size + WIDE <= source.size:
        copy_wide(out, at, source, start, size)
    else:
        for index in range(size):
            out[at + index] = source[start + index]
    return at + size


@inlined
def span(bounds: Int32s, valid: Bytes, index: int) -> tuple[int, int]:
    """Where a value of a binary column begins, and its size; a size of -1 is null."""
    start = i64(bounds[index])
    if (valid[index >> 3] >> np.uint8(index & 7)) & np.uint8(1):
        return start, i64(bounds[index + 1]) - start
    return start, i64(-1)
