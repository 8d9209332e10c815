"""The schemas of records, batches and violations; nothing else names their columns.

Numbers are Kafka's own: timestamps are milliseconds and -1 stays -1. Only keys, values and header
values are ever null, and the base offset and count that a v0/v1 wrapper does not state.
"""

from typing import Final

import pyarrow as pa

HEADERS_TYPE: Final = pa.list_(
    pa.field(
        "element",
        pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]),
        nullable=False,
    )
)
# Rewriting needs the bytes of a header key as they are, valid UTF-8 or not.
RAW_HEADERS_TYPE: Final = pa.list_(
    pa.field(
        "element",
        pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())]),
        nullable=False,
    )
)


def _field(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


# What a record is.
RECORD_FIELDS: Final = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    _field("offset", pa.int64()),
    _field("timestamp", pa.int64()),
    _field("timestampType", pa.int32()),
    _field("headers", HEADERS_TYPE),
)
# What the batch around it says, on request.
BATCH_COLUMN_FIELDS: Final = (
    _field("position", pa.int64()),
    _field("magic", pa.int32()),
    _field("codec", pa.int32()),
    _field("baseOffset", pa.int64()),
    _field("partitionLeaderEpoch", pa.int32()),
    _field("producerId", pa.int64()),
    _field("producerEpoch", pa.int32()),
    _field("sequence", pa.int32()),
    _field("isTransactional", pa.bool_()),
    _field("isControl", pa.bool_()),
    _field("maxTimestamp", pa.int64()),
    _field("baseSequence", pa.int32()),
    _field("index", pa.int64()),
    _field("rawHeaders", RAW_HEADERS_TYPE),
)
RECORD_SCHEMA: Final = pa.schema(RECORD_FIELDS)
RECORD_COLUMNS: Final = {field.name: field for field in RECORD_FIELDS + BATCH_COLUMN_FIELDS}

VIOLATION_SCHEMA: Final = pa.schema(  # Violation.as_row
    [
        pa.field("rule", pa.string()),
        pa.field("severity", pa.string()),
        pa.field("stage", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("file", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("lastOffset", pa.int64()),
        pa.field("found", pa.string()),
        pa.field("expected", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
BATCH_SCHEMA: Final = pa.schema(
    [
        _field("position", pa.int64()),
        _field("size", pa.int64()),
        _field("magic", pa.int32()),
        pa.field("baseOffset", pa.int64()),
        _field("lastOffset", pa.int64()),
        _field("crc", pa.int64()),
        _field("crcValid", pa.bool_()),
        _field("attributes", pa.int32()),
        _field("codecId", pa.int32()),
        pa.field("codec", pa.string()),
        _field("timestampType", pa.string()),
        _field("maxTimestamp", pa.int64()),
        _field("partitionLeaderEpoch", pa.int32()),
        _field("producerId", pa.int64()),
        _field("producerEpoch", pa.int32()),
        _field("baseSequence", pa.int32()),
        _field("lastSequence", pa.int32()),
        _field("isTransactional", pa.bool_()),
        _field("isControl", pa.bool_()),
        pa.field("deleteHorizonMs", pa.int64()),
        pa.field("count", pa.int32()),
        pa.field("lastOffsetDelta", pa.int32()),
        pa.field("baseTimestamp", pa.int64()),
    ]
)
