"""Avro schemas, parsed: types in one flat table, each known by its number, named ones once."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.errors import SchemaError

MAX_TEXT: Final = 10_000_000  # characters, references included
MAX_TYPES: Final = 100_000
MAX_DEPTH: Final = 64  # of types in types

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
# Logical types by what they stand on; others, and these elsewhere, are what they stand on.
_LOGICAL: Final = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "local-timestamp-nanos",
    ),
    "string": ("uuid",),
    "bytes": ("decimal",),
    "fixed": ("decimal", "duration", "uuid"),
}
_FIXED_SIZES: Final = {"duration": 12, "uuid": 16}
_MAX_PRECISION: Final = 76  # of Arrow's widest decimal
_MAX_FIXED: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record; its default is JSON as parsed, if it has one."""

    name: str
    type: int
    aliases: tuple[str, ...]
    has_default: bool
    default: Any


@dataclass(frozen=True, slots=True)
class AvroType:
    """One type; types in it are numbers of the schema's table."""

    kind: str
    name: str = ""  # with its namespace
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None  # of an enum
    size: int = 0
    items: int = 0  # of an array or the values of a map
    branches: tuple[int, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class AvroSchema:
    """A parsed schema: equal to another when the texts are."""

    text: str
    references: tuple[str, ...]
    types: tuple[AvroType, ...] = field(compare=False, repr=False)
    root: int = field(compare=False, repr=False)
    older: tuple["AvroSchema", ...] = ()  # whose fields it has too

    def __reduce__(self) -> tuple[Any, ...]:
        if self.older:
            from ottla.schemas.avro_merge import merge_avro

            return merge_avro, (parse_avro(self.text, self.references), self.older)
        return parse_avro, (self.text, self.references)

    @property
    def top(self) -> AvroType:
        """The type of a datum."""
        return self.types[self.root]

    @property
    def is_raw(self) -> bool:
        """Whether Confluent's serialisers write values without their length: just "bytes"."""
        return self.top.kind == "bytes"


def parse_avro(text: str, references: Sequence[str] = ()) -> AvroSchema:
    """Parse a schema; names that it lacks are those which references define, in their order."""
    if len(text) + sum(map(len, references)) > MAX_TEXT:
        raise SchemaError(f"The schema has more than {MAX_TEXT:,} characters.")
    parser = _TypeTable()
    for reference in dict.fromkeys(references):
        parser.parse(_load(reference), "", 0)
    root = parser.parse(_load(text), "", 0)
    return AvroSchema(text, tuple(references), tuple(parser.types), root)


def _load(text: str) -> Any:
    """JSON; a bare name of a type, without quotes, is what some registries keep."""
    if text.strip() in PRIMITIVES:
        return text.strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"The Avro schema is no JSON: {_short(error)}.") from None


def _short(thing: object) -> str:
    text = str(thing)
    text = text if len(text) <= 80 else text[:77] + "..."
    return text.encode("utf-8", "backslashreplace").decode()


