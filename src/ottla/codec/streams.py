"""One stream: open it, decompress it, compress it; the codecs as a table."""

from collections.abc import Callable
from typing import Final, NamedTuple

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
    compress: Callable[[memoryview, int, int], bytes]


STREAMS: Final[dict[int, Stream]] = {
    Codec.GZIP: Stream(gzip.open_stream, gzip.decompress, gzip.compress),
    Codec.SNAPPY: Stream(snappy.open_stream, snappy.decompress, snappy.compress),
    Codec.LZ4: Stream(lz4.open_stream, lz4.decompress, lz4.compress),
    Codec.ZSTD: Stream(zstd.open_stream, zstd.decompress, zstd.compress),
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
    return STREAMS[codec].compress(payload, magic, level)
