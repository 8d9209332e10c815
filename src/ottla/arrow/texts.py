"""Bytes as text and as JSON, where they are such."""

import json
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc


def to_texts(values: pa.Array) -> pa.Array:
    """Bytes as text; null where they are not UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in values.to_pylist()], pa.string())


def to_json(values: pa.Array) -> pa.Array:
    """Bytes as the text of JSON, as it was written; null where they are none."""
    texts = to_texts(values)
    valid = pa.array(
        [text is not None and _is_json(text) for text in texts.to_pylist()], pa.bool_()
    )
    return pc.if_else(valid, texts, pa.scalar(None, pa.string()))


def without_text(values: pa.Array, texts: pa.Array) -> pa.Array:
    """The bytes of those that did not become text."""
    return keep_bytes(values, pc.and_(pc.is_valid(values), pc.is_null(texts)))


def keep_bytes(values: pa.Array, lost: pa.Array) -> pa.Array:
    """The bytes of some, null for the others."""
    return pc.if_else(lost, values, pa.scalar(None, pa.binary()))


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _is_json(text: str) -> bool:
    try:
        _JSON.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")  # though Python reads and writes it


# Numbers stay texts: Python refuses to convert those of many digits.
_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=str, parse_float=str)
