"""Records that contain themselves as JSON: one datum at a time, by the plan of its schemas.

The kernels have checked every byte, and how deep calls go, before anything is read here. Types are
written as in Avro's own JSON: bytes as characters up to U+00FF, an enum by its name; but a value of
a union stands there without the name of its branch, and what is no number as a text.
"""

import json
import math
import struct
from typing import Any

from ottla.schemas.avro_default import encode_default
from ottla.schemas.avro_resolve import Resolved, Resolver
from ottla.schemas.avro_schema import AvroSchema, AvroType

_VALUE_SIZE = 8  # about what a value without a size of its own takes


class TooLargeError(Exception):
    """The text would take more memory than there may be."""


class TextReader:
    """Reads datums of a pair of schemas; all of them together within `budget` bytes."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema, budget: int) -> None:
        self._writer = writer.types
        self._reader = reader.types
        self._own = Resolver(reader, reader)
        self._defaults: dict[tuple[int, int], tuple[Any, int]] = {}
        self._left = budget

    def text(self, plan: Resolved, is_default: bool, datum: bytes) -> str:
        """The JSON of a datum; TooLargeError if there is no room for it."""
        left = self._left
        try:
            value, _ = self._read(plan, self._reader if is_default else self._writer, datum, 0)
        except TooLargeError:
            self._left = left
            raise
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLargeError

    def _read(
        self, plan: Resolved, types: tuple[AvroType, ...], data: bytes, at: int
    ) -> tuple[Any, int]:
        given, wanted = types[plan.writer], self._reader[plan.reader]
        self._spend(_VALUE_SIZE)
        match plan.kind:
            case "union":
                branch, at = _number(data, at)
                chosen = plan.branches[branch]
                assert chosen is not None
                return self._read(chosen, types, data, at)
            case "into":
                assert plan.item is not None
                return self._read(plan.item, types, data, at)
            case "record":
                return self._record(plan, types, data, at)
            case "array" | "map":
                return self._list(plan, types, data, at)
            case "null":
                return None, at
            case "boolean":
                return bool(data[at]), at + 1
            case "int" | "long":
                value, at = _number(data, at)
                return float(value) if wanted.kind in ("float", "double") else value, at
            case "float" | "double":
                form = "<f" if given.kind == "float" else "<d"
                (real,) = struct.unpack_from(form, data, at)
                return real if math.isfinite(real) else str(real), at + struct.calcsize(form)
            case "enum":
                symbol, at = _number(data, at)
                name = wanted.symbols[plan.symbols[symbol]]
                self._spend(len(name))
                return name, at
            case "fixed":
                size = given.size
            case _:
                size, at = _number(data, at)
        self._spend(2 * size)
        code = "utf-8" if wanted.kind == "string" else "latin-1"
        return data[at : at + size].decode(code), at + size

    def _record(
        self, plan: Resolved, types: tuple[AvroType, ...], data: bytes, at: int
    ) -> tuple[dict[str, Any], int]:
        fields = self._reader[plan.reader].fields
        found: dict[int, Any] = {}
        for (inner, index), one in zip(plan.parts, types[plan.writer].fields, strict=True):
            if inner is None:
                at = _skip(types, one.type, data, at)
            else:
                self._spend(len(fields[index].name))
                found[index], at = self._read(inner, types, data, at)
        for index in plan.missing:
            found[index], size = self._default(plan.reader, index)
            self._spend(len(fields[index].name) + size)
        return {one.name: found[index] for index, one in enumerate(fields)}, at

    def _default(self, record: int, index: int) -> tuple[Any, int]:
        if (record, index) not in self._defaults:
            part = self._reader[record].fields[index]
            data = encode_default(self._reader, part.type, part.default)
            plan = self._own.resolve(part.type, part.type)
            value, _ = self._read(plan, self._reader, data, 0)
            self._defaults[record, index] = value, len(json.dumps(value))
        return self._defaults[record, index]

    def _list(
        self, plan: Resolved, types: tuple[AvroType, ...], data: bytes, at: int
    ) -> tuple[Any, int]:
        assert plan.item is not None
        is_map = plan.kind == "map"
        items: list[Any] = []
        pairs: dict[str, Any] = {}
        while True:
            count, at = _number(data, at)
            if count == 0:
                return pairs if is_map else items, at
            if count < 0:
                count = -count
                _, at = _number(data, at)
            for _ in range(count):
                key = ""
                if is_map:
                    size, at = _number(data, at)
                    self._spend(2 * size)
                    key = data[at : at + size].decode()
                    at += size
                value, at = self._read(plan.item, types, data, at)
                if is_map:
                    pairs[key] = value
                else:
                    items.append(value)


def _number(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    raw &= 0xFFFFFFFFFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), at


def _skip(types: tuple[AvroType, ...], number: int, data: bytes, at: int) -> int:
    """Step over a value that the reader does not want."""
    one = types[number]
    match one.kind:
        case "null":
            return at
        case "boolean":
            return at + 1
        case "int" | "long" | "enum":
            return _number(data, at)[1]
        case "float":
            return at + 4
        case "double":
            return at + 8
        case "fixed":
            return at + one.size
        case "record":
            for part in one.fields:
                at = _skip(types, part.type, data, at)
            return at
        case "union":
            branch, at = _number(data, at)
            return _skip(types, one.branches[branch], data, at)
        case "array" | "map":
            return _skip_list(types, one, data, at)
    size, at = _number(data, at)
    return at + size


def _skip_list(types: tuple[AvroType, ...], one: AvroType, data: bytes, at: int) -> int:
    while True:
        count, at = _number(data, at)
        if count == 0:
            return at
        if count < 0:
            count = -count
            _, at = _number(data, at)
        before = at
        for _ in range(count):
            if one.kind == "map":
                size, at = _number(data, at)
                at += size
            at = _skip(types, one.items, data, at)
            if at == before:  # items have no bytes, however many they are
                break
