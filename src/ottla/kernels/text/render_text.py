"""A batch or record as the line that kafka-dump-log prints, and header values (DumpLogSegments)."""

import numpy as np

from ottla.format.arrays import Bytes, Int64s
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.text import render
from ottla.kernels.text.characters import (
    ESCAPED_ROOM,
    phrase,
    put_bytes,
    put_phrase,
    put_readable,
)
from ottla.kernels.text.render_tables import (
    LAST_CODEC,
    BatchColumns,
    RecordColumns,
    is_valid,
    put_codec,
    put_flag,
    put_number,
    put_record_number,
    put_sequence,
    put_timestamp_type,
)

_BASE_OFFSET = phrase("baseOffset: ")
_LAST_OFFSET = phrase(" lastOffset: ")
_COUNT = phrase(" count: ")
_BASE_SEQUENCE = phrase(" baseSequence: ")
_LAST_SEQUENCE = phrase(" lastSequence: ")
_PRODUCER_ID = phrase(" producerId: ")
_PRODUCER_EPOCH = phrase(" producerEpoch: ")
_LEADER_EPOCH = phrase(" partitionLeaderEpoch: ")
_TRANSACTIONAL = phrase(" isTransactional: ")
_CONTROL = phrase(" isControl: ")
# Java's words for an OptionalLong.
_DELETE_HORIZON = phrase(" deleteHorizonMs: OptionalLong[")
_NO_DELETE_HORIZON = phrase(" deleteHorizonMs: OptionalLong.empty")
_OFFSET = phrase("offset: ")
_POSITION = phrase(" position: ")
_SIZE = phrase(" size: ")
_MAGIC = phrase(" magic: ")
_CODEC = phrase(" compresscodec: ")
_UNKNOWN = phrase("unknown")
_CRC = phrase(" crc: ")
_BATCH_VALID = phrase(" isvalid: ")
_RECORD = phrase("| offset: ")
_KEY_SIZE = phrase(" keySize: ")
_VALUE_SIZE = phrase(" valueSize: ")
_SEQUENCE = phrase(" sequence: ")
_HEADER_KEYS = phrase(" headerKeys: [")
_HEADER_VALUES = phrase("] headerValues: [")
_RECORD_VALID = phrase(" isValid: ")
_KEY = phrase(" key: ")
_PAYLOAD = phrase(" payload: ")
_SPACE = phrase(" ")
_COLON = phrase(": ")
_COMMA = phrase(",")
_CLOSE = phrase("]")
_NULL = phrase("null")


@inlined
def put_batch_text(out: Bytes, at: int, batches: BatchColumns, row: int) -> int:
    """Append the line of a batch."""
    stored = batches.stored
    if stored.magic[row] >= 2:
        at = put_number(out, at, _BASE_OFFSET, stored.base_offset[row])
        at = put_number(out, at, _LAST_OFFSET, stored.last_offset[row])
        at = put_number(out, at, _COUNT, stored.count[row])
        at = put_number(out, at, _BASE_SEQUENCE, stored.base_sequence[row])
        at = put_number(out, at, _LAST_SEQUENCE, batches.last_sequence[row])
        at = put_number(out, at, _PRODUCER_ID, stored.producer_id[row])
        at = put_number(out, at, _PRODUCER_EPOCH, stored.producer_epoch[row])
        at = put_number(out, at, _LEADER_EPOCH, stored.partition_leader_epoch[row])
        at = put_flag(out, at, _TRANSACTIONAL, batches.is_transactional[row])
        at = put_flag(out, at, _CONTROL, batches.is_control[row])
        if batches.has_delete_horizon[row]:
            at = put_number(out, at, _DELETE_HORIZON, stored.base_timestamp[row])
            at = put_phrase(out, at, _CLOSE)
        else:
            at = put_phrase(out, at, _NO_DELETE_HORIZON)
    else:
        at = put_number(out, at, _OFFSET, stored.last_offset[row])
    at = put_number(out, at, _POSITION, stored.position[row])
    at = put_phrase(out, at, _SPACE)
    at = put_timestamp_type(out, at, batches.timestamp_type[row])
    at = put_number(out, at, _COLON, stored.max_timestamp[row])
    at = put_number(out, at, _SIZE, stored.size[row])
    at = put_number(out, at, _MAGIC, stored.magic[row])
    at = put_phrase(out, at, _CODEC)
    if batches.codec[row] <= LAST_CODEC:
        at = put_codec(out, at, batches.codec[row])
    else:
        at = put_phrase(out, at, _UNKNOWN)
    at = put_number(out, at, _CRC, stored.crc[row])
    return put_flag(out, at, _BATCH_VALID, stored.crc[row] == stored.computed_crc[row])


