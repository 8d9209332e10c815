"""Wire formats of keys and values: which schema a value names, and where its payload is."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from uuid import UUID

import numpy as np
import pyarrow as pa

from ottla.errors import SchemaError
from ottla.format.arrays import Bytes, Int64s
from ottla.kernels.avro import wire as kernels
from ottla.kernels.avro.wire import split_wire
from ottla.schemas.avro_schema import AvroSchema, AvroType
from ottla.schemas.spans import binary_of, spans_of


class Wire(IntEnum):
    """What to look for."""

    CONFLUENT = kernels.PREFIX_4  # Apicurio 3 looks the same
    CONFLUENT_PROTOBUF = kernels.PROTOBUF
    APICURIO_2 = kernels.PREFIX_8
    GLUE = kernels.GLUE
    SINGLE_OBJECT = kernels.SINGLE_OBJECT


class WireKind(IntEnum):
    """What a value is: null, not in the format, or whose it is."""

    ABSENT = kernels.ABSENT
    UNFRAMED = kernels.UNFRAMED
    CONFLUENT = kernels.PREFIX_4
    APICURIO_2 = kernels.PREFIX_8
    CONFLUENT_PROTOBUF = kernels.PROTOBUF
    GLUE = kernels.GLUE
    GLUE_ZLIB = kernels.GLUE_ZLIB  # the payload is zlib's
    SINGLE_OBJECT = kernels.SINGLE_OBJECT


@dataclass(frozen=True, slots=True)
class WireColumns:
    """A row for each value; what has no frame is a payload as a whole."""

    data: Bytes
    kinds: Bytes  # WireKind
    ids: Int64s  # a number; of a fingerprint its bits; of a UUID the first half
    low: Int64s  # the second half of a UUID; of Protobuf, where the path of the message begins
    starts: Int64s  # of payloads, in `data`
    sizes: Int64s  # -1 is null

    def payloads(self, rows: Int64s | None = None) -> pa.Array:
        """Payloads of all rows, or of some, as Arrow's binary."""
        if rows is None:
            return binary_of(self.data, self.starts, self.sizes)
        return binary_of(self.data, self.starts[rows], self.sizes[rows])

    def uuid(self, row: int) -> UUID:
        """The UUID that a value of AWS Glue names."""
        halves = np.array([self.ids[row], self.low[row]], dtype=">i8")
        return UUID(bytes=halves.tobytes())

    def message_path(self, row: int) -> tuple[int, ...]:
        """The numbers of nested messages that a value of Confluent's Protobuf names."""
        data = self.data[self.low[row] : self.starts[row]].tobytes()
        numbers = list(_numbers(data))
        return tuple(numbers[1:]) if numbers[0] else (0,)


def _numbers(data: bytes) -> Iterator[int]:
    """Varints that a kernel has checked."""
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield (value >> 1) ^ -(value & 1)
            value = shift = 0


def split(values: pa.Array, wire: Wire) -> WireColumns:
    """Split a binary column in one pass."""
    data, starts, sizes = spans_of(values)
    count = len(values)
    made = WireColumns(
        data,
        np.zeros(count, dtype=np.uint8),
        *(np.zeros(count, dtype=np.int64) for _ in range(4)),
    )
    split_wire(
        data, starts, sizes, int(wire), made.kinds, made.ids, made.low, made.starts, made.sizes
    )
    return made


def fingerprint(schema: AvroSchema) -> int:
    """CRC-64-AVRO of the Parsing Canonical Form, as `WireColumns.ids` has it: signed."""
    crc = _EMPTY
    table = _crc_table()
    for byte in canonical_form(schema).encode():
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc - (1 << 64) if crc >> 63 else crc


_EMPTY = 0xC15D213AA4D7A795


@cache
def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY if value & 1 else 0)
        table.append(value)
    return table


def canonical_form(schema: AvroSchema) -> str:
    """Only what decoding needs, in one order and without spaces; a named type in full once."""
    out: list[str] = []
    try:
        _write_form(schema.types, schema.root, set(), out)
    except RecursionError:
        raise SchemaError("The types of the Avro schema hold each other too deep.") from None
    return "".join(out)


def _write_form(types: tuple[AvroType, ...], number: int, seen: set[str], out: list[str]) -> None:
    one = types[number]
    if one.name in seen or not (one.name or one.branches or one.kind in ("array", "map")):
        out.append(_quoted(one.name or one.kind))
        return
    if one.name:
        seen.add(one.name)
        out.append(f'{{"name":{_quoted(one.name)},"type":"{one.kind}"')
    if one.kind == "record":
        out.append(',"fields":[')
        for index, part in enumerate(one.fields):
            out.append(f'{"," if index else ""}{{"name":{_quoted(part.name)},"type":')
            _write_form(types, part.type, seen, out)
            out.append("}")
        out.append("]}")
    elif one.kind == "enum":
        out.append(f',"symbols":[{",".join(map(_quoted, one.symbols))}]}}')
    elif one.kind == "fixed":
        out.append(f',"size":{one.size}}}')
    elif one.kind == "union":
        out.append("[")
        for index, branch in enumerate(one.branches):
            out.append("," if index else "")
            _write_form(types, branch, seen, out)
        out.append("]")
    else:
        key = "items" if one.kind == "array" else "values"
        out.append(f'{{"type":"{one.kind}","{key}":')
        _write_form(types, one.items, seen, out)
        out.append("}")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
