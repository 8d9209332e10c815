"""Records of internal topics as the Arrow batches that the folds read."""

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("producerId", pa.int64()),
        pa.field("isTransactional", pa.bool_()),
        pa.field("isControl", pa.bool_()),
    ]
)


def record(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    producer: int = -1,
    control: bool = False,
) -> dict[str, Any]:
    """A record; one with a producer is transactional."""
    return {
        "offset": offset,
        "timestamp": 1000 + offset,
        "key": key,
        "value": value,
        "producerId": producer,
        "isTransactional": producer != -1,
        "isControl": control,
    }


def marker(offset: int, producer: int, kind: int) -> dict[str, Any]:
    """An ABORT (0) or COMMIT (1) marker."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 7)
    return record(offset, key, value, producer=producer, control=True)


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def compact(text: str) -> bytes:
    data = text.encode()
    assert len(data) < 0x7F
    return bytes([len(data) + 1]) + data


def commit_key(group: str, topic: str, partition: int, kind: int = 1) -> bytes:
    return struct.pack(">h", kind) + string(group) + string(topic) + struct.pack(">i", partition)


def commit_value(offset: int, metadata: str = "") -> bytes:
    return struct.pack(">hqi", 3, offset, 4) + string(metadata) + struct.pack(">q", 99)


def batches(records: Sequence[dict[str, Any]], size: int = 1000) -> list[pa.RecordBatch]:
    """The records in batches of `size`."""
    rows = pa.RecordBatch.from_pylist(list(records), schema=SCHEMA)
    return [rows.slice(start, size) for start in range(0, len(rows), size)]
