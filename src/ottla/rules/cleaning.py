"""A round of cleaning on bytes: windows of a log in, the bytes that stay out.

The decisions are those of `ottla.rules.compaction`; here they are applied.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.batch.rebuild import rebuild, rebuild_empty
from ottla.batch.records import Decoded, decode_whole, unpack_bits
from ottla.errors import CorruptLogError
from ottla.kernels import gather
from ottla.kernels.producers import Markers
from ottla.kernels.tables import Batches, Int64s, RecordBuffers
from ottla.region import Region
from ottla.rules.compaction import Cleaner, Entries, Judged, KeyOffsets, Outcome, learn

_ALL: Final = gather.KEYS | gather.VALUES | gather.HEADERS | gather.CONTROL


class Cleaned(NamedTuple):
    """What stays of a window, and how it was judged."""

    data: bytes
    judged: Judged


def make_decoder(max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> Decoder:
    """A decoder that gives what cleaning needs; Kafka's cleaner checks no CRCs either."""
    return Decoder(_ALL, check_crcs=False, max_batch_bytes=max_batch_bytes)


def decode_window(decoder: Decoder, region: Region, batches: Batches) -> Decoded:
    """All records of a window; a broken batch raises, because dropping it would lose data."""
    decoded = decode_whole(decoder, region, batches)
    if decoder.broken:
        raise CorruptLogError(decoder.broken[0].violation)
    return decoded


def learn_window(
    offsets: KeyOffsets,
    decoder: Decoder,
    region: Region,
    batches: Batches,
    aborted: Entries,
    first_dirty_offset: int,
) -> None:
    """The first pass: take the keys of a window into the map."""
    records, rows = decode_window(decoder, region, batches)
    has_key = unpack_bits(records.key_valid, records.offset.size)
    learn(offsets, batches, rows, records, has_key, aborted, first_dirty_offset)


def clean_window(
    cleaner: Cleaner,
    decoder: Decoder,
    region: Region,
    batches: Batches,
    markers: Markers,
    *,
    keeps_legacy_tombstones: bool = True,
) -> Cleaned:
    """The second pass: judge a window and write what stays of it."""
    records, rows = decode_window(decoder, region, batches)
    judged = cleaner.judge(
        batches, markers, rows, records, keeps_legacy_tombstones=keeps_legacy_tombstones
    )
    parts = _write(region, batches, records, np.cumsum(rows) - rows, rows, judged)
    return Cleaned(b"".join(parts), judged)


def _write(
    region: Region,
    batches: Batches,
    records: RecordBuffers,
    first: Int64s,
    rows: Int64s,
    judged: Judged,
) -> Iterator[bytes | memoryview]:
    at = 0
    outcomes = judged.outcome.tolist()
    while at < len(outcomes):
        outcome = outcomes[at]
        if outcome == Outcome.COPIED:
            stop = at + 1
            while stop < len(outcomes) and outcomes[stop] == Outcome.COPIED:
                stop += 1
            yield from _copied(region, batches, at, stop)
            at = stop
            continue
        if outcome == Outcome.REBUILT:
            start = int(first[at])
            kept = start + np.flatnonzero(judged.keep[start : start + int(rows[at])])
            yield rebuild(batches, at, records, kept, int(judged.delete_horizon[at]))
        elif outcome == Outcome.EMPTIED:
            yield rebuild_empty(batches, at)
        at += 1


def _copied(region: Region, batches: Batches, first: int, stop: int) -> Iterator[memoryview]:
    """Neighbours in one piece; where bytes between batches were skipped, in several."""
    begin = int(batches.position[first])
    end = begin
    for position, size in zip(
        batches.position[first:stop].tolist(), batches.size[first:stop].tolist(), strict=True
    ):
        if position != end:
            yield region.data[begin - region.position : end - region.position].data
            begin = position
        end = position + size
    yield region.data[begin - region.position : end - region.position].data