class _TypeTable:
    """Fills the table of types."""

    def __init__(self) -> None:
        self.types: list[AvroType] = []
        self._names: dict[str, int] = {}
        self._plain: dict[str, int] = {}

    def parse(self, given: Any, namespace: str, depth: int) -> int:
        """The number of a type."""
        if depth > MAX_DEPTH:
            raise SchemaError(f"The Avro schema is nested deeper than {MAX_DEPTH} types.")
        if isinstance(given, str):
            return self._named(given, namespace)
        if isinstance(given, list):
            return self._union(given, namespace, depth)
        if not isinstance(given, dict):
            raise SchemaError(f"An Avro type is a name, a list or an object, not {_short(given)}.")
        kind = given.get("type")
        if not isinstance(kind, str):
            return self.parse(kind, namespace, depth + 1)
        if kind in ("record", "error"):
            return self._record(given, namespace, depth)
        if kind == "enum":
            return self._enum(given, namespace)
        if kind == "fixed":
            return self._fixed(given, namespace)
        if kind == "array":
            return self._add(
                AvroType("array", items=self._inside(given, "items", namespace, depth))
            )
        if kind == "map":
            return self._add(AvroType("map", items=self._inside(given, "values", namespace, depth)))
        if kind not in PRIMITIVES:
            return self._named(kind, namespace)
        logical, precision, scale = _logical(given, kind, 0)
        if not logical:
            return self._named(kind, namespace)
        return self._add(AvroType(kind, logical=logical, precision=precision, scale=scale))

    def _add(self, one: AvroType) -> int:
        if len(self.types) >= MAX_TYPES:
            raise SchemaError(f"The Avro schema has more than {MAX_TYPES:,} types.")
        self.types.append(one)
        return len(self.types) - 1

    def _named(self, name: str, namespace: str) -> int:
        if name in PRIMITIVES:
            if name not in self._plain:
                self._plain[name] = self._add(AvroType(name))
            return self._plain[name]
        full = _full_name(name, namespace)
        found = self._names.get(full, self._names.get(name))
        if found is None:
            raise SchemaError(f"The Avro schema names a type that nothing defines: {_short(full)}.")
        return found

    def _inside(self, given: dict[str, Any], key: str, namespace: str, depth: int) -> int:
        if key not in given:
            raise SchemaError(f"An Avro type of {given['type']} has no {key}.")
        return self.parse(given[key], namespace, depth + 1)

    def _union(self, given: list[Any], namespace: str, depth: int) -> int:
        if not given:
            raise SchemaError("An Avro union has no branches.")
        branches = tuple(self.parse(one, namespace, depth + 1) for one in given)
        seen = set()
        for branch in branches:
            one = self.types[branch]
            if one.kind == "union":
                raise SchemaError("An Avro union holds another union.")
            label = one.name or one.kind
            if label in seen:
                raise SchemaError(f"An Avro union has two branches of {_short(label)}.")
            seen.add(label)
        return self._add(AvroType("union", branches=branches))

    def _define(self, given: dict[str, Any], namespace: str, kind: str) -> tuple[int, AvroType]:
        name = _name_of(given, f"An Avro {kind}")
        inner = given.get("namespace")
        if inner is not None and not isinstance(inner, str):
            raise SchemaError(f"A namespace is a text, not {_short(inner)}.")
        full = _full_name(name, namespace if inner is None else inner)
        if not full:
            raise SchemaError(f"The name of an Avro {kind} is a dot.")
        if full in self._names or full in PRIMITIVES:
            raise SchemaError(f"The Avro schema defines {_short(full)} twice.")
        space = full.rpartition(".")[0]
        aliases = tuple(_full_name(one, space) for one in _texts(given, "aliases"))
        one = AvroType(kind, name=full, aliases=aliases)
        self._names[full] = self._add(one)
        return self._names[full], one

    def _record(self, given: dict[str, Any], namespace: str, depth: int) -> int:
        number, begun = self._define(given, namespace, "record")
        space = begun.name.rpartition(".")[0]
        fields: list[AvroField] = []
        listed = given.get("fields")
        if not isinstance(listed, list):
            raise SchemaError(f"The Avro record {_short(begun.name)} has no list of fields.")
        for one in listed:
            if not isinstance(one, dict):
                raise SchemaError(f"A field of {_short(begun.name)} is no object.")
            name = _name_of(one, f"A field of {_short(begun.name)}")
            if "type" not in one:
                raise SchemaError(f"The field {_short(name)} of {_short(begun.name)} has no type.")
            fields.append(
                AvroField(
                    name,
                    self.parse(one["type"], space, depth + 1),
                    _texts(one, "aliases"),
                    "default" in one,
                    one.get("default"),
                )
            )
        if len({one.name for one in fields}) < len(fields):
            raise SchemaError(f"The Avro record {_short(begun.name)} has two fields of one name.")
        self.types[number] = AvroType(
            "record", name=begun.name, aliases=begun.aliases, fields=tuple(fields)
        )
        return number

    def _enum(self, given: dict[str, Any], namespace: str) -> int:
        number, begun = self._define(given, namespace, "enum")
        symbols = _texts(given, "symbols")
        default = given.get("default")
        if not symbols:
            raise SchemaError(f"The Avro enum {_short(begun.name)} has no symbols.")
        if len(set(symbols)) < len(symbols):
            raise SchemaError(f"The Avro enum {_short(begun.name)} has a symbol twice.")
        if default is not None and default not in symbols:
            raise SchemaError(f"The default of the enum {_short(begun.name)} is no symbol of it.")
        self.types[number] = AvroType(
            "enum", name=begun.name, aliases=begun.aliases, symbols=symbols, default=default
        )
        return number

    def _fixed(self, given: dict[str, Any], namespace: str) -> int:
        number, begun = self._define(given, namespace, "fixed")
        size = given.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MAX_FIXED:
            raise SchemaError(f"The size of {_short(begun.name)} is {_short(size)}.")
        logical, precision, scale = _logical(given, "fixed", size)
        self.types[number] = AvroType(
            "fixed",
            name=begun.name,
            aliases=begun.aliases,
            size=size,
            logical=logical,
            precision=precision,
            scale=scale,
        )
        return number


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _logical(given: dict[str, Any], kind: str, size: int) -> tuple[str, int, int]:
    """Name, precision and scale; what is not valid is ignored, as the specification asks."""
    logical = given.get("logicalType")
    if not isinstance(logical, str) or logical not in _LOGICAL.get(kind, ()):
        return "", 0, 0
    if logical == "decimal":
        precision, scale = given.get("precision"), given.get("scale", 0)
        if not _is_int(precision) or not _is_int(scale):
            return "", 0, 0
        assert isinstance(precision, int)
        if not 0 < precision <= _MAX_PRECISION or not 0 <= scale <= precision:
            return "", 0, 0
        if kind == "fixed" and precision > _digits(size):
            return "", 0, 0
        return logical, precision, scale
    if kind == "fixed" and size != _FIXED_SIZES[logical]:
        return "", 0, 0
    return logical, 0, 0


def _digits(size: int) -> int:
    """How many decimal digits always fit into a number of so many bytes."""
    return _MAX_PRECISION if size >= 32 else len(str(2 ** (8 * size - 1) - 1)) - 1 if size else 0


def _full_name(name: str, namespace: str) -> str:
    return name.lstrip(".") if "." in name or not namespace else f"{namespace}.{name}"


def _name_of(given: dict[str, Any], what: str) -> str:
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaError(f"{what} has no name.")
    return _sound(name)


def _texts(given: dict[str, Any], key: str) -> tuple[str, ...]:
    found = given.get(key)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise SchemaError(f"The {key} in an Avro schema are a list of texts.")
    return tuple(_sound(one) for one in found)


def _sound(name: str) -> str:
    """A name that a column can have: text that UTF-8 can hold, without control characters."""
    if not name.isprintable():
        raise SchemaError(f"A name in an Avro schema has characters that nothing shows: {name!a}.")
    return name
