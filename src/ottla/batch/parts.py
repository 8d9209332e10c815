"""The batches of a window in file order, each with its records and with what is wrong about it.

`Decoder` gives records and violations as they come; here they are put back beside their batches,
one chunk at a time, so that memory does not grow with what a window expands to.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ottla.batch.attributes import codec_ids
from ottla.batch.decode import Broken, Chunk, Decoder, describe
from ottla.format.arrays import Bools
from ottla.format.sentinels import INT32_MAX
from ottla.kernels.records.validate import validate_batches
from ottla.kernels.tables import Batches, Int64s, allocate_payloads, take_batches
from ottla.region import Region


@dataclass(frozen=True, slots=True)
class Part:
    """Some batches, how many records of the chunk each has, and what is wrong.

    `resumed`: the first batch was begun by the part before. Rows of `broken` count from the first
    batch. `base_known` tells where the base offset is not only a wrapper's secret.
    """

    batches: Batches
    base_known: Bools
    record_counts: Int64s
    resumed: bool
    chunk: Chunk | None
    broken: list[Broken]


def read_headers(region: Region, batches: Batches, *, check_crcs: bool) -> Part:
    """Batches without their records; nothing is decompressed."""
    payloads = allocate_payloads(batches.position.size)
    # Whether records would be too many to hold is for those who open them.
    validate_batches(region.data, region.position, batches, payloads, check_crcs, INT32_MAX)
    broken = [
        describe(region, batches, payloads, row, None)
        for row in np.flatnonzero(payloads.status).tolist()
    ]
    known = _states_base(batches)
    return Part(batches, known, np.zeros(known.size, dtype=np.int64), False, None, broken)


def read_parts(decoder: Decoder, region: Region, batches: Batches) -> Iterator[Part]:
    """Batches with their records; the decoder keeps nothing of the window afterwards."""
    first, resumed = 0, False
    for chunk in decoder.decode(region, batches):
        # The decoder stopped inside this batch, or before it.
        last = int(np.searchsorted(batches.position, chunk.pieces[-1][0].position[-1]))
        counts = _record_counts(chunk, batches)
        begun = bool(counts[last] > 0 or any(broken.row == last for broken in decoder.broken))
        yield _part(decoder, batches, slice(first, last + begun), counts, resumed, chunk)
        first, resumed = last, begun
    rest = decoder.flush()
    counts = np.zeros_like(batches.position) if rest is None else _record_counts(rest, batches)
    yield _part(decoder, batches, slice(first, counts.size), counts, resumed, rest)


def _record_counts(chunk: Chunk, batches: Batches) -> Int64s:
    counts = np.zeros_like(batches.position)
    for piece, rows in chunk.pieces:
        counts[np.searchsorted(batches.position, piece.position)] += rows
    return counts


def _part(
    decoder: Decoder,
    batches: Batches,
    rows: slice,
    counts: Int64s,
    resumed: bool,
    chunk: Chunk | None,
) -> Part:
    known = _states_base(batches) | (decoder.payloads.opened != 0)
    broken = [
        Broken(broken.row - rows.start, broken.index, broken.violation) for broken in decoder.broken
    ]
    decoder.broken.clear()
    return Part(take_batches(batches, rows), known[rows], counts[rows], resumed, chunk, broken)


def _states_base(batches: Batches) -> Bools:
    stated: Bools = (batches.magic >= 2) | (codec_ids(batches) == 0)
    return stated
