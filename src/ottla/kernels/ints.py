"""Big-endian integers, as Kafka writes them."""

import numpy as np

from ottla.kernels._jit import Bytes, inlined
from ottla.kernels.memory import load_u64

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
def read_i64(data: Bytes, at: int) -> np.int64:
    """Eight bytes, signed."""
    return np.int64(swap_bytes(load_u64(data, at)))


@inlined
def read_u32(data: Bytes, at: int) -> np.int64:
    """Four bytes, unsigned."""
    return np.int64(swap_bytes(load_u64(data, at)) >> np.uint64(32))


@inlined
def read_i32(data: Bytes, at: int) -> np.int64:
    """Four bytes, signed."""
    raw = read_u32(data, at)
    return raw - ((raw & np.int64(0x80000000)) << np.int64(1))


@inlined
def read_i16(data: Bytes, at: int) -> np.int64:
    """Two bytes, signed."""
    raw = (np.int64(data[at]) << np.int64(8)) | np.int64(data[at + 1])
    return raw - ((raw & np.int64(0x8000)) << np.int64(1))


@inlined
def read_i8(data: Bytes, at: int) -> np.int64:
    """One byte, signed."""
    raw = np.int64(data[at])
    return raw - ((raw & np.int64(0x80)) << np.int64(1))


@inlined
def wrapping_add(left: np.int64, right: np.int64) -> np.int64:
    """Java's long addition; the interpreted run must wrap in silence too."""
    low = (left & np.int64(0xFFFFFFFF)) + (right & np.int64(0xFFFFFFFF))
    high = (left >> np.int64(32)) + (right >> np.int64(32)) + (low >> np.int64(32))
    return (high << np.int64(32)) | (low & np.int64(0xFFFFFFFF))
