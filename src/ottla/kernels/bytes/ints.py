"""Big-endian integers, as Kafka writes them."""

import numpy as np

from ottla.format.arrays import Bytes
from ottla.kernels._jit import i64, inlined
from ottla.kernels.bytes.memory import load_u64

_LOW_8 = np.uint64(0x00FF00FF00FF00FF)
_LOW_16 = np.uint64(0x0000FFFF0000FFFF)


@inlined
def swap_bytes(word: np.uint64) -> np.uint64:
    """Reverse the eight bytes of a word; LLVM makes one instruction of it."""
    word = ((word >> np.uint64(8)) & _LOW_8) | ((word & _LOW_8) << np.uint64(8))
    word = ((word >> np.uint64(16)) & _LOW_16) | ((word & _LOW_16) << np.uint64(16))
    return (word >> np.uint64(32)) | (word << np.uint64(32))


@inlined
def read_u64(data: Bytes, at: int) -> np.uint64:
    """Eight bytes, unsigned."""
    return swap_bytes(load_u64(data, at))


@inlined
def read_i64(data: Bytes, at: int) -> int:
    """Eight bytes, signed."""
    return i64(swap_bytes(load_u64(data, at)))


@inlined
def read_u32(data: Bytes, at: int) -> int:
    """Four bytes, unsigned."""
    return i64(swap_bytes(load_u64(data, at)) >> np.uint64(32))


@inlined
def read_i32(data: Bytes, at: int) -> int:
    """Four bytes, signed."""
    raw = read_u32(data, at)
    return raw - ((raw & i64(0x80000000)) << i64(1))


@inlined
def read_i16(data: Bytes, at: int) -> int:
    """Two bytes, signed."""
    raw = (i64(data[at]) << i64(8)) | i64(data[at + 1])
    return raw - ((raw & i64(0x8000)) << i64(1))


@inlined
def read_i8(data: Bytes, at: int) -> int:
    """One byte, signed."""
    raw = i64(data[at])
    return raw - ((raw & i64(0x80)) << i64(1))


@inlined
def wrapping_add(left: int, right: int) -> int:
    """Java's long addition; the interpreted run must wrap in silence too."""
    low = (left & i64(0xFFFFFFFF)) + (right & i64(0xFFFFFFFF))
    high = (left >> i64(32)) + (right >> i64(32)) + (low >> i64(32))
    return (high << i64(32)) | (low & i64(0xFFFFFFFF))


@inlined
def wrapping_subtract(left: int, right: int) -> int:
    """Java's long subtraction, in silence as well: minus a number is its complement plus one."""
    return wrapping_add(left, wrapping_add(~right, i64(1)))
