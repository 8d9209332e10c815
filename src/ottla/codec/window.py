"""Many streams at once: a call for each costs more than opening a small one.

Streams as Kafka usually writes them are opened many at a time, where a codec can; what is unusual
or broken is opened on its own, so that the verdict is the same.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.codec import gzip, lz4, snappy, zstd
from ottla.codec.arena import Arena
from ottla.codec.errors import CodecError
from ottla.codec.rows import ENOUGH, Rows
from ottla.codec.streams import STORED_AT_ONCE, decompress_into
from ottla.format.attributes import Codec
from ottla.kernels.tables import Int64s
from ottla.region import Bytes

# Decompress from a row on, as far as rows are usual; return the first row not done.
TOGETHER: Final[dict[int, Callable[[Rows, int, Arena, int], int]]] = {
    Codec.GZIP: gzip.decompress_rows,
    Codec.SNAPPY: snappy.decompress_rows,
    Codec.LZ4: lz4.decompress_rows,
    Codec.ZSTD: zstd.decompress_rows,
}


class DecompressedRows(NamedTuple):
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
) -> DecompressedRows:
    """Decompress the payloads data[starts[r]:stops[r]], row after row, into the arena.

    When the arena holds ENOUGH, the rows after that are left out of the answer: the caller takes
    the records of the rows done, empties the arena and calls again with the rest. A small window
    may expand to anything, and only a single batch may expand to `limit`.
    """
    rows = Rows(data, codecs, magics, starts, stops)
    errors: dict[int, CodecError] = {}
    kinds = codecs.tolist()
    row = 0
    while row < codecs.size and (kinds[row] == Codec.NONE or arena.at < ENOUGH):
        if kinds[row] == Codec.NONE:
            row += 1
            continue
        done = TOGETHER[kinds[row]](rows, row, arena, min(limit, STORED_AT_ONCE))
        if done == row:
            _decompress_row(rows, row, arena, limit, errors)
            done += 1
        row = done
    return DecompressedRows(rows.found[0, :row], rows.found[1, :row], errors)


def _decompress_row(
    rows: Rows, row: int, arena: Arena, limit: int, errors: dict[int, CodecError]
) -> None:
    codec, magic, start, stop = (int(column[row]) for column in rows.columns)
    rows.found[0, row] = arena.at
    try:
        decompress_into(codec, magic, rows.data.data[start:stop], arena, limit)
    except CodecError as error:
        errors[row] = error
    rows.found[1, row] = arena.at
