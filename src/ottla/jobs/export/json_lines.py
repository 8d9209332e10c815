"""Records as lines of JSON, a column at a time; bytes are base64, as in a dump."""

import base64
import json
import math
from datetime import date, datetime, time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.connector import BATCH_COLUMNS
from ottla.kernels.text.quote import BASE64, TEXT, quote, quoted_room
from ottla.region import padded

_TEXT = pa.large_string()


def json_lines(records: pa.RecordBatch, timestamps: pa.Array) -> pa.Buffer:
    """A line for each row of an export; `timestamps` are in milliseconds.

    A value that is JSON stays as it was written, since a parsed number may be another. Only between
    the tokens of JSON can there be line breaks.
    """
    parts = ['{"key":', _payload(records.column("key"))]
    parts += [',"value":', _payload(records.column("value"))]
    for name in ("keyRaw", "valueRaw"):
        if name in records.schema.names:
            parts.append(_raw(name, records.column(name)))
    parts += [
        ',"offset":',
        records.column("offset").cast(_TEXT),
        ',"timestamp":',
        timestamps.cast(_TEXT),
        ',"timestampType":',
        records.column("timestampType").cast(_TEXT),
        ',"headers":[',
        _headers(records.column("headers")),
        "]",
    ]
    for name in BATCH_COLUMNS.names:
        if name in records.schema.names:
            parts += [f',"{name}":', _plain(records.column(name))]
    return _joined([*parts, "}\n"])


def _payload(column: pa.Array) -> pa.Array:
    """Keys or values: JSON as it is, text and bytes quoted, what schemas gave as JSON of theirs."""
    if isinstance(column.type, pa.JsonType):
        text = column.storage.cast(_TEXT)
        for line_break in ("\n", "\r"):
            text = pc.replace_substring(text, line_break, " ")
        return pc.fill_null(text, "null")
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return _quoted(column)
    return pa.array([json_value(value) for value in python_values(column)], _TEXT)


def python_values(column: pa.Array) -> list[Any]:
    """A column as Python has it; a time that it has no year for is a number (of microseconds)."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        if len(column) > 1:
            middle = len(column) // 2
            return python_values(column.slice(0, middle)) + python_values(column.slice(middle))
    kind, one = column.type, column[0]
    if pa.types.is_struct(kind):
        parts = [python_values(each)[0] for each in column.flatten()]
        return [dict(zip((field.name for field in kind), parts, strict=True))]
    if pa.types.is_map(kind):
        return [list(zip(*map(python_values, one.values.flatten()), strict=True))]
    if pa.types.is_list(kind):
        return [python_values(one.values)]
    return [one.value]


def json_value(value: Any) -> str:
    """A decoded value: bytes as base64, numbers that JSON has none for as text."""
    return json.dumps(plain_value(value), ensure_ascii=False, separators=(",", ":"))


def plain_value(value: Any) -> Any:
    """A decoded value of what JSON knows."""
    if isinstance(value, dict):
        return {str(name): plain_value(each) for name, each in value.items()}
    if isinstance(value, list):  # of a map there are pairs
        return [plain_value(each) for each in value]
    if isinstance(value, tuple):
        return [plain_value(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value if isinstance(value, str | int | float | None) else str(value)


def _raw(name: str, values: pa.Array) -> pa.Array:
    """Only where a key or value is not what it should be."""
    named = pc.binary_join_element_wise(_text(f',"{name}":'), _quoted(values), _text(""))
    return pc.if_else(values.is_valid(), named, _text(""))


def _plain(column: pa.Array) -> pa.Array:
    """Text, numbers and truth values, of which none is null."""
    return _quoted(column) if pa.types.is_string(column.type) else column.cast(_TEXT)


def _headers(column: pa.Array) -> pa.Array:
    """Pairs of key and value, between commas; nothing for a record without headers."""
    keys, values = column.flatten().flatten()
    pairs = pc.binary_join_element_wise(
        _text("["), _quoted(keys), _text(","), _quoted(values), _text("]"), _text("")
    )
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    bounds = np.zeros(len(column) + 1, dtype=np.int32)
    np.cumsum(counts, out=bounds[1:])
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(bounds), pairs), _text(","))


def _quoted(column: pa.Array) -> pa.Array:
    """JSON strings of text or of base64, and `null`."""
    style = TEXT if pa.types.is_string(column.type) else BASE64
    if not len(column):
        return pa.array([], _TEXT)  # Arrow may leave out the buffers of nothing
    if column.offset:
        column = pa.concat_arrays([column.slice(0, 0), column])
    _, bounds_buffer, data_buffer = column.buffers()
    bounds = np.frombuffer(bounds_buffer, dtype=np.int32)[: len(column) + 1]
    data = padded(memoryview(data_buffer or b"")[: bounds[-1]])
    out = np.empty(quoted_room(int(bounds[-1]), len(column), style), dtype=np.uint8)
    out_bounds = np.empty(len(column) + 1, dtype=np.int64)
    quote(out, out_bounds, data, bounds, style)
    quoted = pa.LargeStringArray.from_buffers(
        len(column), pa.py_buffer(out_bounds), pa.py_buffer(out)
    )
    return pc.if_else(column.is_valid(), quoted, _text("null"))


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, _TEXT)


def _joined(parts: list[pa.Array | str]) -> pa.Buffer:
    texts = [_text(part) if isinstance(part, str) else part for part in parts]
    lines = pc.binary_join_element_wise(*texts, _text(""))
    _, bounds, data = lines.buffers()
    stop = int(np.frombuffer(bounds, dtype=np.int64)[lines.offset + len(lines)])
    return data.slice(0, stop)