@inlined
def put_data(out: Bytes, at: int, data: Bytes, start: int, stop: int, verbatim: bool) -> int:
    """Append bytes as text, or as they are."""
    if verbatim:
        return put_bytes(out, at, data, start, stop)
    return put_readable(out, at, data, start, stop)


@inlined
def put_headers_text(out: Bytes, at: int, records: RecordColumns, record: int) -> int:
    """Append header keys, and their values if there are any."""
    buffers = records.buffers
    first = buffers.header_bounds[record]
    after = buffers.header_bounds[record + 1]
    bounds = buffers.header_key_bounds
    at = put_phrase(out, at, _HEADER_KEYS)
    for header in range(first, after):
        if header > first:
            at = put_phrase(out, at, _COMMA)
        at = put_readable(out, at, buffers.header_key_bytes, bounds[header], bounds[header + 1])
    if first < after:
        bounds = records.payloads.header_value_bounds
        at = put_phrase(out, at, _HEADER_VALUES)
        for header in range(first, after):
            if header > first:
                at = put_phrase(out, at, _COMMA)
            if is_valid(buffers.header_value_valid, header):
                data = records.payloads.header_value_bytes
                at = put_data(out, at, data, bounds[header], bounds[header + 1], records.verbatim)
            else:
                at = put_phrase(out, at, _NULL)
    return put_phrase(out, at, _CLOSE)


@inlined
def put_record_text(
    out: Bytes, at: int, batches: BatchColumns, row: int, records: RecordColumns, record: int
) -> int:
    """Append the line of a record."""
    buffers = records.buffers
    keys = buffers.key_bounds
    values = buffers.value_bounds
    has_key = is_valid(buffers.key_valid, record)
    has_value = is_valid(buffers.value_valid, record)
    at = put_record_number(out, at, _RECORD, buffers.offset[record])
    at = put_phrase(out, at, _SPACE)
    at = put_timestamp_type(out, at, batches.timestamp_type[row])
    at = put_record_number(out, at, _COLON, buffers.timestamp[record])
    key_size = np.int64(keys[record + 1]) - keys[record]
    at = put_record_number(out, at, _KEY_SIZE, key_size if has_key else np.int64(-1))
    value_size = np.int64(values[record + 1]) - values[record]
    at = put_record_number(out, at, _VALUE_SIZE, value_size if has_value else np.int64(-1))
    if batches.stored.magic[row] >= 2:
        at = put_sequence(out, at, _SEQUENCE, batches.stored, row, i64(buffers.offset[record]))
        at = put_headers_text(out, at, records, record)
    elif batches.codec[row] == 0:
        # kafka-dump-log shows the CRC of wrapped messages too; here a wrong one is an error line.
        crc = batches.stored.crc[row]
        at = put_flag(out, at, _RECORD_VALID, crc == batches.stored.computed_crc[row])
        at = put_number(out, at, _CRC, crc)
    tail = records.tail_bounds[record]
    after = records.tail_bounds[record + 1]
    if tail < after:
        return put_bytes(out, at, records.tails, tail, after)
    shown = records.payloads
    if has_key:
        at = put_phrase(out, at, _KEY)
        bounds = shown.key_bounds
        at = put_data(
            out, at, shown.key_bytes, bounds[record], bounds[record + 1], records.verbatim
        )
    if has_value:
        at = put_phrase(out, at, _PAYLOAD)
        bounds = shown.value_bounds
        at = put_data(
            out, at, shown.value_bytes, bounds[record], bounds[record + 1], records.verbatim
        )
    return at


@kernel
def render_text(
    out: Bytes,
    cursor: Int64s,
    batches: BatchColumns,
    records: RecordColumns,
    plan: render.Plan,
) -> bool:
    """Fill the output from the cursor on; return whether all is done."""
    render.begin(cursor)
    while True:
        line = render.next_line(out, cursor, records, plan, ESCAPED_ROOM)
        if line == render.FINISHED or line == render.FULL:
            return line == render.FINISHED
        row = cursor[render.ROW]
        if line == render.BATCH:
            at = put_batch_text(out, cursor[render.AT], batches, row)
        else:
            record = cursor[render.RECORD]
            at = put_record_text(out, cursor[render.AT], batches, row, records, record)
        render.close_line(out, cursor, at, plan, line)
