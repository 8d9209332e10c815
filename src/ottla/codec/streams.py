"""One stream: open it, decompress it, compress it; the codecs as a table."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from ottla.codec import gzip, lz4, snappy, zstd
from ottla.codec.arena import MAX_ROOM, Arena, Measure, Output
from ottla.codec.errors import CodecError, OutputTooLarge
from ottla.format.attributes import Codec

STORED_AT_ONCE: Final = 32 << 20  # what expands to more is measured before it is stored

Decompress = Callable[[memoryview, int, Output], None]


class Stream(NamedTuple):
    """What one codec knows how to do."""

    open_stream: Callable[[memoryview, int], None]
    decompress: Decompress
    compress_into: Callable[[memoryview, int, int, memoryview], int]


STREAMS: Final[dict[int, Stream]] = {
    Codec.GZIP: Stream(gzip.open_stream, gzip.decompress, gzip.compress_into),
    Codec.SNAPPY: Stream(snappy.open_stream, snappy.decompress, snappy.compress_into),
    Codec.LZ4: Stream(lz4.open_stream, lz4.decompress, lz4.compress_into),
    Codec.ZSTD: Stream(zstd.open_stream, zstd.decompress, zstd.compress_into),
}


def decompress_into(codec: int, magic: int, payload: memoryview, arena: Arena, limit: int) -> int:
    """Append what one payload decompresses to, and return its size; on an error append nothing."""
    decompress = STREAMS[codec].decompress
    start = arena.at
    try:
        if not _stored_at_once(
            decompress, payload, magic, Output(arena, min(limit, STORED_AT_ONCE))
        ):
            arena.truncate(start)
            arena.shrink()
            measure = Measure(limit)
            decompress(payload, magic, measure)
            arena.room(measure.size + MAX_ROOM)
            decompress(payload, magic, Output(arena, limit))
    except CodecError:
        arena.truncate(start)
        raise
    return arena.at - start


def _stored_at_once(
    decompress: Decompress, payload: memoryview, magic: int, output: Output
) -> bool:
    """Decompress, and say whether all of it came out."""
    # Not done in the caller: there the caught exception would keep the decoder's memory alive.
    try:
        decompress(payload, magic, output)
    except OutputTooLarge:
        return False
    return True


def open_stream(codec: int, magic: int, payload: memoryview) -> None:
    """Raise what Kafka raises when it opens a stream without reading from it."""
    STREAMS[codec].open_stream(payload, magic)


def compress(codec: int, magic: int, payload: memoryview, *, level: int) -> bytes:
    """Compress as Kafka's stream for that magic does; `level` comes from `resolve_level`."""
    room = np.empty(room_to_compress(len(payload), 1), dtype=np.uint8).data
    return room[: compress_into(codec, magic, payload, room, level=level)].tobytes()


def compress_into(
    codec: int, magic: int, payload: memoryview, room: memoryview, *, level: int
) -> int:
    """As `compress`, to where `room` begins; return the size."""
    return STREAMS[codec].compress_into(payload, magic, level, room)


def room_to_compress(size: int, payloads: int) -> int:
    """How much room the payloads need that have so many bytes in all, whatever is in them.

    Snappy's library asks for the most: 32 + 7/6 of a block. The rest is for heads and marks.
    """
    return size + size // 6 + 128 * payloads
