"""Numbers and bytes as characters, for the lines that commands print.

Every function appends at `at` and returns where it stopped. The caller made room: a number takes at
most NUMBER_ROOM bytes, a byte at most ESCAPED_ROOM, and writes may overshoot by WIDE.
"""

import string
from typing import Final

import numpy as np
import numpy.typing as npt

from ottla.format.arrays import Bytes
from ottla.kernels._jit import inlined, kernel
from ottla.kernels.bytes.ints import read_u64
from ottla.kernels.bytes.memory import WIDE, copy_32, copy_wide, load_u64, store_u64

NUMBER_ROOM: Final = 20  # -9223372036854775808
ESCAPED_ROOM: Final = 6  # of a byte: \\u001f
BASE64_ROOM: Final = 2  # of a byte; up to 4 more for what is rounded up

_MINUS = 45
_ZERO = 48
_BACKSLASH = 92
_PAD = 61

_HUNDRED = np.uint64(100)
_HIGH_BITS = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_SPACES = np.uint64(0x2020202020202020)


def phrase(text: str) -> Bytes:
    """Fixed characters for `put_phrase`, followed by what a wide copy may read past them."""
    data = text.encode()
    array = np.zeros(len(data) + WIDE, dtype=np.uint8)
    array[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    return array


def _characters(text: str) -> Bytes:
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8)


def _base64_pairs() -> npt.NDArray[np.uint16]:
    """The two characters of every 12 bits, the first in the low byte."""
    alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    codes = _characters(alphabet).astype(np.uint16)
    first, second = np.divmod(np.arange(4096), 64)
    return (codes[first] | codes[second] << 8).astype(np.uint16)


def _json_escapes() -> Bytes:
    """The letter after the backslash, 0 for a byte that stands for itself."""
    letters = np.zeros(256, dtype=np.uint8)
    letters[:32] = ord("u")
    letters[0x7F:0xA0] = ord("u")  # above 0x7F only after 0xC2, as the controls U+0080 to U+009F
    for byte, letter in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt', strict=True):
        letters[byte] = letter
    return letters


_DIGIT_PAIRS = _characters("".join(f"{number:02d}" for number in range(100)))
_HEX = _characters("0123456789abcdef")
_PAIRS = _base64_pairs()
_JSON_ESCAPES = _json_escapes()


@inlined
def put_phrase(out: Bytes, at: int, text: Bytes) -> int:
    """Append fixed characters made by `phrase`."""
    size = text.size - WIDE
    copy_wide(out, at, text, 0, size)
    return at + size


