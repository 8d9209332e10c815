"""Encode again what is left of batches, under the headers that they had.

As MemoryRecords.buildRetainedRecordsInto: offsets, sequences, leader epoch, codec, magic and flags
stay; count, timestamps and CRC follow from the records. The codec's default level is used.
"""

from typing import NamedTuple

import numpy as np

from ottla.batch.attributes import codec_ids, timestamp_types
from ottla.batch.encode import Encoded, encode, encode_empty, refuse
from ottla.batch.memory import allocate_from_pool
from ottla.batch.new_batch import CURRENT_MAGIC, NewBatch
from ottla.batch.records import take_records
from ottla.batch.rows import frozen
from ottla.codec import compress, resolve_level
from ottla.format.attributes import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Codec,
    TimestampType,
)
from ottla.format.layout import BATCH_OVERHEAD
from ottla.format.sentinels import NO_TIMESTAMP
from ottla.kernels.records.v2_write import measure_v2, seal_v2, write_payloads_v2, write_v2
from ottla.kernels.tables import Batches, Int64s, RecordBuffers, take_batches
from ottla.region import PADDING, Bytes

_KEPT_BITS = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL


class RemainingRecords(NamedTuple):
    """What is left of some batches: of the chosen rows, bounds[b] to bounds[b + 1] are of batch b.

    Each has at least one. `delete_horizon` is NO_TIMESTAMP where there is none.
    """

    batches: Batches
    records: RecordBuffers
    chosen: Int64s
    bounds: Int64s
    delete_horizon: Int64s


def rebuild(remains: RemainingRecords) -> Encoded:
    """The batches one after another."""
    if (remains.batches.magic < CURRENT_MAGIC).any():
        return _rebuild_one_by_one(remains)
    records, chosen, bounds = remains.records, remains.chosen, remains.bounds
    table = take_batches(remains.batches, np.arange(remains.batches.position.size))
    has_horizon = remains.delete_horizon != NO_TIMESTAMP
    table.attributes[:] = (table.attributes & _KEPT_BITS) | (has_horizon * DELETE_HORIZON)
    first = records.timestamp[chosen[bounds[:-1]]]
    table.base_timestamp[:] = np.where(has_horizon, remains.delete_horizon, first)
    return encode_under(table, records, chosen, bounds, level=None)


def encode_under(
    table: Batches, records: RecordBuffers, chosen: Int64s, bounds: Int64s, level: int | None
) -> Encoded:
    """Batches of magic 2 under the headers of a table, which is filled in; no rows are all rows.

    Sizes, counts and CRCs follow from the records, and so do largest timestamps, but append time.
    """
    records = frozen(records)
    last_offset, max_timestamp = table.last_offset.copy(), table.max_timestamp.copy()
    sizes = np.empty(int(bounds[-1]), dtype=np.int64)
    refuse(measure_v2(records, chosen, bounds, table, sizes), records)
    # The last sequence follows from the last offset, and append time is nobody's to change.
    table.last_offset[:] = last_offset
    append_time = table.attributes & LOG_APPEND_TIME != 0
    table.max_timestamp[append_time] = max_timestamp[append_time]
    out = _write(records, chosen, bounds, table, sizes, level)
    return Encoded(out[: out.size - PADDING], table)


def _write(
    records: RecordBuffers,
    chosen: Int64s,
    bounds: Int64s,
    table: Batches,
    sizes: Int64s,
    level: int | None,
) -> Bytes:
    """The batches, compressed or not; fills positions."""
    codecs = codec_ids(table).tolist()
    table.position[:] = np.cumsum(table.size) - table.size
    out = allocate_from_pool(int(table.size.sum()) + PADDING)
    if not any(codecs):
        write_v2(records, chosen, bounds, table, sizes, out)
        return out
    starts, ends = table.position + BATCH_OVERHEAD, table.position + table.size
    write_payloads_v2(records, chosen, bounds, table, sizes, starts, out)
    view = out.data
    payloads = [
        compress(codec, CURRENT_MAGIC, view[start:end], level=resolve_level(codec, level))
        if codec
        else view[start:end]
        for codec, start, end in zip(codecs, starts.tolist(), ends.tolist(), strict=True)
    ]
    table.size[:] = [BATCH_OVERHEAD + len(payload) for payload in payloads]
    table.position[:] = np.cumsum(table.size) - table.size
    packed = allocate_from_pool(int(table.size.sum()) + PADDING)
    into = packed.data
    for start, payload in zip((table.position + BATCH_OVERHEAD).tolist(), payloads, strict=True):
        into[start : start + len(payload)] = payload
    seal_v2(packed, table)
    return packed


def _rebuild_one_by_one(remains: RemainingRecords) -> Encoded:
    """Old formats, alone or among others."""
    parts, sizes = [], []
    for row in range(remains.batches.position.size):
        kept = remains.chosen[remains.bounds[row] : remains.bounds[row + 1]]
        new = header_of(remains.batches, row, int(remains.delete_horizon[row]))
        parts.append(encode(take_records(remains.records, kept), new))
        sizes.append(len(parts[-1]))
    table = take_batches(remains.batches, np.arange(len(parts)))
    table.size[:] = sizes
    table.position[:] = np.cumsum(table.size) - table.size
    return Encoded(np.frombuffer(b"".join(parts), dtype=np.uint8), table)


def header_of(batches: Batches, row: int, delete_horizon: int = NO_TIMESTAMP) -> NewBatch:
    """What a writer would choose to get the header of this batch again."""
    batches, row = take_batches(batches, slice(row, row + 1)), 0
    magic = int(batches.magic[row])
    timestamp_type = int(timestamp_types(batches)[row])
    append_time = timestamp_type == TimestampType.LOG_APPEND_TIME
    attributes = int(batches.attributes[row])
    legacy = magic < CURRENT_MAGIC
    return NewBatch(
        magic=magic,
        codec=int(codec_ids(batches)[row]),
        timestamp_type=timestamp_type,
        log_append_time=int(batches.max_timestamp[row]) if append_time else NO_TIMESTAMP,
        base_offset=None if legacy else int(batches.base_offset[row]),
        partition_leader_epoch=int(batches.partition_leader_epoch[row]),
        producer_id=int(batches.producer_id[row]),
        producer_epoch=int(batches.producer_epoch[row]),
        base_sequence=int(batches.base_sequence[row]),
        is_transactional=not legacy and attributes & TRANSACTIONAL != 0,
        is_control=not legacy and attributes & CONTROL != 0,
        delete_horizon=delete_horizon,
        last_offset_delta=None if legacy else int(batches.last_offset_delta[row]),
    )


def rebuild_empty(batches: Batches, row: int) -> bytes:
    """The batch without records, which keeps a producer's last sequence in the log."""
    new = header_of(batches, row)
    return encode_empty(
        NewBatch(
            timestamp_type=new.timestamp_type,
            base_offset=new.base_offset,
            partition_leader_epoch=new.partition_leader_epoch,
            producer_id=new.producer_id,
            producer_epoch=new.producer_epoch,
            base_sequence=new.base_sequence,
            is_transactional=new.is_transactional,
            is_control=new.is_control,
            codec=Codec.NONE,
            last_offset_delta=new.last_offset_delta,
            max_timestamp=int(batches.max_timestamp[row]),
        )
    )
