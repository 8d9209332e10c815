"""A batch or record as the JSON object that `ottla dump` prints, all but its last key and brace."""

import numpy as np

from ottla.format.arrays import Bytes, Int64s
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.text import render
from ottla.kernels.text.characters import (
    BASE64_ROOM,
    phrase,
    put_base64,
    put_bytes,
    put_int,
    put_json_text,
    put_phrase,
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

_BATCH = phrase('{"type":"batch","position":')
_RECORD = phrase('{"type":"record","position":')
_SIZE = phrase(',"size":')
_MAGIC = phrase(',"magic":')
_BASE_OFFSET = phrase(',"baseOffset":')
_LAST_OFFSET = phrase(',"lastOffset":')
_CRC = phrase(',"crc":')
_CRC_VALID = phrase(',"crcValid":')
_ATTRIBUTES = phrase(',"attributes":')
_CODEC_ID = phrase(',"codecId":')
_CODEC = phrase(',"codec":')
_TIMESTAMP_TYPE = phrase(',"timestampType":"')
_MAX_TIMESTAMP = phrase('","maxTimestamp":')
_LEADER_EPOCH = phrase(',"partitionLeaderEpoch":')
_PRODUCER_ID = phrase(',"producerId":')
_PRODUCER_EPOCH = phrase(',"producerEpoch":')
_BASE_SEQUENCE = phrase(',"baseSequence":')
_LAST_SEQUENCE = phrase(',"lastSequence":')
_TRANSACTIONAL = phrase(',"isTransactional":')
_CONTROL = phrase(',"isControl":')
_DELETE_HORIZON = phrase(',"deleteHorizonMs":')
_COUNT = phrase(',"count":')
_LAST_OFFSET_DELTA = phrase(',"lastOffsetDelta":')
_BASE_TIMESTAMP = phrase(',"baseTimestamp":')
_INDEX = phrase(',"index":')
_OFFSET = phrase(',"offset":')
_TIMESTAMP = phrase(',"timestamp":')
_SEQUENCE = phrase(',"sequence":')
_KEY = phrase(',"key":')
_VALUE = phrase(',"value":')
_HEADERS = phrase(',"headers":[')
_HEADER = phrase('["')
_HEADER_VALUE = phrase('",')
_COMMA = phrase(",")
_QUOTE = phrase('"')
_CLOSE = phrase("]")
_NULL = phrase("null")


@inlined
def put_number_or_null(out: Bytes, at: int, name: Bytes, value: np.int64, known: bool) -> int:
    """Append a name and a number, or null for one that is not known."""
    at = put_phrase(out, at, name)
    return put_int(out, at, value) if known else put_phrase(out, at, _NULL)


@inlined
def put_data(
    out: Bytes, at: int, data: Bytes, start: int, stop: int, valid: bool, verbatim: bool
) -> int:
    """Append bytes as a base64 string, as they are, or null."""
    if not valid:
        return put_phrase(out, at, _NULL)
    if verbatim:
        return put_bytes(out, at, data, start, stop)
    at = put_phrase(out, at, _QUOTE)
    at = put_base64(out, at, data, start, stop)
    return put_phrase(out, at, _QUOTE)


@inlined
def put_batch_json(out: Bytes, at: int, batches: BatchColumns, row: int) -> int:
    """Append the object of a batch."""
    stored = batches.stored
    codec = batches.codec[row]
    is_v2 = stored.magic[row] >= 2
    at = put_number(out, at, _BATCH, stored.position[row])
    at = put_number(out, at, _SIZE, stored.size[row])
    at = put_number(out, at, _MAGIC, stored.magic[row])
    base_known = batches.base_known[row]
    at = put_number_or_null(out, at, _BASE_OFFSET, stored.base_offset[row], base_known)
    at = put_number(out, at, _LAST_OFFSET, stored.last_offset[row])
    at = put_number(out, at, _CRC, stored.crc[row])
    at = put_flag(out, at, _CRC_VALID, stored.crc[row] == stored.computed_crc[row])
    at = put_number(out, at, _ATTRIBUTES, stored.attributes[row])
    at = put_number(out, at, _CODEC_ID, codec)
    at = put_phrase(out, at, _CODEC)
    if codec <= LAST_CODEC:
        at = put_phrase(out, at, _QUOTE)
        at = put_codec(out, at, codec)
        at = put_phrase(out, at, _QUOTE)
    else:
        at = put_phrase(out, at, _NULL)
    at = put_phrase(out, at, _TIMESTAMP_TYPE)
    at = put_timestamp_type(out, at, batches.timestamp_type[row])
    at = put_number(out, at, _MAX_TIMESTAMP, stored.max_timestamp[row])
    at = put_number(out, at, _LEADER_EPOCH, stored.partition_leader_epoch[row])
    at = put_number(out, at, _PRODUCER_ID, stored.producer_id[row])
    at = put_number(out, at, _PRODUCER_EPOCH, stored.producer_epoch[row])
    at = put_number(out, at, _BASE_SEQUENCE, stored.base_sequence[row])
    at = put_number(out, at, _LAST_SEQUENCE, batches.last_sequence[row])
    at = put_flag(out, at, _TRANSACTIONAL, batches.is_transactional[row])
    at = put_flag(out, at, _CONTROL, batches.is_control[row])
    horizon = batches.has_delete_horizon[row]
    at = put_number_or_null(out, at, _DELETE_HORIZON, stored.base_timestamp[row], horizon)
    at = put_number_or_null(out, at, _COUNT, stored.count[row], is_v2)
    if is_v2:
        at = put_number(out, at, _LAST_OFFSET_DELTA, stored.last_offset_delta[row])
        at = put_number(out, at, _BASE_TIMESTAMP, stored.base_timestamp[row])
    return at


@inlined
def put_headers_json(out: Bytes, at: int, records: RecordColumns, record: int) -> int:
    """Append the headers of a record."""
    buffers = records.buffers
    shown = records.payloads
    first = buffers.header_bounds[record]
    for header in range(first, buffers.header_bounds[record + 1]):
        if header > first:
            at = put_phrase(out, at, _COMMA)
        at = put_phrase(out, at, _HEADER)
        at = put_json_text(
            out,
            at,
            buffers.header_key_bytes,
            buffers.header_key_bounds[header],
            buffers.header_key_bounds[header + 1],
        )
        at = put_phrase(out, at, _HEADER_VALUE)
        at = put_data(
            out,
            at,
            shown.header_value_bytes,
            shown.header_value_bounds[header],
            shown.header_value_bounds[header + 1],
            is_valid(buffers.header_value_valid, header),
            records.verbatim,
        )
        at = put_phrase(out, at, _CLOSE)
    return at


@inlined
def put_record_json(
    out: Bytes, at: int, batches: BatchColumns, row: int, records: RecordColumns, record: int
) -> int:
    """Append the object of a record."""
    buffers = records.buffers
    shown = records.payloads
    at = put_record_number(out, at, _RECORD, batches.stored.position[row])
    at = put_record_number(out, at, _INDEX, buffers.index[record])
    at = put_record_number(out, at, _OFFSET, buffers.offset[record])
    at = put_record_number(out, at, _TIMESTAMP, buffers.timestamp[record])
    at = put_sequence(out, at, _SEQUENCE, batches.stored, row, i64(buffers.offset[record]))
    at = put_phrase(out, at, _KEY)
    at = put_data(
        out,
        at,
        shown.key_bytes,
        shown.key_bounds[record],
        shown.key_bounds[record + 1],
        is_valid(buffers.key_valid, record),
        records.verbatim,
    )
    at = put_phrase(out, at, _VALUE)
    at = put_data(
        out,
        at,
        shown.value_bytes,
        shown.value_bounds[record],
        shown.value_bounds[record + 1],
        is_valid(buffers.value_valid, record),
        records.verbatim,
    )
    at = put_phrase(out, at, _HEADERS)
    at = put_headers_json(out, at, records, record)
    at = put_phrase(out, at, _CLOSE)
    tail = records.tail_bounds[record]
    return put_bytes(out, at, records.tails, tail, records.tail_bounds[record + 1])


@kernel
def render_json(
    out: Bytes,
    cursor: Int64s,
    batches: BatchColumns,
    records: RecordColumns,
    plan: render.Plan,
) -> bool:
    """Fill the output from the cursor on; return whether all is done."""
    render.begin(cursor)
    while True:
        line = render.next_line(out, cursor, records, plan, BASE64_ROOM)
        if line == render.FINISHED or line == render.FULL:
            return line == render.FINISHED
        row = cursor[render.ROW]
        if line == render.BATCH:
            at = put_batch_json(out, cursor[render.AT], batches, row)
        else:
            record = cursor[render.RECORD]
            at = put_record_json(out, cursor[render.AT], batches, row, records, record)
        render.close_line(out, cursor, at, plan, line)