@inlined
def put_bytes(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    """Append bytes as they are; 32 readable ones follow them."""
    copy_wide(out, at, data, start, stop - start)
    return at + stop - start


@kernel
def put_int(out: Bytes, at: int, value: np.int64) -> int:
    """Append a decimal number."""
    rest = np.uint64(value)
    if value < 0:
        out[at] = _MINUS
        at += 1
        rest = ~rest + np.uint64(1)
    end = at + 1
    limit = np.uint64(10)
    while end - at < 19 and rest >= limit:
        limit *= np.uint64(10)
        end += 1
    to = end
    while rest >= _HUNDRED:
        pair = np.int64(rest % _HUNDRED) * 2
        rest //= _HUNDRED
        to -= 2
        out[to] = _DIGIT_PAIRS[pair]
        out[to + 1] = _DIGIT_PAIRS[pair + 1]
    if to - at == 2:
        out[at] = _DIGIT_PAIRS[np.int64(rest) * 2]
        out[at + 1] = _DIGIT_PAIRS[np.int64(rest) * 2 + 1]
    else:
        out[at] = _ZERO + np.int64(rest)
    return end


@kernel
def put_base64(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    """Append bytes as padded base64: six bytes, eight characters at a time."""
    to = at
    for source in range(start, stop, 6):
        word = read_u64(data, source)
        first = np.uint64(_PAIRS[np.int64(word >> np.uint64(52))])
        second = np.uint64(_PAIRS[np.int64((word >> np.uint64(40)) & np.uint64(0xFFF))])
        third = np.uint64(_PAIRS[np.int64((word >> np.uint64(28)) & np.uint64(0xFFF))])
        fourth = np.uint64(_PAIRS[np.int64((word >> np.uint64(16)) & np.uint64(0xFFF))])
        low = first | (second << np.uint64(16))
        high = third | (fourth << np.uint64(16))
        store_u64(out, to, low | (high << np.uint64(32)))
        to += 8
    size = stop - start
    end = at + (size + 2) // 3 * 4
    if size % 3 == 1:
        # What follows the last byte was encoded with it: once more, with zeros in its place.
        pair = np.int64(_PAIRS[np.int64(data[stop - 1]) << 4])
        out[end - 4] = pair & 0xFF
        out[end - 3] = pair >> 8
        out[end - 2] = _PAD
        out[end - 1] = _PAD
    elif size % 3 == 2:
        out[end - 2] = _PAIRS[(np.int64(data[stop - 1]) & 0xF) << 8] & 0xFF
        out[end - 1] = _PAD
    return end


@kernel
def put_json_text(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    """Append valid UTF-8 as the inside of a JSON string; no control stands for itself in it."""
    for source in range(start, stop):
        byte = data[source]
        letter = _JSON_ESCAPES[byte]
        if letter == 0 or (byte >= 0x80 and (source == start or data[source - 1] != 0xC2)):
            out[at] = byte
            at += 1
            continue
        if byte >= 0x80:
            at -= 1  # the character begins with the byte before
        out[at] = _BACKSLASH
        out[at + 1] = letter
        at += 2
        if letter == 117:
            out[at] = _ZERO
            out[at + 1] = _ZERO
            out[at + 2] = _HEX[byte >> 4]
            out[at + 3] = _HEX[byte & 0xF]
            at += 4
    return at


@inlined
def is_plain(word: np.uint64) -> bool:
    """Whether all eight bytes are printable ASCII."""
    below_space = ~((word | _HIGH_BITS) - _SPACES) & _HIGH_BITS
    return bool((word | below_space | ((word & ~_HIGH_BITS) + _ONES)) & _HIGH_BITS == 0)


@inlined
def printable_size(data: Bytes, at: int, stop: int) -> int:
    """How many bytes the printable character at `at` has; 0 for a control or what is not UTF-8."""
    first = data[at]
    if first < 0x80:
        return 1 if 0x20 <= first < 0x7F else 0
    if first < 0xC2 or first > 0xF4:
        return 0
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if at + size > stop:
        return 0
    second = data[at + 1]
    lowest = 0x80
    highest = 0xBF
    if first == 0xC2:
        lowest = 0xA0  # U+0080 to U+009F are controls too
    elif first == 0xE0:
        lowest = 0xA0
    elif first == 0xED:
        highest = 0x9F
    elif first == 0xF0:
        lowest = 0x90
    elif first == 0xF4:
        highest = 0x8F
    if second < lowest or second > highest:
        return 0
    for after in range(at + 2, at + size):
        if data[after] & 0xC0 != 0x80:
            return 0
    return size


@kernel
def put_readable(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    r"""Append bytes as text on one line: controls and what is not UTF-8 become \n or \x1b.

    A terminal must not obey what a stranger wrote into a record.
    """
    source = start
    while source < stop:
        if source + 8 <= stop:
            word = load_u64(data, source)
            if is_plain(word):
                store_u64(out, at, word)
                source += 8
                at += 8
                continue
        size = printable_size(data, source, stop)
        if size > 0:
            copy_32(out, at, data, source)
            at += size
            source += size
            continue
        byte = data[source]
        source += 1
        out[at] = _BACKSLASH
        if byte == 9 or byte == 10 or byte == 13:
            out[at + 1] = _JSON_ESCAPES[byte]
            at += 2
            continue
        out[at + 1] = 120
        out[at + 2] = _HEX[byte >> 4]
        out[at + 3] = _HEX[byte & 0xF]
        at += 4
    return at
