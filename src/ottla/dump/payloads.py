"""What a dump shows of keys, values and the values of headers: bytes in a form, or none of them."""

import os
from collections.abc import Callable
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.batch.decode import Chunk
from ottla.errors import UnsupportedError
from ottla.format.arrays import Bytes, Int32s
from ottla.format.sentinels import INT32_MAX
from ottla.kernels.bytes.siphash import KEY_BYTES
from ottla.kernels.tables import RecordBuffers
from ottla.kernels.text.characters import BASE64_ROOM, ESCAPED_ROOM, HEX_ROOM
from ottla.kernels.text.encodings import (
    DIGEST_ROOM,
    PADS_ROOM,
    QUOTES_ROOM,
    quote_hex,
    quote_utf8,
    show_base64,
    show_hex,
)
from ottla.kernels.text.render_tables import ShownPayloads
from ottla.region import PADDING

Show = Callable[[Bytes, Int32s, Bytes, Int32s, int], None]
ShowHash = Callable[[npt.NDArray[np.uint64], Bytes, Int32s, Bytes, Int32s, int], None]


class Form(NamedTuple):
    """A kernel that writes a column anew, and the room that a byte and a value take at most."""

    show: Show
    byte_room: int
    value_room: int


TEXT_BASE64: Final = Form(show_base64, BASE64_ROOM, PADS_ROOM)
TEXT_HEX: Final = Form(show_hex, HEX_ROOM, 0)
JSON_UTF8: Final = Form(quote_utf8, ESCAPED_ROOM, QUOTES_ROOM)
JSON_HEX: Final = Form(quote_hex, HEX_ROOM, QUOTES_ROOM)


def digest_form(show: ShowHash) -> Form:
    """Sizes and hashes, by a key that nobody has but this process: no guess can be checked."""
    return Form(partial(show, _secret_key()), 0, DIGEST_ROOM)


@cache
def _secret_key() -> npt.NDArray[np.uint64]:
    return np.frombuffer(os.urandom(KEY_BYTES), dtype=np.uint64).copy()


def as_stored(buffers: RecordBuffers) -> ShownPayloads:
    """The bytes themselves, which the kernel of a style gives its own form."""
    return ShownPayloads(
        buffers.key_bounds,
        buffers.key_bytes,
        buffers.value_bounds,
        buffers.value_bytes,
        buffers.header_value_bounds,
        buffers.header_value_bytes,
    )


def in_form(chunk: Chunk, form: Form) -> ShownPayloads:
    """The records of a chunk in another form."""
    buffers, records = chunk.buffers, chunk.count
    headers = int(buffers.header_bounds[records])
    return ShownPayloads(
        *_show(form, buffers.key_bounds, buffers.key_bytes, records),
        *_show(form, buffers.value_bounds, buffers.value_bytes, records),
        *_show(form, buffers.header_value_bounds, buffers.header_value_bytes, headers),
    )


def _show(form: Form, bounds: Int32s, data: Bytes, count: int) -> tuple[Int32s, Bytes]:
    size = int(bounds[count]) - int(bounds[0])
    room = size * form.byte_room + count * form.value_room
    if room > INT32_MAX:
        raise UnsupportedError(f"a record of {size} bytes is too large for another form of bytes")
    out = np.empty(room + PADDING, dtype=np.uint8)
    out_bounds = np.zeros(count + 1, dtype=np.int32)
    form.show(out, out_bounds, data, bounds, count)
    return out_bounds, out
