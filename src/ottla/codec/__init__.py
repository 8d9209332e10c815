"""Compressed bytes to bytes, and back: Kafka's framing around the blocks of libraries.

Each codec is a module with three functions. `open_stream` rejects what the constructor of
Kafka's stream rejects, `decompress` what reading the stream to its end rejects, `compress`
writes the stream that Kafka would.

Reading to the end gives Kafka's verdict although Kafka reads lazily: after the last record it
asks for one byte more, so an error in the bytes behind it and a byte too many both reject the
batch. Only a batch of magic 2 with a count of zero is opened and never read.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from ottla.codec import gzip, lz4, snappy, zstd
from ottla.codec.arena import MAX_ROOM, Arena, Measure, Output
from ottla.codec.errors import CodecError, OutputTooLarge
from ottla.errors import OptionError
from ottla.format.attributes import CODEC_NAMES, Codec
from ottla.kernels.tables import Int64s
from ottla.region import Bytes

__all__ = [
    "Arena",
    "CodecError",
    "Opened",
    "OutputTooLarge",
    "compress",
    "decompress_into",
    "decompress_window",
    "open_stream",
    "resolve_level",
]

STORED_AT_ONCE: Final = 32 << 20  # what expands to more is measured before it is stored
ENOUGH: Final = 64 << 20  # a window that has expanded to this much is handed back


Decompress = Callable[[memoryview, int, Output], None]


class Stream(NamedTuple):
    """What one codec knows how to do."""

    open_stream: Callable[[memoryview, int], None]
    decompress: Decompress
    compress: Callable[[memoryview, int, int], bytes]


class Levels(NamedTuple):
    """The levels Kafka's CompressionType allows."""

    minimum: int
    maximum: int
    default: int


STREAMS: Final[dict[int, Stream]] = {
    Codec.GZIP: Stream(gzip.open_stream, gzip.decompress, gzip.compress),
    Codec.SNAPPY: Stream(snappy.open_stream, snappy.decompress, snappy.compress),
    Codec.LZ4: Stream(lz4.open_stream, lz4.decompress, lz4.compress),
    Codec.ZSTD: Stream(zstd.open_stream, zstd.decompress, zstd.compress),
}
LEVELS: Final[dict[int, Levels]] = {
    Codec.GZIP: Levels(1, 9, -1),
    Codec.LZ4: Levels(1, 17, 9),
    Codec.ZSTD: Levels(-131072, 22, 3),
}


class Opened(NamedTuple):
    """The first rows of a window, decompressed: row r is arena[starts[r]:stops[r]].

    A row with codec none or with an error has nothing there: its start equals its stop.
    """

    starts: Int64s
    stops: Int64s
    errors: dict[int, CodecError]


def decompress_window(
    codecs: Int64s,
    magics: Int64s,
    starts: Int64s,
    stops: Int64s,
    data: Bytes,
    arena: Arena,
    limit: int,
) -> Opened:
    """Decompress the payloads data[starts[r]:stops[r]], row after row, into the arena.

    When the arena holds ENOUGH, the rows after that are left out of the answer: the caller takes
    the records of the rows done, empties the arena and calls again with the rest. A small window
    may expand to anything, and only a single batch may expand to `limit`.
    """
    view = data.data
    found = np.zeros((2, len(codecs)), dtype=np.int64)
    errors: dict[int, CodecError] = {}
    done = len(codecs)
    columns = zip(*(column.tolist() for column in (codecs, magics, starts, stops)), strict=True)
    for row, (codec, magic, start, stop) in enumerate(columns):
        if codec == Codec.NONE:
            continue
        if arena.at >= ENOUGH:
            done = row
            break
        found[0, row] = arena.at
        try:
            decompress_into(codec, magic, view[start:stop], arena, limit)
        except CodecError as error:
            errors[row] = error
        found[1, row] = arena.at
    return Opened(found[0, :done], found[1, :done], errors)


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


def resolve_level(codec: int, level: int | None) -> int:
    """Return the level to use, the codec's default for None.

    >>> resolve_level(Codec.ZSTD, None), resolve_level(Codec.LZ4, 17)
    (3, 17)
    """
    levels = LEVELS.get(codec)
    if levels is None:
        if level is not None:
            raise OptionError(f"codec {CODEC_NAMES[codec]} has no levels: leave the level out")
        return 0
    if level is None or level == levels.default:
        return levels.default
    if not levels.minimum <= level <= levels.maximum:
        raise OptionError(
            f"level {level} of codec {CODEC_NAMES[codec]} is not in"
            f" {levels.minimum}..{levels.maximum} (default {levels.default})"
        )
    return level
