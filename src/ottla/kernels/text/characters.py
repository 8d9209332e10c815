"""Numbers and bytes as characters, for the lines that commands print.

Every function appends at `at` and returns where it stopped. The caller made room: a number takes at
most NUMBER_ROOM bytes, a byte at most ESCAPED_ROOM, and writes may overshoot by WIDE.
"""

import string
from typing import Final

import numpy as np
import numpy.typing as npt

from ottla.format.arrays import Bytes
from ottla.kernels._jit import called, inlined
from ottla.kernels.bytes.ints import read_u64
from ottla.kernels.bytes.memory import WIDE, copy_32, copy_wide, load_u64, store_u64

NUMBER_ROOM: Final = 20  # -9223372036854775808
ESCAPED_ROOM: Final = 6  # of a byte: \\u001f
HEX_ROOM: Final = 2
BASE64_ROOM: Final = 2  # of a byte; up to 4 more for what is rounded up

_MINUS = 45
_ZERO = 48
_BACKSLASH = 92
_PAD = 61
_LETTER_U = 117
_LETTER_X = 120

_HUNDRED = np.uint64(100)
_TEN_THOUSAND = np.uint64(10_000)
_EIGHT_DIGITS = np.uint64(100_000_000)
_ZEROS = np.uint64(0x3030303030303030)
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


HEX_DIGITS = _characters("0123456789abcdef")
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


@inlined
def eight_digits(number: np.uint64) -> np.uint64:
    """The digits of a number below 10^8, with leading zeros, the first in the lowest byte.

    Halves, then quarters, then digits are divided side by side in one word.
    """
    top = number // _TEN_THOUSAND
    halves = top | ((number - top * _TEN_THOUSAND) << np.uint64(32))
    high = ((halves * np.uint64(10486)) >> np.uint64(20)) & np.uint64(0x0000007F0000007F)
    quarters = high | ((halves - high * _HUNDRED) << np.uint64(16))
    tens = ((quarters * np.uint64(103)) >> np.uint64(10)) & np.uint64(0x000F000F000F000F)
    digits = tens | ((quarters - tens * np.uint64(10)) << np.uint64(8))
    return digits | _ZEROS


@inlined
def count_digits(number: np.uint64) -> int:
    """Of a number below 10^8."""
    if number < _TEN_THOUSAND:
        if number < _HUNDRED:
            return 1 if number < np.uint64(10) else 2
        return 3 if number < np.uint64(1000) else 4
    if number < np.uint64(1_000_000):
        return 5 if number < np.uint64(100_000) else 6
    return 7 if number < np.uint64(10_000_000) else 8


@inlined
def put_small(out: Bytes, at: int, number: np.uint64) -> int:
    """Append a number below 10^8."""
    count = count_digits(number)
    store_u64(out, at, eight_digits(number) >> np.uint64(64 - 8 * count))
    return at + count


@inlined
def put_int_inlined(out: Bytes, at: int, value: int | np.int64) -> int:
    """The body of `put_int`, for the lines of records: a call takes a fifth of their time."""
    rest = np.uint64(value)
    if value < 0:
        out[at] = _MINUS
        at += 1
        rest = ~rest + np.uint64(1)
    if rest < _EIGHT_DIGITS:
        return put_small(out, at, rest)
    above = rest // _EIGHT_DIGITS
    if above < _EIGHT_DIGITS:
        at = put_small(out, at, above)
    else:
        at = put_small(out, at, above // _EIGHT_DIGITS)
        store_u64(out, at, eight_digits(above % _EIGHT_DIGITS))
        at += 8
    store_u64(out, at, eight_digits(rest % _EIGHT_DIGITS))
    return at + 8


@called
def put_int(out: Bytes, at: int, value: np.int64) -> int:
    """Append a decimal number."""
    return put_int_inlined(out, at, value)


@called
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


@called
def put_hex(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    """Append two digits for each byte."""
    for source in range(start, stop):
        out[at] = HEX_DIGITS[data[source] >> 4]
        out[at + 1] = HEX_DIGITS[data[source] & 0xF]
        at += HEX_ROOM
    return at


@inlined
def put_json_escape(out: Bytes, at: int, letter: int, byte: int) -> int:
    """Append what JSON writes for a character that must not stand for itself."""
    out[at] = _BACKSLASH
    out[at + 1] = letter
    at += 2
    if letter == _LETTER_U:
        out[at] = _ZERO
        out[at + 1] = _ZERO
        out[at + 2] = HEX_DIGITS[byte >> 4]
        out[at + 3] = HEX_DIGITS[byte & 0xF]
        at += 4
    return at


@called
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
        at = put_json_escape(out, at, letter, byte)
    return at


@inlined
def not_plain(word: np.uint64) -> np.uint64:
    """The high bits of bytes that are not printable ASCII."""
    below_space = ~((word | _HIGH_BITS) - _SPACES)
    found: np.uint64 = (word | below_space | ((word & ~_HIGH_BITS) + _ONES)) & _HIGH_BITS
    return found


@inlined
def is_plain(word: np.uint64) -> bool:
    """Whether all eight bytes are printable ASCII."""
    return bool(not_plain(word) == 0)


@inlined
def is_plain_wide(data: Bytes, at: int) -> bool:
    """Whether the WIDE bytes from `at` on all are."""
    first = not_plain(load_u64(data, at)) | not_plain(load_u64(data, at + 8))
    second = not_plain(load_u64(data, at + 16)) | not_plain(load_u64(data, at + 24))
    return bool(first | second == 0)


@inlined
def load_or_spaces(data: Bytes, at: int, count: int) -> np.uint64:
    """The first 1 to 8 bytes from `at` on as a word, spaces in place of the others."""
    above = np.uint64(8 * (8 - count))
    kept = ~np.uint64(0) >> above
    word: np.uint64 = (load_u64(data, at) & kept) | (_SPACES & ~kept)
    return word


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


@called
def put_readable(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    r"""Append bytes as text on one line: controls and what is not UTF-8 become \n or \x1b.

    A terminal must not obey what a stranger wrote into a record.
    """
    source = start
    while source < stop:
        while source + WIDE <= stop and is_plain_wide(data, source):
            copy_32(out, at, data, source)
            source += WIDE
            at += WIDE
        if source == stop:
            break
        left = min(8, stop - source)
        word = load_or_spaces(data, source, left)
        if is_plain(word):
            store_u64(out, at, word)
            source += left
            at += left
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
        out[at + 1] = _LETTER_X
        out[at + 2] = HEX_DIGITS[byte >> 4]
        out[at + 3] = HEX_DIGITS[byte & 0xF]
        at += 4
    return at


@called
def put_json_readable(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    r"""Append any bytes as the inside of a JSON string: text, and \xff for what is not UTF-8."""
    source = start
    while source < stop:
        byte = data[source]
        size = printable_size(data, source, stop)
        if byte < 0x80:
            letter = _JSON_ESCAPES[byte]
            if letter != 0:
                at = put_json_escape(out, at, letter, byte)
                source += 1
                continue
        if size > 0:
            copy_32(out, at, data, source)
            at += size
            source += size
            continue
        source += 1
        if byte == 0xC2 and source < stop and data[source] & 0xC0 == 0x80:
            at = put_json_escape(out, at, _LETTER_U, data[source])  # U+0080 to U+009F
            source += 1
            continue
        out[at] = _BACKSLASH
        out[at + 1] = _BACKSLASH
        out[at + 2] = _LETTER_X
        out[at + 3] = HEX_DIGITS[byte >> 4]
        out[at + 4] = HEX_DIGITS[byte & 0xF]
        at += 5
    return at
