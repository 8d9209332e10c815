"""Encode again what is left of batches, under the headers that they had.

As MemoryRecords.buildRetainedRecordsInto: offsets, sequences, leader epoch, codec, magic and flags
stay; count, timestamps and CRC follow from the records. The codec's default level is used.
"""

from ottla.batch.attributes import codec_ids, timestamp_types
from ottla.batch.encode import encode, encode_empty
from ottla.batch.new_batch import NewBatch
from ottla.batch.records import take_records
from ottla.format.attributes import CONTROL, TRANSACTIONAL, Codec, TimestampType
from ottla.format.sentinels import NO_TIMESTAMP
from ottla.kernels.tables import Batches, Int64s, RecordBuffers, take_batches


def header_of(batches: Batches, row: int, delete_horizon: int = NO_TIMESTAMP) -> NewBatch:
    """What a writer would choose to get the header of this batch again."""
    batches, row = take_batches(batches, slice(row, row + 1)), 0
    magic = int(batches.magic[row])
    timestamp_type = int(timestamp_types(batches)[row])
    append_time = timestamp_type == TimestampType.LOG_APPEND_TIME
    attributes = int(batches.attributes[row])
    legacy = magic < 2
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


def rebuild(
    batches: Batches, row: int, records: RecordBuffers, kept: Int64s, delete_horizon: int
) -> bytes:
    """The batch with only the records in rows `kept`; at least one."""
    return encode(take_records(records, kept), header_of(batches, row, delete_horizon))


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
