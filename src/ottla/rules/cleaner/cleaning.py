"""A round of cleaning on bytes: windows of a log in, the bytes that stay out.

The decisions are those of `ottla.rules.cleaner.compaction`; here they are applied.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.attributes import codec_ids
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.batch.encode import Encoded
from ottla.batch.memory import allocate_from_pool
from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.batch.rebuild import RemainingRecords, rebuild, rebuild_empty
from ottla.batch.records import (
    Reused,
    decode_sound_groups,
    decode_whole,
)
from ottla.errors import CorruptLogError, UnsupportedError
from ottla.format.attributes import Codec
from ottla.format.layout import BATCH_OVERHEAD
from ottla.kernels.cleaner.compaction import assemble
from ottla.kernels.producers.state import Markers
from ottla.kernels.records.append import mark_other_magic
from ottla.kernels.tables import Batches, Int64s, RecordBuffers, Wanted, take_batches
from ottla.region import PADDING, Bytes, Region, padded
from ottla.rules.cleaner.compaction import Cleaner, Outcome, RetainedRecords

# What stops the cleaning of one log and of no other: a broker marks its partition as uncleanable
# (LogCleaner.tryCleanFilthiestLog).
UNCLEANABLE: Final = (CorruptLogError, UnsupportedError)

_ALL: Final = Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS | Wanted.CONTROL


class Cleaned(NamedTuple):
    """What stays of a window, and what was decided of its batches."""

    written: Bytes
    retention: RetainedRecords


def make_decoder(max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> Decoder:
    """A decoder that gives what cleaning needs; it checks CRCs, which Kafka's cleaner does not."""
    return Decoder(_ALL, max_batch_bytes=max_batch_bytes, allocate=Reused())


def clean_window(
    cleaner: Cleaner,
    decoder: Decoder,
    region: Region,
    batches: Batches,
    markers: Markers,
    *,
    keeps_legacy_tombstones: bool,
) -> Cleaned:
    """The second pass: check a window and write what stays of it."""
    cleaned: list[Cleaned] = []
    for span, (records, rows) in decode_sound_groups(decoder, region, batches):
        group, its_markers = take_batches(batches, span), Markers(*(each[span] for each in markers))
        retention = cleaner.check_retention(
            group, its_markers, rows, records, keeps_legacy_tombstones=keeps_legacy_tombstones
        )
        _rebuild_mixed(region, group, retention, decoder.max_batch_bytes)
        cleaned.append(Cleaned(_write(region, group, records, rows, retention), retention))
    return cleaned[0] if len(cleaned) == 1 else _join(cleaned)


def _join(cleaned: Sequence[Cleaned]) -> Cleaned:
    """Groups as one window."""
    outcome, horizon, keep, kept, without_key, tombstones = zip(
        *(each.retention for each in cleaned), strict=True
    )
    retention = RetainedRecords(
        np.concatenate(outcome),
        np.concatenate(horizon),
        np.concatenate(keep),
        np.concatenate(kept),
        sum(without_key),
        sum(tombstones),
    )
    return Cleaned(np.concatenate([each.written for each in cleaned]), retention)


def _rebuild_mixed(
    region: Region, batches: Batches, retention: RetainedRecords, max_batch_bytes: int
) -> None:
    """Wrappers around messages of another magic are written anew, in their own (KAFKA-4298)."""
    is_wrapper = (batches.magic < CURRENT_MAGIC) & (codec_ids(batches) != Codec.NONE)
    rows = np.flatnonzero(is_wrapper & (retention.outcome == Outcome.COPIED)).tolist()
    if not rows:
        return
    decoder = Decoder(Wanted.CONTROL, check_crcs=False, max_batch_bytes=max_batch_bytes)
    for row in rows:
        alone = take_batches(batches, slice(row, row + 1))
        decode_whole(decoder, region, alone)
        differs = np.zeros(int(retention.kept[row]), dtype=np.uint8)
        mark_other_magic(decoder.arena.data, alone, decoder.payloads, differs)
        if differs.any():
            retention.outcome[row] = Outcome.REBUILT


def _write(
    region: Region,
    batches: Batches,
    records: RecordBuffers,
    rows: Int64s,
    retention: RetainedRecords,
) -> Bytes:
    """The batches that stay, in order; all that are rebuilt are rebuilt at once."""
    outcome = retention.outcome
    rebuilt = _rebuild(batches, records, rows, retention)
    emptied = [
        rebuild_empty(batches, row) for row in np.flatnonzero(outcome == Outcome.EMPTIED).tolist()
    ]
    if not emptied and not (outcome == Outcome.COPIED).any():
        return rebuilt.data
    made = np.concatenate([rebuilt.data, padded(b"".join(emptied))])
    starts = batches.position - region.position
    sizes = np.where(outcome == Outcome.DROPPED, 0, batches.size)
    starts[outcome == Outcome.REBUILT] = rebuilt.batches.position
    sizes[outcome == Outcome.REBUILT] = rebuilt.batches.size
    places = rebuilt.data.size + BATCH_OVERHEAD * np.arange(len(emptied))
    starts[outcome == Outcome.EMPTIED] = places
    sizes[outcome == Outcome.EMPTIED] = BATCH_OVERHEAD
    total = int(sizes.sum())
    out = allocate_from_pool(total + PADDING)
    from_made = (outcome == Outcome.REBUILT) | (outcome == Outcome.EMPTIED)
    assemble(region.data, made, from_made, starts, sizes, out)
    return out[:total]


def _rebuild(
    batches: Batches, records: RecordBuffers, rows: Int64s, retention: RetainedRecords
) -> Encoded:
    rebuilt = retention.outcome == Outcome.REBUILT
    keep = retention.keep if rebuilt.all() else retention.keep & np.repeat(rebuilt, rows)
    remains = RemainingRecords(
        take_batches(batches, rebuilt),
        records,
        np.flatnonzero(keep),
        np.concatenate([[0], np.cumsum(retention.kept[rebuilt])]),
        retention.delete_horizon[rebuilt],
    )
    return rebuild(remains)
