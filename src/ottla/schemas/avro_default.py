"""Defaults of fields, which schemas have as JSON, as the bytes that a writer would have written."""

import struct
from typing import Any

from ottla.errors import SchemaError
from ottla.schemas.avro_schema import AvroType

MAX_DEFAULT = 1_000_000
_MAX_NESTED = 64


def encode_default(types: tuple[AvroType, ...], number: int, value: Any) -> bytes:
    """Encode JSON by a type; SchemaError if it is no value of it."""
    out = bytearray()
    _encode(out, types, number, value, 0)
    return bytes(out)


def _encode(
    out: bytearray, types: tuple[AvroType, ...], number: int, value: Any, depth: int
) -> None:
    one = types[number]
    if len(out) > MAX_DEFAULT or depth > _MAX_NESTED:
        raise SchemaError("A default in the Avro schema is too large.")
    if one.kind == "union":
        for index, branch in enumerate(one.branches):
            if _fits(types[branch], value):
                out += varint(index)
                _encode(out, types, branch, value, depth + 1)
                return
    if not _fits(one, value):
        raise SchemaError(f"A default in the Avro schema is no value of {one.name or one.kind}.")
    if one.kind == "boolean":
        out.append(value)
    elif one.kind in ("int", "long"):
        out += varint(int(value))
    elif one.kind == "float":
        out += struct.pack("<f", _single(value))
    elif one.kind == "double":
        out += struct.pack("<d", _float(value))
    elif one.kind == "string":
        data = _utf8(value)
        out += varint(len(data)) + data
    elif one.kind == "bytes":
        data = value.encode("latin-1")
        out += varint(len(data)) + data
    elif one.kind == "fixed":
        out += value.encode("latin-1")
    elif one.kind == "enum":
        out += varint(one.symbols.index(value))
    elif one.kind == "array":
        out += varint(len(value)) if value else b""
        for item in value:
            _encode(out, types, one.items, item, depth + 1)
        out.append(0)
    elif one.kind == "map":
        out += varint(len(value)) if value else b""
        for key, item in value.items():
            data = _utf8(key)
            out += varint(len(data)) + data
            _encode(out, types, one.items, item, depth + 1)
        out.append(0)
    elif one.kind == "record":
        for part in one.fields:
            if part.name not in value and not part.has_default:
                raise SchemaError(f"A default in the Avro schema lacks the field {part.name}.")
            _encode(out, types, part.type, value.get(part.name, part.default), depth + 1)


def _fits(one: AvroType, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match one.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            limit = 2**31 if one.kind == "int" else 2**63
            whole = is_number and (isinstance(value, int) or value.is_integer())
            return bool(whole and -limit <= value < limit)
        case "float" | "double":
            return is_number or value in ("NaN", "Infinity", "-Infinity")
        case "string":
            return isinstance(value, str)
        case "bytes" | "fixed":
            fits = isinstance(value, str) and all(ord(one) < 256 for one in value)
            return fits and (one.kind == "bytes" or len(value) == one.size)
        case "enum":
            return value in one.symbols
        case "array":
            return isinstance(value, list)
        case "map" | "record":
            return isinstance(value, dict)
    return False


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _single(value: Any) -> float:
    number = _float(value)
    try:
        struct.pack("<f", number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    return number


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SchemaError("A default in the Avro schema is no text that UTF-8 can hold.") from None


def varint(value: int) -> bytes:
    """A signed number as Avro writes it."""
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)
