"""The columns that a reader's schema gives, and where each keeps its memory."""

from dataclasses import dataclass, field

import pyarrow as pa

from ottla.errors import SchemaError
from ottla.schemas.avro_resolve import find_recursive
from ottla.schemas.avro_schema import MAX_DEPTH, AvroSchema, AvroType

MAX_COLUMNS = 10_000

_PRIMITIVE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "uuid": pa.string(),
    "duration": pa.binary(12),
}
NONE = -1


@dataclass(slots=True)
class AvroColumn:
    """One column, or the struct, list or map that holds others."""

    kind: str  # null, fixed (width), boolean, bytes, struct, list, map, text (JSON of Avro)
    type: pa.DataType
    level: int  # whose rows it has
    valid: int = NONE  # slots of memory
    value: int = NONE
    counter: int = NONE  # of its bytes, or of the rows of its items
    width: int = 0
    children: list["AvroColumn"] = field(default_factory=list)
    of: int = 0  # the number of the reader's type
    choices: tuple[int, ...] = ()  # of a union: the child of each branch; -1 is null


@dataclass(frozen=True, slots=True)
class Slot:
    """Memory of a column: `width` bytes for each row of a level, and of `more` rows."""

    level: int
    width: int
    more: int = 0
    unit: int = 1  # how kernels count places in it: as bytes, or as numbers of its width


class Columns:
    """Makes columns of types, and counts what they need."""

    def __init__(self, schema: AvroSchema) -> None:
        self._types = schema.types
        self.recursive = find_recursive(schema.types)
        self.slots: list[Slot] = []
        self.counters = 1  # the first has the rows of the datums
        self.levels = [0]
        self._made = 0
        self.top = self._column(schema.root, 0, True, 0)

    def _column(self, number: int, level: int, nullable: bool, depth: int) -> AvroColumn:
        one = self._types[number]
        self._made += 1
        if self._made > MAX_COLUMNS:
            raise SchemaError(f"The Avro schema makes more than {MAX_COLUMNS:,} columns.")
        if depth > MAX_DEPTH:
            raise SchemaError(f"The Avro schema is nested deeper than {MAX_DEPTH} columns.")
        if one.kind == "union":
            return self._union(one, level, nullable, depth)
        if one.kind == "null":
            return AvroColumn("null", pa.null(), level, of=number)
        made = self._value(number, one, level, depth)
        if nullable:
            made.valid = self._slot(level, 1)
        return made

    def _value(self, number: int, one: AvroType, level: int, depth: int) -> AvroColumn:
        if one.kind == "record":
            if number in self.recursive:
                return self._bytes("text", pa.string(), number, level)
            if not one.fields:
                return self._bytes("bytes", pa.string(), number, level)
            children = [self._column(part.type, level, False, depth + 1) for part in one.fields]
            names = [part.name for part in one.fields]
            return AvroColumn(
                "struct", _struct(names, children), level, children=children, of=number
            )
        if one.kind in ("array", "map"):
            inner = self._counter()
            self.levels.append(inner)
            made = AvroColumn(one.kind, pa.null(), level, counter=inner, of=number)
            made.value = self._slot(level, 4, 1, 4)
            if one.kind == "map":
                made.children.append(self._bytes("bytes", pa.string(), number, inner))
            item = self._column(one.items, inner, False, depth + 1)
            made.children.append(item)
            made.type = (
                pa.map_(pa.string(), item.type) if one.kind == "map" else pa.list_(item.type)
            )
            return made
        if one.logical == "decimal":
            wide = one.precision > 38
            decimal = pa.decimal256 if wide else pa.decimal128
            return self._fixed(number, decimal(one.precision, one.scale), 32 if wide else 16, level)
        kind: pa.DataType = _LOGICAL.get(one.logical) or _PRIMITIVE.get(one.kind)
        if kind in (pa.string(), pa.binary()) or (one.kind == "fixed" and one.size == 0):
            return self._bytes("bytes", kind or pa.binary(), number, level)
        if one.kind == "fixed":
            return self._fixed(number, pa.binary(one.size), one.size, level)
        if one.kind == "boolean":
            slot = self._slot(level, 1)
            return AvroColumn("boolean", pa.bool_(), level, value=slot, of=number)
        return self._fixed(number, kind, kind.bit_width // 8, level)

    def _union(self, one: AvroType, level: int, nullable: bool, depth: int) -> AvroColumn:
        """Nullable if null is a branch; more than one other is a struct of all of them."""
        branches = [at for at in one.branches if self._types[at].kind != "null"]
        if not branches:
            return self._column(one.branches[0], level, True, depth + 1)
        nullable = nullable or len(branches) < len(one.branches)
        if len(branches) == 1:
            return self._column(branches[0], level, nullable, depth + 1)
        children = [self._column(at, level, True, depth + 1) for at in branches]
        places = iter(range(len(branches)))
        choices = tuple(NONE if at not in branches else next(places) for at in one.branches)
        names = _branch_names([self._types[at] for at in branches])
        made = AvroColumn(
            "struct", _struct(names, children), level, children=children, choices=choices
        )
        if nullable:
            made.valid = self._slot(level, 1)
        return made

    def _bytes(self, kind: str, type_: pa.DataType, number: int, level: int) -> AvroColumn:
        slot = self._slot(level, 4, 1, 4)
        return AvroColumn(kind, type_, level, value=slot, counter=self._counter(), of=number)

    def _fixed(self, number: int, type_: pa.DataType, width: int, level: int) -> AvroColumn:
        is_bytes = pa.types.is_fixed_size_binary(type_) or pa.types.is_decimal(type_)
        slot = self._slot(level, width, unit=1 if is_bytes else width)
        return AvroColumn("fixed", type_, level, value=slot, width=width, of=number)

    def _slot(self, level: int, width: int, more: int = 0, unit: int = 1) -> int:
        self.slots.append(Slot(level, width, more, unit))
        return len(self.slots) - 1

    def _counter(self) -> int:
        self.counters += 1
        return self.counters - 1


def _struct(names: list[str], children: list[AvroColumn]) -> pa.DataType:
    return pa.struct(
        [pa.field(name, child.type) for name, child in zip(names, children, strict=True)]
    )


def _branch_names(branches: list[AvroType]) -> list[str]:
    """What the branches of a union are called: by their short names if these differ."""
    short = [one.short_name or one.kind for one in branches]
    return short if len(set(short)) == len(short) else [one.name or one.kind for one in branches]
