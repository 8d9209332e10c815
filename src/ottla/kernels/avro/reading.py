"""Pieces of datums: numbers, text and decimals, each checked against where the datum ends.

Contract: PADDING bytes can be read behind the end of all data.
"""

import numpy as np

from ottla.format.arrays import Bytes
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.avro.layout import BAD_NUMBER, TRUNCATED
from ottla.kernels.bytes.memory import bit_length, load_u64
from ottla.kernels.bytes.varint import MAX_VARLONG_SIZE, read_long_form
from ottla.kernels.status import VARINT_TOO_LONG

_HIGH_BITS = np.uint64(0x8080808080808080)
_SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
_PAIR = np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00)
_PAIRS = np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000)
_HALVES = np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000)
_EVEN_LOW, _EVEN_HIGH = _PAIR
_FOUR_LOW, _FOUR_HIGH = _PAIRS
_EIGHT_LOW, _EIGHT_HIGH = _HALVES
_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@inlined
def read_number(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A signed varint and where it ends; a negative end is minus what is wrong.

    Up to eight bytes are taken at once: the sevens of bits move together in three steps.
    """
    first = i64(data[at])
    if first < 0x80 and at < end:
        return (first >> i64(1)) ^ -(first & i64(1)), at + 1
    word = load_u64(data, at)
    stops = ~word & _HIGH_BITS
    if stops:
        bits = bit_length(stops ^ (stops & (stops - np.uint64(1))))
        word &= (_ONES >> np.uint64(64 - bits)) & _SEVEN
        word = (word & _EVEN_LOW) | ((word & _EVEN_HIGH) >> np.uint64(1))
        word = (word & _FOUR_LOW) | ((word & _FOUR_HIGH) >> np.uint64(2))
        word = (word & _EIGHT_LOW) | ((word & _EIGHT_HIGH) >> np.uint64(4))
        after = at + (bits >> 3)
        if after > end:
            return i64(0), i64(-TRUNCATED)
        return i64(word >> np.uint64(1)) ^ -i64(word & np.uint64(1)), after
    raw, after = read_long_form(data, at, end, MAX_VARLONG_SIZE)
    if after < 0:
        after = i64(-BAD_NUMBER) if after == -VARINT_TOO_LONG else i64(-TRUNCATED)
    return i64(raw >> np.uint64(1)) ^ -i64(raw & np.uint64(1)), after


@inlined
def is_ascii(data: Bytes, at: int, size: int) -> bool:
    """Whether no byte has its high bit set."""
    done = 0
    while done + 8 <= size:
        if load_u64(data, at + done) & _HIGH_BITS:
            return False
        done += 8
    if done == size:
        return True
    rest = load_u64(data, at + done) & _HIGH_BITS
    return bool((rest << np.uint64(8 * (8 - size + done))) == np.uint64(0))


@kernel
def is_utf8(data: Bytes, at: int, size: int) -> bool:
    """Whether bytes are UTF-8: shortest forms, no surrogates, nothing above U+10FFFF."""
    end = at + size
    while at < end:
        first = i64(data[at])
        if first < 0x80:
            at += 1
            continue
        low, high = i64(0x80), i64(0xBF)  # of the second byte
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                low = i64(0xA0)
            elif first == 0xED:
                high = i64(0x9F)
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                low = i64(0x90)
            elif first == 0xF4:
                high = i64(0x8F)
        else:
            return False
        if at + more >= end:
            return False
        second = i64(data[at + 1])
        if second < low or second > high:
            return False
        for index in range(2, more + 1):
            if data[at + index] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


@kernel
def decimal_fits(data: Bytes, at: int, size: int, bounds: Bytes, place: int, width: int) -> bool:
    """Whether a big-endian number lies within a precision.

    `bounds` has, from `place` on, the largest and the least number in `width` bytes each.
    """
    if size == 0:
        return True
    fill = i64(0xFF) if data[at] >= 0x80 else i64(0)
    while size > width:
        if data[at] != fill:
            return False
        at += 1
        size -= 1
    if (i64(data[at]) ^ fill) & 0x80 and size == width:
        return False
    limit = place + (width if fill else 0)
    for index in range(width):
        behind = index - (width - size)
        byte = i64(data[at + behind]) if behind >= 0 else fill
        bound = i64(bounds[limit + index])
        if byte != bound:
            return byte > bound if fill else byte < bound
    return True
