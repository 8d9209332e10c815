"""A column of bytes or text as a column of JSON strings."""

from typing import Final

import numpy as np
import numpy.typing as npt

from ottla.format.arrays import PADDING, Bytes, Int64s
from ottla.kernels._jit import kernel
from ottla.kernels.text.characters import BASE64_ROOM, ESCAPED_ROOM, put_base64, put_json_text

TEXT: Final = 0  # what is valid UTF-8
BASE64: Final = 1

_QUOTE = 34
_AROUND: Final = 6  # two quotes, and what base64 rounds up


def quoted_room(size: int, count: int, style: int) -> int:
    """Bytes that `quote` needs for so many values of this size together."""
    of_byte = BASE64_ROOM if style == BASE64 else ESCAPED_ROOM
    return size * of_byte + count * _AROUND + PADDING


@kernel
def quote(
    out: Bytes, out_bounds: Int64s, data: Bytes, bounds: npt.NDArray[np.int32], style: int
) -> None:
    """Fill `out` and its bounds; 8 readable bytes follow the data."""
    at = 0
    out_bounds[0] = 0
    for row in range(bounds.size - 1):
        out[at] = _QUOTE
        if style == BASE64:
            at = put_base64(out, at + 1, data, bounds[row], bounds[row + 1])
        else:
            at = put_json_text(out, at + 1, data, bounds[row], bounds[row + 1])
        out[at] = _QUOTE
        at += 1
        out_bounds[row + 1] = at
