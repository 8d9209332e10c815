"""The batches of a window within bounds; one that reaches over a bound is written anew without
what lies beyond it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.attributes import add_sequence, has_delete_horizon
from ottla.batch.decode import Decoder
from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.batch.rebuild import RemainingRecords, rebuild, rebuild_empty
from ottla.batch.records import decode_whole
from ottla.errors import require_sound
from ottla.format.arrays import Bools
from ottla.format.sentinels import INT64_MAX, NO_OFFSET, NO_SEQUENCE, NO_TIMESTAMP
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.records.scan import scan
from ottla.kernels.tables import Batches, Int64s, Wanted, allocate_batches, take_batches
from ottla.log.read.bounds import Bounds
from ottla.region import Region, padded

_ALL: Final = Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS | Wanted.CONTROL
_SMALLEST_BATCH: Final = 26


class Trimmed(NamedTuple):
    """Some batches of a window, in order; whether they are as they were."""

    region: Region
    batches: Batches
    are_copies: bool


def trim(
    region: Region, batches: Batches, bounds: Bounds, max_batch_bytes: int
) -> Iterator[Trimmed]:
    """The batches with offsets within the bounds, and of those only such offsets."""
    start = 0 if bounds.start is None else bounds.start
    stop = INT64_MAX if bounds.stop is None else bounds.stop
    first = _least_offsets(batches)
    inside = (batches.last_offset >= start) & (first < stop)
    crossing = inside & ((first < start) | (batches.last_offset >= stop))
    if inside.all() and not crossing.any():
        yield Trimmed(region, batches, True)
        return
    begin = 0
    for row in [*np.flatnonzero(crossing).tolist(), batches.position.size]:
        whole = _take(batches, inside, begin, row)
        if whole.position.size:
            yield Trimmed(region, whole, True)
        if row < batches.position.size:
            one = take_batches(batches, slice(row, row + 1))
            yield from _cut(region, one, (start, stop), max_batch_bytes)
        begin = row + 1


def _take(batches: Batches, chosen: Bools, begin: int, stop: int) -> Batches:
    return take_batches(take_batches(batches, slice(begin, stop)), chosen[begin:stop])


def _least_offsets(batches: Batches) -> Int64s:
    """Where batches may begin: a compressed v0 or v1 message says only where it ends."""
    before = np.concatenate([[0], batches.last_offset[:-1] + 1])
    return np.where(batches.base_offset == NO_OFFSET, before, batches.base_offset)


def _cut(
    region: Region, one: Batches, span: tuple[int, int], max_batch_bytes: int
) -> Iterator[Trimmed]:
    """What is left of a batch; nothing of an old format that has no record within the bounds."""
    decoder = Decoder(_ALL, max_batch_bytes=max_batch_bytes)
    _, (records, _), broken = decode_whole(decoder, region, one)
    require_sound(bad.violation for bad in broken)
    kept = np.flatnonzero((records.offset >= span[0]) & (records.offset < span[1]))
    is_current = bool(one.magic[0] == CURRENT_MAGIC)
    if kept.size == records.offset.size and not is_current:
        yield Trimmed(region, one, True)
    elif kept.size:
        table = _narrow(one, *span)
        horizon = np.where(has_delete_horizon(one), one.base_timestamp, NO_TIMESTAMP)
        bounds = np.array([0, kept.size], dtype=np.int64)
        data = rebuild(RemainingRecords(table, records, kept, bounds, horizon)).data
        yield _anew(data.data, region.path)
    elif is_current:
        yield _anew(rebuild_empty(_narrow(one, *span), 0), region.path)


def _anew(data: bytes | memoryview, path: str) -> Trimmed:
    region, batches = scanned(data, path)
    compute_crcs(region.data, 0, batches)  # whoever is next compares them
    return Trimmed(region, batches, False)


def _narrow(batches: Batches, start: int, stop: int) -> Batches:
    """Headers that claim no offset outside; the sequences of the rest stay theirs."""
    is_current = batches.magic == CURRENT_MAGIC
    first = np.where(is_current, np.maximum(batches.base_offset, start), batches.base_offset)
    last = np.minimum(batches.last_offset, stop - 1)
    sequences = np.where(
        batches.base_sequence == NO_SEQUENCE,
        NO_SEQUENCE,
        add_sequence(batches.base_sequence, first - batches.base_offset),
    )
    return batches._replace(
        base_offset=first,
        last_offset=last,
        last_offset_delta=last - first,
        base_sequence=sequences,
    )


def scanned(data: bytes | memoryview, path: str) -> tuple[Region, Batches]:
    """Encoded batches as a region with their table."""
    held = padded(data)
    table = allocate_batches(len(data) // _SMALLEST_BATCH)
    rows, _, _, _ = scan(held, 0, len(data), 0, table)
    return Region(held, len(data), path, 0), take_batches(table, slice(0, rows))
