"""Columns of bytes as they are to stand in a line, where its style has another form for them.

Each form has a kernel of its own, so that nobody waits for the others to compile. They fill `out`
and its bounds from the first `count` values; 8 readable bytes follow the data.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from ottla.format.arrays import Bytes, Int32s
from ottla.kernels._jit import inlined, kernel
from ottla.kernels.bytes.siphash import siphash
from ottla.kernels.text.characters import (
    HEX_DIGITS,
    NUMBER_ROOM,
    phrase,
    put_base64,
    put_hex,
    put_int,
    put_json_readable,
    put_phrase,
)

QUOTES_ROOM: Final = 2
PADS_ROOM: Final = 4  # what base64 rounds up
DIGEST_ROOM: Final = 96 + NUMBER_ROOM  # the words and the overshoot of a phrase too

_QUOTE = 34
_SIZE_TEXT = phrase("(")
_HASH_TEXT = phrase(" bytes hash ")
_END_TEXT = phrase(")")
_SIZE_JSON = phrase('{"size":')
_HASH_JSON = phrase(',"hash":"')
_END_JSON = phrase('"}')


@kernel
def show_base64(out: Bytes, out_bounds: Int32s, data: Bytes, bounds: Int32s, count: int) -> None:
    """Base64."""
    at = 0
    out_bounds[0] = 0
    for row in range(count):
        at = put_base64(out, at, data, bounds[row], bounds[row + 1])
        out_bounds[row + 1] = at


@kernel
def show_hex(out: Bytes, out_bounds: Int32s, data: Bytes, bounds: Int32s, count: int) -> None:
    """Two digits for each byte."""
    at = 0
    out_bounds[0] = 0
    for row in range(count):
        at = put_hex(out, at, data, bounds[row], bounds[row + 1])
        out_bounds[row + 1] = at


@kernel
def quote_hex(out: Bytes, out_bounds: Int32s, data: Bytes, bounds: Int32s, count: int) -> None:
    """The same as a JSON string."""
    at = 0
    out_bounds[0] = 0
    for row in range(count):
        out[at] = _QUOTE
        at = put_hex(out, at + 1, data, bounds[row], bounds[row + 1])
        out[at] = _QUOTE
        at += 1
        out_bounds[row + 1] = at


@kernel
def quote_utf8(out: Bytes, out_bounds: Int32s, data: Bytes, bounds: Int32s, count: int) -> None:
    """Text as a JSON string, whatever bytes there are."""
    at = 0
    out_bounds[0] = 0
    for row in range(count):
        out[at] = _QUOTE
        at = put_json_readable(out, at + 1, data, bounds[row], bounds[row + 1])
        out[at] = _QUOTE
        at += 1
        out_bounds[row + 1] = at


@inlined
def put_hash(
    out: Bytes, at: int, key: npt.NDArray[np.uint64], data: Bytes, start: int, stop: int
) -> int:
    """Append the SipHash of bytes, in sixteen digits."""
    found = siphash(key, data, start, stop)
    for digit in range(16):
        shifted = found >> np.uint64(60 - 4 * digit)
        out[at + digit] = HEX_DIGITS[np.int64(shifted & np.uint64(0xF))]
    return at + 16


@kernel
def digest_text(
    key: npt.NDArray[np.uint64],
    out: Bytes,
    out_bounds: Int32s,
    data: Bytes,
    bounds: Int32s,
    count: int,
) -> None:
    """Size and hash in words; no byte of the data is copied."""
    at = 0
    out_bounds[0] = 0
    for row in range(count):
        start = bounds[row]
        stop = bounds[row + 1]
        at = put_int(out, put_phrase(out, at, _SIZE_TEXT), np.int64(stop - start))
        at = put_hash(out, put_phrase(out, at, _HASH_TEXT), key, data, start, stop)
        at = put_phrase(out, at, _END_TEXT)
        out_bounds[row + 1] = at


@kernel
def digest_json(
    key: npt.NDArray[np.uint64],
    out: Bytes,
    out_bounds: Int32s,
    data: Bytes,
    bounds: Int32s,
    count: int,
) -> None:
    """The same as a JSON object."""
    at = 0
    out_bounds[0] = 0
    for row in range(count):
        start = bounds[row]
        stop = bounds[row + 1]
        at = put_int(out, put_phrase(out, at, _SIZE_JSON), np.int64(stop - start))
        at = put_hash(out, put_phrase(out, at, _HASH_JSON), key, data, start, stop)
        at = put_phrase(out, at, _END_JSON)
        out_bounds[row + 1] = at
