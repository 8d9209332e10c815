"""Batches of magic 2 in another codec: their records stay byte for byte, only the seal is new."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ottla.batch.attributes import codec_ids, is_control
from ottla.batch.decode import Decoder
from ottla.batch.memory import allocate_from_pool
from ottla.batch.records import GROUP_BYTES
from ottla.codec import Arena, compress, decompress_into, resolve_level
from ottla.errors import require_sound
from ottla.format.arrays import Bools
from ottla.format.attributes import CODEC_MASK, Codec
from ottla.format.layout import BATCH_OVERHEAD
from ottla.kernels.records.v2_write import seal_v2
from ottla.kernels.tables import Batches, take_batches
from ottla.region import PADDING, Bytes, Region


class Recompressed(NamedTuple):
    """Batches one after another with PADDING behind them; positions begin at 0."""

    data: Bytes
    batches: Batches
    copied: int


def recompress(
    checker: Decoder, region: Region, batches: Batches, codec: Codec, level: int | None
) -> Iterator[Recompressed]:
    """The batches of a window in a codec, piece by piece; a broken one raises.

    Control batches and those without records are copied: Kafka compresses neither. What was small
    while it was compressed may become large: a piece ends when its payloads are about GROUP_BYTES.
    """
    for _, broken in checker.decode(region, batches):
        require_sound(bad.violation for bad in broken)
    checker.flush()
    same = (codec_ids(batches) == codec) | is_control(batches) | (batches.count == 0)
    payloads: list[bytes | memoryview] = []
    first = size = 0
    for row, payload in _compress(region, batches, np.flatnonzero(~same), codec, level):
        payloads.append(payload)
        size += len(payload)
        if size >= GROUP_BYTES:
            piece = slice(first, row + 1)
            yield _seal(region, take_batches(batches, piece), same[piece], payloads, codec)
            payloads, first, size = [], row + 1, 0
    rest = slice(first, None)
    yield _seal(region, take_batches(batches, rest), same[rest], payloads, codec)


def _seal(
    region: Region,
    batches: Batches,
    same: Bools,
    payloads: Sequence[bytes | memoryview],
    codec: Codec,
) -> Recompressed:
    """Batches one after another, with new payloads for those that are not the same."""
    table = take_batches(batches, np.arange(batches.position.size))
    table.size[~same] = [BATCH_OVERHEAD + len(payload) for payload in payloads]
    table.position[:] = np.cumsum(table.size) - table.size
    table.attributes[~same] = (table.attributes[~same] & ~np.int64(CODEC_MASK)) | int(codec)
    out = allocate_from_pool(int(table.size.sum()) + PADDING)
    view, source = out.data, region.data.data
    ready = iter(payloads)
    places = zip(table.position.tolist(), table.size.tolist(), strict=True)
    origins = (batches.position - region.position).tolist()
    for (at, size), origin, copied in zip(places, origins, same.tolist(), strict=True):
        if copied:
            view[at : at + size] = source[origin : origin + size]
        else:
            view[at + BATCH_OVERHEAD : at + size] = next(ready)
    changed = take_batches(table, ~same)
    seal_v2(out, changed)
    table.crc[~same] = table.computed_crc[~same] = changed.crc
    return Recompressed(out, table, int(same.sum()))


def _compress(
    region: Region,
    batches: Batches,
    rows: np.ndarray[tuple[int], np.dtype[np.intp]],
    codec: Codec,
    level: int | None,
) -> Iterator[tuple[int, bytes | memoryview]]:
    """Some rows with their payloads in the codec."""
    chosen = resolve_level(codec, level)
    arena, source = Arena(), region.data.data
    starts = (batches.position[rows] - region.position + BATCH_OVERHEAD).tolist()
    stops = (batches.position[rows] - region.position + batches.size[rows]).tolist()
    codecs = codec_ids(batches)[rows].tolist()
    for row, start, stop, stored in zip(rows.tolist(), starts, stops, codecs, strict=True):
        raw = source[start:stop]
        if stored:
            arena.at = 0
            # What the checker could open is not too large.
            size = decompress_into(stored, 2, raw, arena, 1 << 31)
            raw = memoryview(arena.data[:size].tobytes())
        yield row, compress(codec, 2, raw, level=chosen) if codec else raw
