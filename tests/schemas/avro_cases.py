"""Random Avro schemas with values, and fastavro's word for what their bytes mean."""

import datetime
import decimal
import io
import json
import math
import struct
import uuid
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS
from hypothesis import strategies as st

Json = Any
DEPTH = 4
PLAIN = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL: list[dict[str, Json]] = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-nanos"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 3},
    {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 0},
]
# Times are of one day; millisecond timestamps must be microseconds too.
RANGES = {
    "time-millis": (0, 86_399_999),
    "time-micros": (0, 86_399_999_999),
    "timestamp-millis": (-(2**63) // 1000 + 1, 2**63 // 1000 - 1),
    "local-timestamp-millis": (-(2**63) // 1000 + 1, 2**63 // 1000 - 1),
}


@st.composite
def schemas(draw: st.DrawFn, depth: int = DEPTH, names: list[Json] | None = None) -> Json:
    """A schema that may refer to the named types that it has defined before."""
    names = [] if names is None else names
    kinds = ["plain", "plain", "logical", "fixed", "enum"]
    if depth:
        kinds += ["record", "record", "array", "map", "union", "union"]
    if names:
        kinds.append("again")
    kind = draw(st.sampled_from(kinds))
    name = f"N{len(names)}"
    match kind:
        case "plain":
            return draw(st.sampled_from(PLAIN))
        case "logical":
            return dict(draw(st.sampled_from(LOGICAL)))
        case "again":
            return draw(st.sampled_from(names))["name"]
        case "fixed":
            made = draw(
                st.sampled_from(
                    [
                        {"size": 0},
                        {"size": 5},
                        {"size": 8},
                        {"size": 12, "logicalType": "duration"},
                        {"size": 16, "logicalType": "uuid"},
                        {"size": 9, "logicalType": "decimal", "precision": 12, "scale": 2},
                    ]
                )
            )
            names.append({"type": "fixed", "name": name, **made})
            return names[-1]
        case "enum":
            names.append({"type": "enum", "name": name, "symbols": ["A", "BÄ", "CCC"]})
            names[-1]["symbols"][1] = "B" * 40
            return names[-1]
        case "record":
            # Fields are made first, so that no type refers to one that is not there yet.
            fields = [
                {"name": f"f{at}", "type": draw(schemas(depth - 1, names))}
                for at in range(draw(st.integers(0, 4)))
            ]
            record = {"type": "record", "name": f"N{len(names)}", "fields": fields}
            names.append(record)
            return record
        case "array":
            return {"type": "array", "items": draw(schemas(depth - 1, names))}
        case "map":
            return {"type": "map", "values": draw(schemas(depth - 1, names))}
    branches: list[Json] = []
    for _ in range(draw(st.integers(1, 4))):
        known = len(names)
        one = draw(schemas(depth - 1, names))
        if isinstance(one, list) or label(one) in [label(other) for other in branches]:
            del names[known:]  # what it defined is not in the schema
        else:
            branches.append(one)
    return branches or "null"


def label(schema: Json) -> str:
    """What a branch of a union is told by."""
    if isinstance(schema, str):
        return schema
    return str(schema["name"] if "name" in schema else schema["type"])


Named = dict[str, Json]


def named(schema: Json, found: Named | None = None) -> Named:
    """The named types of a schema."""
    found = {} if found is None else found
    if isinstance(schema, list):
        for one in schema:
            named(one, found)
    elif isinstance(schema, dict):
        if "name" in schema:
            found[schema["name"]] = schema
        for one in schema.get("fields", []):
            named(one["type"], found)
        for key in ("items", "values"):
            if key in schema:
                named(schema[key], found)
    return found


def values(schema: Json, types: Named) -> st.SearchStrategy[Json]:
    """Raw values, as they are below logical types; of a union (branch, value)."""
    if isinstance(schema, list):
        return st.one_of(
            *(st.tuples(st.just(at), values(one, types)) for at, one in enumerate(schema))
        )
    if isinstance(schema, str) and schema in types:
        return values(types[schema], types)
    kind = schema if isinstance(schema, str) else schema["type"]
    logical = "" if isinstance(schema, str) else schema.get("logicalType", "")
    match kind:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "int":
            return st.integers(*RANGES.get(logical, (-(2**31), 2**31 - 1)))
        case "long":
            return st.integers(*RANGES.get(logical, (-(2**63), 2**63 - 1)))
        case "float":
            return st.floats(width=32)
        case "double":
            return st.floats()
        case "bytes":
            if logical:
                limit = 10 ** schema["precision"] - 1
                return st.integers(-limit, limit).map(_signed)
            return st.binary(max_size=70)
        case "string":
            return st.uuids().map(str) if logical else st.text(max_size=20)
        case "fixed":
            if logical == "decimal":
                limit = 10 ** schema["precision"] - 1
                return st.integers(-limit, limit).map(
                    lambda number: number.to_bytes(schema["size"], "big", signed=True)
                )
            return st.binary(min_size=schema["size"], max_size=schema["size"])
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "array":
            return st.lists(values(schema["items"], types), max_size=4)
        case "map":
            return st.dictionaries(st.text(max_size=4), values(schema["values"], types), max_size=4)
    return st.fixed_dictionaries(
        {one["name"]: values(one["type"], types) for one in schema["fields"]}
    )


def thorough(schema: Json, types: Named) -> list[Json]:
    """Values that together meet every branch of every union, and no list that is empty."""
    if isinstance(schema, list):
        return [(at, one) for at, branch in enumerate(schema) for one in thorough(branch, types)]
    if isinstance(schema, str) and schema in types:
        return thorough(types[schema], types)
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "array":
            return [thorough(schema["items"], types)]
        case "map":
            inner = thorough(schema["values"], types)
            return [{str(at): one for at, one in enumerate(inner)}]
        case "fixed":
            return [bytes(schema["size"])]
        case "enum":
            return list(schema["symbols"])
        case "record":
            fields = {one["name"]: thorough(one["type"], types) for one in schema["fields"]}
            count = max(map(len, fields.values()), default=1)
            return [
                {name: several[at % len(several)] for name, several in fields.items()}
                for at in range(count)
            ]
    return [_SIMPLE[kind]]


_SIMPLE: dict[str, Json] = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 1,
    "float": 1.0,
    "double": 1.0,
    "bytes": b"1",
    "string": "1",
}


def _signed(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def encode(schema: Json, value: Json, types: Named) -> bytes:
    """The naive writer: fastavro's would choose branches by itself and refuse odd values."""
    if isinstance(schema, list):
        return varint(value[0]) + encode(schema[value[0]], value[1], types)
    if isinstance(schema, str) and schema in types:
        return encode(types[schema], value, types)
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return varint(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "bytes":
            return varint(len(value)) + value
        case "string":
            return varint(len(value.encode())) + value.encode()
        case "fixed":
            return bytes(value)
        case "enum":
            return varint(schema["symbols"].index(value))
        case "array":
            return blocks([encode(schema["items"], one, types) for one in value])
        case "map":
            return blocks(
                [
                    encode("string", key, types) + encode(schema["values"], one, types)
                    for key, one in value.items()
                ]
            )
    return b"".join(encode(one["type"], value[one["name"]], types) for one in schema["fields"])


def blocks(items: list[bytes]) -> bytes:
    """A list as two blocks, the second with its size."""
    out = varint(1) + items[0] if items else b""
    if items[1:]:
        rest = b"".join(items[1:])
        out += varint(1 - len(items)) + varint(len(rest)) + rest
    return out + b"\0"


def varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes(out) + bytes([raw])


def read_by_fastavro(datum: bytes, writer: Json, reader: Json | None = None) -> Json:
    """The value without logical types, which are compared as the numbers they stand on."""
    kept = dict(LOGICAL_READERS)
    LOGICAL_READERS.clear()
    try:
        stream = io.BytesIO(datum)
        value = fastavro.schemaless_reader(stream, writer, reader)
        if stream.read(1):
            raise ValueError("bytes remain")
        return value
    finally:
        LOGICAL_READERS.update(kept)


def is_read_by_fastavro(datum: bytes, writer: Json, reader: Json) -> bool:
    """Whether it resolves; fastavro has many words for what does not."""
    try:
        read_by_fastavro(datum, writer, reader)
    except Exception:
        return False
    return True


def plain(schema: Json, types: Named, value: Json) -> Json:
    """What Arrow gave, in fastavro's form: raw values, unions without their branches.

    `schema` is the reader's.
    """
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if value is None:
            return None
        if len(others) == 1:
            return plain(others[0], types, value)
        found = [
            (one, inner)
            for one, inner in zip(others, value.values(), strict=True)
            if inner is not None
        ]
        assert len(found) == 1, value
        return plain(found[0][0], types, found[0][1])
    if isinstance(schema, str) and schema in types:
        return plain(types[schema], types, value)
    kind = schema if isinstance(schema, str) else schema["type"]
    logical = "" if isinstance(schema, str) else schema.get("logicalType", "")
    if logical and logical != "duration":
        return RAW[logical](schema, value)
    match kind:
        case "array":
            return [plain(schema["items"], types, one) for one in value]
        case "map":
            return {key: plain(schema["values"], types, one) for key, one in value}
        case "record":
            if not schema["fields"]:
                assert value == "{}"
                return {}
            return {
                one["name"]: plain(one["type"], types, value[one["name"]])
                for one in schema["fields"]
            }
    return value


def _time(value: datetime.time) -> int:
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


RAW: dict[str, Callable[[Json, Any], Json]] = {
    "date": lambda _, value: value,
    "time-millis": lambda _, value: _time(value) // 1000,
    "time-micros": lambda _, value: _time(value),
    "timestamp-millis": lambda _, value: value // 1000,
    "timestamp-micros": lambda _, value: value,
    "timestamp-nanos": lambda _, value: value,
    "local-timestamp-millis": lambda _, value: value // 1000,
    "local-timestamp-micros": lambda _, value: value,
    "local-timestamp-nanos": lambda _, value: value,
    "uuid": lambda schema, value: value if schema["type"] == "string" else uuid.UUID(value).bytes,
    "decimal": lambda schema, value: _decimal(schema, value),
}


class Unscaled(int):
    """A decimal without its point: equal to the bytes that mean this number."""


def _decimal(schema: Json, value: decimal.Decimal) -> Unscaled:
    return Unscaled(value.scaleb(schema["scale"], decimal.Context(prec=100)))


def numbers(kind: pa.DataType) -> pa.DataType:
    """The same type with numbers for dates and timestamps, which Python's can not all hold."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, numbers(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(numbers(kind.value_type))
    return kind


def as_numbers(array: pa.Array) -> pa.Array:
    """An array read again by `numbers`, from the same memory."""
    kind = array.type
    if pa.types.is_null(kind):
        return array
    buffers = array.buffers()
    if pa.types.is_struct(kind):
        children = [as_numbers(array.field(at)) for at in range(kind.num_fields)]
        return pa.Array.from_buffers(numbers(kind), len(array), buffers[:1], children=children)
    if pa.types.is_map(kind):
        entry = pa.struct([numbers(kind).key_field, numbers(kind).item_field])
        entries = pa.Array.from_buffers(
            entry, len(array.keys), [None], children=[array.keys, as_numbers(array.items)]
        )
        return pa.Array.from_buffers(numbers(kind), len(array), buffers[:2], children=[entries])
    if pa.types.is_list(kind):
        children = [as_numbers(array.values)]
        return pa.Array.from_buffers(numbers(kind), len(array), buffers[:2], children=children)
    return pa.Array.from_buffers(numbers(kind), len(array), buffers)


def same(left: Json, right: Json) -> bool:
    """Equality in which NaN is NaN, and a float of 32 bits is what it was rounded from."""
    if isinstance(left, Unscaled):
        return isinstance(right, bytes) and left == int.from_bytes(right, "big", signed=True)
    if isinstance(left, float) or isinstance(right, float):
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            return False
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right or (
            abs(left) < 3.4e38 and struct.pack("<f", left) == struct.pack("<f", right)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


def parsed(schema: Json) -> tuple[str, Json]:
    """The text for us, and what fastavro makes of it."""
    text = json.dumps(schema)
    return text, fastavro.parse_schema(json.loads(text))


PROMOTED = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "bytes": ["string"],
    "string": ["bytes"],
    "boolean": ["int"],  # which is none
}
ADDED: list[dict[str, Json]] = [
    {"type": "int", "default": 7},
    {"type": "string", "default": "other"},
    {"type": ["null", "string"], "default": None},
    {"type": ["double", "null"], "default": 0.5},
    {"type": {"type": "array", "items": "long"}, "default": [1, 2, 3]},
    {"type": {"type": "map", "values": "string"}, "default": {"a": "b"}},
]


# fastavro takes the first branch that a value can be promoted to, even where there is one of the
# very type: unions have no such choice here. `test_a_branch_of_the_very_type_is_chosen` has.
_WIDTHS = {"long": 1, "float": 2, "double": 3}
_EITHER = {"bytes", "string"}


@st.composite
def readers(draw: st.DrawFn, schema: Json, depth: int = 0) -> Json:
    """A reader's schema for a writer's: fields moved, renamed, dropped, added; numbers promoted."""
    if isinstance(schema, list):
        branches = [draw(readers(one, depth + 1)) for one in schema]
        branches = draw(st.permutations(branches))
        kept: list[Json] = []
        for one in sorted(branches, key=lambda one: _WIDTHS.get(label(one), 0)):
            known = {label(other) for other in kept}
            if label(one) not in known and not {label(one), *known} >= _EITHER:
                kept.append(one)
        return kept
    if isinstance(schema, str):
        return draw(st.sampled_from([schema] * 3 + PROMOTED.get(schema, [schema])))
    made = dict(schema)
    if made["type"] == "array":
        made["items"] = draw(readers(schema["items"], depth + 1))
    elif made["type"] == "map":
        made["values"] = draw(readers(schema["values"], depth + 1))
    elif made["type"] == "enum" and draw(st.booleans()):
        made |= {"symbols": ["CCC", "A", "NEW"], "default": "NEW"}
    elif made["type"] == "record":
        fields = []
        for one in draw(st.permutations(schema["fields"])):
            fate = draw(st.sampled_from(["keep", "keep", "drop", "rename"]))
            if fate == "drop" and not named(one["type"]):
                continue
            field = {"name": one["name"], "type": draw(readers(one["type"], depth + 1))}
            if fate == "rename":
                field |= {"name": f"new_{one['name']}", "aliases": [one["name"]]}
            fields.append(field)
        added = draw(st.lists(st.sampled_from(ADDED), max_size=2))
        fields += [{"name": f"added{at}", **one} for at, one in enumerate(added)]
        made["fields"] = fields
    return made
