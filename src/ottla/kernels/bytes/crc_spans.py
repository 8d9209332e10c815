"""CRCs of many spans that overlap, with each byte summed once.

A register is linear in what it has seen. That of a span is the register at its end, less the one
at its begin moved past as many zero bytes as the span has. So registers are noted every STEP bytes
while spans reach further, and a span costs its two ends and some arithmetic, however long it is.
Spans are asked for by their begin, in rising order; those of CRC-32C and of CRC-32 apart.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.format.arrays import Bytes, Int64s, Words
from ottla.kernels._jit import called, i64, inlined
from ottla.kernels.bytes.crc import CASTAGNOLI, IEEE, crc32_register, crc32c_register
from ottla.kernels.bytes.memory import prefetch

CRC32C = 0
CRC32 = 1

STEP = 64  # bytes between registers; so many before the begin of a span must be held
_MASK = np.uint64(0xFFFFFFFF)
_DIGIT_BITS = 11
_DIGITS = 3  # spans are shorter than 2**31


class Noted(NamedTuple):
    """Registers, in a ring for each CRC, and for each: where its run begins, where the last is."""

    registers: npt.NDArray[np.uint32]
    runs: Int64s


def note_registers(longest: int) -> Noted:
    """Room for spans of up to `longest` bytes."""
    room = longest // STEP + 3
    return Noted(np.zeros((2, room), dtype=np.uint32), np.full((2, 2), -1, dtype=np.int64))


def _multiply_all(polynomial: int, left: Words, right: int) -> Words:
    """Products of polynomials modulo a CRC's; the highest bit of a word is its x^0."""
    product = np.zeros_like(left)
    for bit in range(31, -1, -1):
        product ^= np.where(left >> np.uint64(bit) & np.uint64(1), np.uint64(right), np.uint64(0))
        right = (right >> 1) ^ (polynomial if right & 1 else 0)
    return product


def _zero_factors(polynomial: int) -> Words:
    """What a register is multiplied by to move it past zero bytes, by digits of their count."""
    factors = np.zeros((_DIGITS, 1 << _DIGIT_BITS), dtype=np.uint64)
    factors[:, 0] = 1 << 31
    power = 1 << 23  # x^8: one byte
    for digit in range(_DIGITS):
        for bit in range(_DIGIT_BITS):
            known = 1 << bit
            factors[digit, known : 2 * known] = _multiply_all(
                polynomial, factors[digit, :known], power
            )
            power = int(_multiply_all(polynomial, np.array([power], dtype=np.uint64), power)[0])
    return factors


_POLYNOMIALS = np.array([CASTAGNOLI, IEEE], dtype=np.uint64)
_ZEROS = np.array([_zero_factors(CASTAGNOLI), _zero_factors(IEEE)])


@inlined
def _multiply(polynomial: np.uint64, left: np.uint64, right: np.uint64) -> np.uint64:
    one = np.uint64(1)
    product = np.uint64(0)
    for bit in range(31, -1, -1):
        product ^= right * ((left >> np.uint64(bit)) & one)
        right = (right >> one) ^ (polynomial * (right & one))
    return product


@inlined
def _past_zeros(which: int, register: np.uint64, count: int) -> np.uint64:
    """A register after `count` zero bytes, in the same time for any count."""
    for digit in range(_DIGITS):
        factor = _ZEROS[which, digit, (count >> (digit * _DIGIT_BITS)) & ((1 << _DIGIT_BITS) - 1)]
        register = _multiply(_POLYNOMIALS[which], register, factor)
    return register


@inlined
def _sum(which: int, register: np.uint64, data: Bytes, start: int, stop: int) -> np.uint64:
    if which == CRC32C:
        return crc32c_register(register, data, start, stop)
    return crc32_register(register, data, start, stop)


@inlined
def _register_at(which: int, data: Bytes, origin: int, position: int, noted: Noted) -> np.uint64:
    """The register at a position that the run reaches, from the last one noted before it."""
    begin = noted.runs[which, 0]
    index = (position - begin) // STEP
    register = np.uint64(noted.registers[which, index % noted.registers.shape[1]])
    return _sum(which, register, data, begin + index * STEP - origin, position - origin)


@called
def span_crc(
    which: int, data: Bytes, origin: int, start: int, stop: int, noted: Noted
) -> tuple[int, int]:
    """The CRC of data[start:stop], and how many bytes were summed for it.

    data[0] is at position `origin`. Where earlier spans did not reach, a new run begins.
    """
    begin = origin + start
    runs = noted.runs
    room = noted.registers.shape[1]
    if begin < runs[which, 0] or begin > runs[which, 1] or runs[which, 0] < 0:
        runs[which, 0] = runs[which, 1] = begin
        noted.registers[which, 0] = 0
    before = runs[which, 1]
    while runs[which, 1] + STEP <= origin + stop:
        at = runs[which, 1]
        index = (at - runs[which, 0]) // STEP
        register = np.uint64(noted.registers[which, index % room])
        register = _sum(which, register, data, at - origin, at - origin + STEP)
        noted.registers[which, (index + 1) % room] = register
        runs[which, 1] = at + STEP
    # The end of a span is seldom in a cache: ask for it before the arithmetic, not after.
    prefetch(data, stop - 1)
    prefetch(data, max(start, stop - STEP))
    index = (origin + stop - runs[which, 0]) // STEP
    prefetch(noted.registers, (which * room + index % room) * noted.registers.itemsize)
    first = _register_at(which, data, origin, begin, noted) ^ _MASK
    moved = _past_zeros(which, first, stop - start)
    crc = moved ^ _register_at(which, data, origin, origin + stop, noted) ^ _MASK
    return i64(crc), runs[which, 1] - before + 2 * STEP
