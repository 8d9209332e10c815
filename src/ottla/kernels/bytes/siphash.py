"""SipHash-2-4 (Aumasson and Bernstein): a hash that tells nothing to those without its key."""

import numpy as np
import numpy.typing as npt

from ottla.format.arrays import Bytes
from ottla.kernels._jit import inlined
from ottla.kernels.bytes.memory import load_u64

KEY_BYTES = 16

_BELOW = np.uint64(0x7FFFFFFFFFFFFFFF)
_TOP = np.uint64(0x8000000000000000)
_LOW_BYTE = np.uint64(0xFF)
# "somepseudorandomlygeneratedbytes", as the authors have it.
_FIRST = np.uint64(0x736F6D6570736575)
_SECOND = np.uint64(0x646F72616E646F6D)
_THIRD = np.uint64(0x6C7967656E657261)
_FOURTH = np.uint64(0x7465646279746573)


@inlined
def add(one: np.uint64, other: np.uint64) -> np.uint64:
    """The sum in 64 bits; the highest by itself, since NumPy warns of what is carried out of it."""
    total: np.uint64 = ((one & _BELOW) + (other & _BELOW)) ^ ((one ^ other) & _TOP)
    return total


@inlined
def rotate(word: np.uint64, bits: int) -> np.uint64:
    """The word with its highest bits moved to its low end."""
    turned: np.uint64 = (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))
    return turned


@inlined
def mix(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, rounds: int
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """So many rounds over the four words of the state."""
    for _ in range(rounds):
        a = add(a, b)
        b = rotate(b, 13) ^ a
        a = rotate(a, 32)
        c = add(c, d)
        d = rotate(d, 16) ^ c
        a = add(a, d)
        d = rotate(d, 21) ^ a
        c = add(c, b)
        b = rotate(b, 17) ^ c
        c = rotate(c, 32)
    return a, b, c, d


@inlined
def siphash(key: npt.NDArray[np.uint64], data: Bytes, start: int, stop: int) -> np.uint64:
    """The hash of data[start:stop] by a key of two words; 8 readable bytes follow the data."""
    a = key[0] ^ _FIRST
    b = key[1] ^ _SECOND
    c = key[0] ^ _THIRD
    d = key[1] ^ _FOURTH
    at = start
    while at + 8 <= stop:
        word = load_u64(data, at)
        a, b, c, d = mix(a, b, c, d ^ word, 2)
        a ^= word
        at += 8
    # The last word has the bytes that are left, and how many there were in its highest one.
    kept = (np.uint64(1) << np.uint64(8 * (stop - at))) - np.uint64(1)
    word = load_u64(data, at) & kept
    word |= (np.uint64(stop - start) & _LOW_BYTE) << np.uint64(56)
    a, b, c, d = mix(a, b, c, d ^ word, 2)
    a, b, c, d = mix(a ^ word, b, c ^ _LOW_BYTE, d, 4)
    return a ^ b ^ c ^ d
