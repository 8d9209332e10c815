"""Arrow record batches to records, without copying keys and values."""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.arrow.schema import RAW_HEADERS_TYPE
from ottla.errors import OptionError
from ottla.format.arrays import Int32s
from ottla.format.sentinels import NO_TIMESTAMP
from ottla.kernels.tables import Int64s, RecordBuffers
from ottla.region import Bytes

_ALL_VALID: Final = 0xFF


class Spans(NamedTuple):
    """A binary column: bounds, bytes, validity bits."""

    bounds: Int32s
    data: Bytes
    valid: Bytes


def records_from_arrow(batch: pa.RecordBatch, *, first_offset: int = 0) -> RecordBuffers:
    """The columns key, value, offset, timestamp and headers, each of which may be missing.

    A missing key or value is null, a missing timestamp is -1, missing offsets count from
    `first_offset`. Header keys may be strings or binary; `rawHeaders` is preferred to `headers`.
    """
    keys = _binary_column(batch, "key")
    values = _binary_column(batch, "value")
    header_bounds, header_keys, header_values = _headers(batch)
    return RecordBuffers(
        offset=_offsets(batch, first_offset),
        timestamp=_timestamps(batch),
        index=np.zeros(0, dtype=np.int64),
        key_bounds=keys.bounds,
        key_bytes=keys.data,
        key_valid=keys.valid,
        value_bounds=values.bounds,
        value_bytes=values.data,
        value_valid=values.valid,
        header_bounds=header_bounds,
        header_key_bounds=header_keys.bounds,
        header_key_bytes=header_keys.data,
        header_value_bounds=header_values.bounds,
        header_value_bytes=header_values.data,
        header_value_valid=header_values.valid,
    )


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    return batch.column(name) if name in batch.schema.names else None


def _cast(array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """The same values in the type that kernels read; the usual types are not copied."""
    try:
        return array if array.type.equals(kind) else array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise OptionError(f"column {name} is {array.type}, expected {kind}: {error}") from error


def _offsets(batch: pa.RecordBatch, first_offset: int) -> Int64s:
    array = _column(batch, "offset")
    if array is None:
        return np.arange(first_offset, first_offset + batch.num_rows)
    return _integers(array, "offset")


def _timestamps(batch: pa.RecordBatch) -> Int64s:
    array = _column(batch, "timestamp")
    if array is None:
        return np.full(batch.num_rows, NO_TIMESTAMP)
    return _integers(array, "timestamp")


def _integers(array: pa.Array, name: str) -> Int64s:
    if not pa.types.is_integer(array.type):
        raise OptionError(f"column {name} is {array.type}, expected int64")
    if array.null_count:
        raise OptionError(f"column {name} has nulls")
    array = _cast(array, pa.int64(), name)
    values: Int64s = np.frombuffer(array.buffers()[1] or b"", dtype=np.int64)
    return values[array.offset : array.offset + len(array)]


def _binary_column(batch: pa.RecordBatch, name: str) -> Spans:
    array = _column(batch, name)
    return _spans(pa.nulls(batch.num_rows, pa.binary()) if array is None else array, name)


def _spans(array: pa.Array, name: str) -> Spans:
    # A view is free, where a cast checks every byte.
    text = pa.types.is_string(array.type)
    array = array.view(pa.binary()) if text else _cast(array, pa.binary(), name)
    data = array.buffers()[2]
    return Spans(
        bounds=_bounds(array),
        data=np.frombuffer(data or b"", dtype=np.uint8),
        valid=_validity(array),
    )


def _bounds(array: pa.Array) -> Int32s:
    """The offsets buffer of a binary or list array; an empty array may have none."""
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(len(array) + 1, dtype=np.int32)
    bounds: Int32s = np.frombuffer(buffer, dtype=np.int32)
    return bounds[array.offset : array.offset + len(array) + 1]


def _validity(array: pa.Array) -> Bytes:
    """Bits that begin with the first value of the array."""
    buffer = array.buffers()[0]
    if array.null_count == 0 or buffer is None:
        return np.full(len(array) // 8 + 1, _ALL_VALID, dtype=np.uint8)
    bits: Bytes = np.frombuffer(buffer, dtype=np.uint8)
    first, shift = divmod(array.offset, 8)
    if shift == 0:
        return bits[first:]
    moved = np.unpackbits(bits[first:], bitorder="little")[shift : shift + len(array)]
    return np.packbits(moved, bitorder="little")


def _headers(batch: pa.RecordBatch) -> tuple[Int32s, Spans, Spans]:
    """Bounds of each record's headers, their keys and their values; no list is an empty list."""
    lists = _column(batch, "rawHeaders")
    if lists is None:
        lists = _column(batch, "headers")
    if lists is None:
        lists = pa.nulls(batch.num_rows, RAW_HEADERS_TYPE)
    if not (pa.types.is_list(lists.type) and pa.types.is_struct(lists.type.value_type)):
        raise OptionError(f"column headers is {lists.type}, expected {RAW_HEADERS_TYPE}")
    if lists.null_count:
        # What lies under a null list is nobody's.
        sizes = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        bounds = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        structs = lists.flatten()
    else:
        bounds, structs = _bounds(lists), lists.values
    if min(structs.type.get_field_index(name) for name in ("key", "value")) < 0:
        raise OptionError(f"headers are {structs.type}, expected the fields key and value")
    keys, values = structs.field("key"), structs.field("value")
    if structs.null_count or keys.null_count:
        raise OptionError("a header without a key cannot be written")
    return bounds, _spans(keys, "headers.key"), _spans(values, "headers.value")
