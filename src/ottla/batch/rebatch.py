"""Batches of magic 2 put together, or cut, into batches of about a size.

Only those of no producer id and no sequence are: a sequence number is one of a batch as its
producer sent it. Nor are control batches, empty ones, and those whose base timestamp is a delete
horizon.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ottla.batch.attributes import (
    codec_ids,
    has_delete_horizon,
    is_control,
    timestamp_types,
)
from ottla.batch.convert import Conversion
from ottla.batch.decode import Decoder
from ottla.batch.encode import encode_batches, split
from ottla.batch.new_batch import NewBatch
from ottla.batch.recompress import recompress
from ottla.batch.records import Decoded, decode_sound_groups, take_records
from ottla.format.arrays import Bools
from ottla.format.attributes import Codec, TimestampType
from ottla.format.sentinels import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from ottla.kernels.tables import Batches, Int64s, take_batches
from ottla.region import Region


def rebatch(
    decoder: Decoder, checker: Decoder, region: Region, batches: Batches, conversion: Conversion
) -> Iterator[tuple[bytes, int]]:
    """The batches of a window, none of magic 0 or 1, and how many of them were copied.

    They come in groups, as they are decoded: records of two groups are never joined, just as
    those of two windows.
    """
    for span, decoded in decode_sound_groups(decoder, region, batches):
        yield _rebatch_group(checker, region, take_batches(batches, span), decoded, conversion)


def _rebatch_group(
    checker: Decoder, region: Region, batches: Batches, decoded: Decoded, conversion: Conversion
) -> tuple[bytes, int]:
    records, rows = decoded
    ends = np.cumsum(rows)
    pieces: list[bytes] = []
    copied = 0
    joined = _may_join(batches) & ~has_odd_times(decoded)
    for first, stop, joins in _runs(batches, joined, conversion.codec is None):
        part = take_batches(batches, slice(first, stop))
        codec = Codec(int(codec_ids(part)[0])) if conversion.codec is None else conversion.codec
        if joins:
            begin, end = int(ends[first] - rows[first]), int(ends[stop - 1])
            run = take_records(records, np.arange(begin, end))
            new = _new_batch(part, codec, conversion)
            bounds = split(run, new, conversion.batch_bytes)
            if not _as_they_are(part, bounds, rows[first:stop], codec):
                pieces.append(encode_batches(run, bounds, new).data.tobytes())
                continue
        level = conversion.level if conversion.codec is not None else None
        for kept in recompress(checker, region, part, codec, level):
            pieces.append(kept.data[: int(kept.batches.size.sum())].tobytes())
            copied += kept.copied
    return b"".join(pieces), copied


def _runs(batches: Batches, joins: Bools, codecs_stay: bool) -> list[tuple[int, int, bool]]:
    """Rows from, to, and whether they may be joined; others stand alone with their like."""
    kinds = timestamp_types(batches)
    append_time = np.where(kinds == TimestampType.LOG_APPEND_TIME, batches.max_timestamp, 0)
    columns = [joins, kinds, append_time, batches.partition_leader_epoch]
    columns += [batches.producer_epoch]
    columns += [codec_ids(batches)] if codecs_stay else []
    differs = np.zeros(max(0, joins.size - 1), dtype=np.bool_)
    for column in columns:
        differs |= column[1:] != column[:-1]
    edges = [0, *(np.flatnonzero(differs) + 1).tolist(), joins.size]
    return [(first, stop, bool(joins[first])) for first, stop in pairwise(edges) if stop > first]


def has_odd_times(decoded: Decoded) -> Bools:
    """Of each batch whether a record is older than 1970: Kafka reads those, and writes none anew.

    MemoryRecordsBuilder.appendWithOffset refuses a negative timestamp that is not NO_TIMESTAMP.
    """
    records, rows = decoded
    seen = np.concatenate([[0], np.cumsum(records.timestamp < NO_TIMESTAMP)])
    ends = np.cumsum(rows)
    odd: Bools = seen[ends] > seen[ends - rows]
    return odd


def _may_join(batches: Batches) -> Bools:
    joins: Bools = (
        (batches.producer_id == NO_PRODUCER_ID)
        & (batches.producer_epoch >= NO_PRODUCER_EPOCH)
        & (batches.base_sequence == NO_SEQUENCE)
        & (batches.count > 0)
        & ~is_control(batches)
        & ~has_delete_horizon(batches)
    )
    return joins


def _as_they_are(part: Batches, bounds: Int64s, rows: Int64s, codec: Codec) -> bool:
    """Whether cutting anew changes nothing."""
    return bool((codec_ids(part) == codec).all()) and np.array_equal(np.diff(bounds), rows)


def _new_batch(part: Batches, codec: Codec, conversion: Conversion) -> NewBatch:
    kind = TimestampType(int(timestamp_types(part)[0]))
    append_time = kind == TimestampType.LOG_APPEND_TIME
    return NewBatch(
        codec=codec,
        level=conversion.level if conversion.codec is not None else None,
        timestamp_type=kind,
        log_append_time=int(part.max_timestamp[0]) if append_time else NO_TIMESTAMP,
        partition_leader_epoch=int(part.partition_leader_epoch[0]),
        # Of no meaning without an id, but some clients write 0 (LogValidator keeps it too).
        producer_epoch=int(part.producer_epoch[0]),
    )
