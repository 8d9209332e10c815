"""Chunks and `Batches` to Arrow, without copying what the kernels wrote."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.arrow.schema import BATCH_SCHEMA, HEADERS_TYPE, RAW_HEADERS_TYPE, RECORD_COLUMNS
from ottla.batch.attributes import (
    add_sequence,
    codec_ids,
    has_delete_horizon,
    is_control,
    is_transactional,
    last_sequences,
    timestamp_types,
)
from ottla.batch.decode import Chunk
from ottla.batch.utf8 import java_utf8
from ottla.errors import OptionError
from ottla.format.attributes import CODEC_NAMES, TIMESTAMP_TYPE_NAMES
from ottla.format.sentinels import NO_SEQUENCE
from ottla.kernels.tables import Batches, Int64s, Wanted
from ottla.region import Bytes

Ints = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]


_WANTED: Final = {
    "key": Wanted.KEYS,
    "value": Wanted.VALUES,
    "headers": Wanted.HEADERS,
    "rawHeaders": Wanted.HEADERS,
    "index": Wanted.INDEXES,
}


def wanted_flags(columns: Sequence[str]) -> Wanted:
    """What the decoder must gather for these columns."""
    flags = Wanted.OFFSETS
    for name in columns:
        if name not in RECORD_COLUMNS:
            raise OptionError(f"no column {name!r}; columns are {', '.join(RECORD_COLUMNS)}")
        flags |= _WANTED.get(name, Wanted.OFFSETS)
    return flags


def _binary(
    bounds: Ints, data: Bytes, valid: Bytes | None, count: int, kind: pa.DataType
) -> pa.Array:
    validity = pa.py_buffer(valid) if valid is not None else None
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(bounds), pa.py_buffer(data)])


def _header_keys(chunk: Chunk) -> pa.Array:
    buffers = chunk.buffers
    bounds, data, count = buffers.header_key_bounds, buffers.header_key_bytes, chunk.header_count
    if not chunk.header_keys_are_ascii:
        raw = _binary(bounds, data, None, count, pa.binary())
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:  # Java reads such keys with replacement marks, and so do we
            return pa.array([java_utf8(key) for key in raw.to_pylist()], pa.string())
    return _binary(bounds, data, None, count, pa.string())


def _headers(chunk: Chunk, kind: pa.ListType) -> pa.Array:
    buffers = chunk.buffers
    if kind.equals(RAW_HEADERS_TYPE):
        keys = _binary(
            buffers.header_key_bounds,
            buffers.header_key_bytes,
            None,
            chunk.header_count,
            pa.binary(),
        )
    else:
        keys = _header_keys(chunk)
    values = _binary(
        buffers.header_value_bounds,
        buffers.header_value_bytes,
        buffers.header_value_valid,
        chunk.header_count,
        pa.binary(),
    )
    structs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    return pa.Array.from_buffers(
        kind, chunk.count, [None, pa.py_buffer(buffers.header_bounds)], children=[structs]
    )


class _Expanded:
    """What the batches of a chunk say, for each of its records or for some of them."""

    def __init__(self, chunk: Chunk, rows: Rows | None) -> None:
        self.batches = [batches for batches, _ in chunk.pieces]
        self.counts = np.concatenate([counts for _, counts in chunk.pieces])
        self.owners = (
            None if rows is None else np.searchsorted(np.cumsum(self.counts), rows, side="right")
        )

    def spread(self, derive: Callable[[Batches], Ints]) -> Ints:
        column = np.concatenate([derive(batches) for batches in self.batches])
        return np.repeat(column, self.counts) if self.owners is None else column[self.owners]

    def sequences(self, offsets: Int64s) -> Int64s:
        base = self.spread(lambda batches: batches.base_sequence)
        delta = offsets - self.spread(lambda batches: batches.base_offset)
        return np.where(base >= 0, add_sequence(base, delta), NO_SEQUENCE)


_FROM_BATCHES: Final[dict[str, tuple[Callable[[Batches], Ints], type[np.generic]]]] = {
    "timestampType": (timestamp_types, np.int32),
    "position": (lambda batches: batches.position, np.int64),
    "magic": (lambda batches: batches.magic, np.int32),
    "codec": (codec_ids, np.int32),
    "baseOffset": (lambda batches: batches.base_offset, np.int64),
    "partitionLeaderEpoch": (lambda batches: batches.partition_leader_epoch, np.int32),
    "producerId": (lambda batches: batches.producer_id, np.int64),
    "producerEpoch": (lambda batches: batches.producer_epoch, np.int32),
    "isTransactional": (is_transactional, np.bool_),
    "isControl": (is_control, np.bool_),
    "maxTimestamp": (lambda batches: batches.max_timestamp, np.int64),
    "baseSequence": (lambda batches: batches.base_sequence, np.int32),
}


_FROM_BUFFERS: Final = frozenset(
    {"key", "value", "offset", "timestamp", "index", "headers", "rawHeaders"}
)


def records_to_arrow(
    chunk: Chunk, columns: Sequence[str], rows: Rows | None = None
) -> pa.RecordBatch:
    """The asked-for columns of a chunk, of all its records or of those in some rows."""
    stored = [name for name in columns if name in _FROM_BUFFERS]
    arrays = {name: _stored(chunk, name) for name in stored}
    if rows is not None:
        arrays = {name: array.take(pa.array(rows)) for name, array in arrays.items()}
    if len(stored) < len(columns):
        expanded = _Expanded(chunk, rows)
        for name in columns:
            if name not in arrays:
                arrays[name] = pa.array(_derived(chunk, expanded, name, rows))
    return pa.RecordBatch.from_arrays(
        [arrays[name] for name in columns],
        schema=pa.schema([RECORD_COLUMNS[name] for name in columns]),
    )


def _stored(chunk: Chunk, name: str) -> pa.Array:
    """A column that lies in the buffers as Arrow would have it."""
    buffers, count = chunk.buffers, chunk.count
    if name == "key":
        keys = buffers.key_bounds, buffers.key_bytes, buffers.key_valid
        return _binary(*keys, count, pa.binary())
    if name == "value":
        values = buffers.value_bounds, buffers.value_bytes, buffers.value_valid
        return _binary(*values, count, pa.binary())
    if name in ("headers", "rawHeaders"):
        return _headers(chunk, HEADERS_TYPE if name == "headers" else RAW_HEADERS_TYPE)
    numbers = pa.py_buffer(getattr(buffers, name))
    return pa.Array.from_buffers(pa.int64(), count, [None, numbers])


def _derived(chunk: Chunk, expanded: _Expanded, name: str, rows: Rows | None) -> Ints:
    """A column that records have from their batch."""
    if name == "sequence":
        offsets = chunk.buffers.offset[: chunk.count]
        return expanded.sequences(offsets if rows is None else offsets[rows]).astype(np.int32)
    derive, kind = _FROM_BATCHES[name]
    return expanded.spread(derive).astype(kind)


def _names(codes: Ints, names: dict[int, str]) -> pa.Array:
    """Codes as their names; null for a code without one."""
    dictionary = pa.array([*names.values()])
    position = {code: index for index, code in enumerate(names)}
    indexes = [position.get(code) for code in codes.tolist()]
    return pa.DictionaryArray.from_arrays(pa.array(indexes, pa.int32()), dictionary).cast(
        pa.string()
    )


def batches_to_arrow(
    batches: Batches, base_known: npt.NDArray[np.bool_] | None = None
) -> pa.RecordBatch:
    """One row per batch, header fields only; `base_known` tells which wrappers were opened."""
    v2 = batches.magic >= 2
    known = v2 | (codec_ids(batches) == 0)
    if base_known is not None:
        known = known | base_known
    horizon = has_delete_horizon(batches)
    columns: dict[str, Any] = {
        "position": batches.position,
        "size": batches.size,
        "magic": batches.magic,
        "baseOffset": pa.array(batches.base_offset, mask=~known),
        "lastOffset": batches.last_offset,
        "crc": batches.crc,
        "crcValid": batches.crc == batches.computed_crc,
        "attributes": batches.attributes,
        "codecId": codec_ids(batches),
        "codec": _names(codec_ids(batches), CODEC_NAMES),
        "timestampType": _names(timestamp_types(batches), TIMESTAMP_TYPE_NAMES),
        "maxTimestamp": batches.max_timestamp,
        "partitionLeaderEpoch": batches.partition_leader_epoch,
        "producerId": batches.producer_id,
        "producerEpoch": batches.producer_epoch,
        "baseSequence": batches.base_sequence,
        "lastSequence": last_sequences(batches),
        "isTransactional": is_transactional(batches),
        "isControl": is_control(batches),
        "deleteHorizonMs": pa.array(batches.base_timestamp, mask=~horizon),
        "count": pa.array(batches.count, mask=~v2),
        "lastOffsetDelta": pa.array(batches.last_offset_delta, mask=~v2),
        "baseTimestamp": pa.array(batches.base_timestamp, mask=~v2),
    }
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in BATCH_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=BATCH_SCHEMA)
