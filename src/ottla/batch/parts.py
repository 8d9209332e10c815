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
    left_out: list[Broken] = []
    for chunk, broken in decoder.decode(region, batches):
        if chunk is None:
            left_out = broken
            break
        # The decoder stopped inside this batch, or before it.
        last = int(np.searchsorted(batches.position, chunk.pieces[-1][0].position[-1]))
        counts = _record_counts(chunk, batches)
        begun = bool(counts[last] > 0 or any(bad.row == last for bad in broken))
        known = _base_known(decoder, batches)
        yield _part(batches, slice(first, last + begun), known, counts, resumed, chunk, broken)
        first, resumed = last, begun
    rest = decoder.flush()
    counts = np.zeros_like(batches.position) if rest is None else _record_counts(rest, batches)
    known = _base_known(decoder, batches)
    yield _part(batches, slice(first, counts.size), known, counts, resumed, rest, left_out)


def _record_counts(chunk: Chunk, batches: Batches) -> Int64s:
    counts = np.zeros_like(batches.position)
    for piece, rows in chunk.pieces:
        counts[np.searchsorted(batches.position, piece.position)] += rows
    return counts


def _part(
    batches: Batches,
    rows: slice,
    known: Bools,
    counts: Int64s,
    resumed: bool,
    chunk: Chunk | None,
    broken: list[Broken],
) -> Part:
    moved = [Broken(bad.row - rows.start, bad.index, bad.violation) for bad in broken]
    return Part(take_batches(batches, rows), known[rows], counts[rows], resumed, chunk, moved)


def _base_known(decoder: Decoder, batches: Batches) -> Bools:
    known: Bools = _states_base(batches) | (decoder.payloads.opened != 0)
    return known


def _states_base(batches: Batches) -> Bools:
    stated: Bools = (batches.magic >= 2) | (codec_ids(batches) == 0)
    return stated
