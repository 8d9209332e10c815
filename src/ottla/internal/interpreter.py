"""One interpreter for every layout: fields and a version become a function that reads them.

Readers take bytes and a position and give a JSON-able value and the position after it. They raise
`MalformedError` and nothing else, and allocate nothing from a length that the bytes do not cover.
A value looks like what Kafka's generated JSON converters print: fields of other versions and tagged
fields equal to their default are left out, bytes are base64, ids have Kafka's own text form.
"""

from binascii import b2a_base64
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby
from struct import Struct
from typing import Final, NamedTuple, cast

from ottla.batch.utf8 import JAVA_ERRORS
from ottla.internal.notation import SchemaField
from ottla.internal.primitives import (
    FIXED,
    FLOAT64,
    SIZES,
    UUID_SIZE,
    Json,
    MalformedError,
    Reader,
    bytes_text,
    check_null_allowed,
    compact_size,
    cut,
    read_uvarint,
    scalar_reader,
    sized_reader,
    uuid_text,
)

MINIMUM_TAG_SIZE: Final = 2  # tag and size, one byte each
UNKNOWN_TAGS: Final = "_unknownTaggedFields"

# What generated statements may name, and how they find where the bytes of a field start and stop:
# not in order where they do not fit, or where the field is null.
_NAMES: Final[dict[str, object]] = {
    "cut": cut,
    "base64": b2a_base64,
    "int16": FIXED["int16"].unpack_from,
    "int32": FIXED["int32"].unpack_from,
}
_COMPACT: Final = [
    "start = at + 1",
    "stop = at + data[at] if at < end and data[at] < 128 else -1",  # one more than the size
]
_STOPS: Final = {
    ("string", True): _COMPACT,
    ("bytes", True): _COMPACT,
    ("string", False): [
        "start = at + 2",
        "stop = start + int16(data, at)[0] if start <= end else -1",
    ],
    ("bytes", False): [
        "start = at + 4",
        "stop = start + int32(data, at)[0] if start <= end else -1",
    ],
}
_TEXTS: Final = {
    "string": f"data[start:stop].decode('utf-8', {JAVA_ERRORS!r})",
    "bytes": "base64(data[start:stop], newline=False).decode('ascii')",
}


def struct_reader(fields: tuple[SchemaField, ...], version: int, *, flexible: bool) -> Reader:
    """Read these fields at this version into a dict.

    The function is put together as source, as namedtuple does: one call for all neighbouring fields
    of fixed size, none for a short string, and a dict display. Closures, one for each field, took
    6 to 38 % more time (rows of `benchmarks/bench_internal.py`).
    """
    names = dict(_NAMES)
    lines = _struct_lines(fields, version, flexible, names)
    source = "\n    ".join(["def read(data, at):", "end = len(data)", *lines, "return values, at"])
    exec(source, names)  # noqa: S102 - made of our own tables
    return cast(Reader, names["read"])


def _struct_lines(
    fields: tuple[SchemaField, ...], version: int, flexible: bool, names: dict[str, object]
) -> list[str]:
    """Statements that read a struct from `data` at `at` into `values`, and move `at` behind it."""
    body = _body(fields, version)
    lines = []
    for fixed, run in groupby(enumerate(body), key=lambda item: _is_fixed(item[1])):
        for piece in [list(run)] if fixed else [[item] for item in run]:
            lines += _read_lines(piece, version, flexible, names)
    display = ", ".join(f"{field.name!r}: v{index}" for index, field in enumerate(body))
    lines.append(f"values = {{{display}}}")
    if flexible:
        names["read_tags"] = _tag_section_reader(fields, version)
        lines += ["if at < end and data[at] == 0: at += 1"]
        lines += ["else: values, at = read_tags(data, at, values)"]
    return lines


def _read_lines(
    piece: list[tuple[int, SchemaField]], version: int, flexible: bool, names: dict[str, object]
) -> list[str]:
    """Statements that read neighbouring fields of fixed size, or one other field."""
    index, field = piece[0]
    if not _is_fixed(field):
        names[f"read{index}"] = _field_reader(field, version, flexible)
        anything = f"v{index}, at = read{index}(data, at)"
        if field.type not in ("string", "bytes") or field.is_array:
            return [anything]
        # Nearly every string is short and not null: that takes no call. Others, broken ones too,
        # are read by the function.
        return [
            *_STOPS[field.type, flexible],
            f"if start <= stop <= end: v{index}, at = {_TEXTS[field.type]}, stop",
            f"else: {anything}",
        ]
    layout = Struct(">" + "".join(FIXED[one.type].format[1:] for _, one in piece))
    names[f"unpack{index}"] = layout.unpack_from
    targets = "".join(f"v{number}, " for number, _ in piece)
    return [
        f"if at + {layout.size} > end: raise cut({field.name!r}, data, at, {layout.size})",
        f"{targets} = unpack{index}(data, at)",
        f"at += {layout.size}",
    ]


def _is_fixed(field: SchemaField) -> bool:
    return field.type in FIXED and not field.is_array


def body_readers(fields: tuple[SchemaField, ...], version: int) -> list[tuple[str, Reader]]:
    """The fields of a version that is not flexible, one by one in byte order."""
    return [
        (field.name, _field_reader(field, version, flexible=False))
        for field in _body(fields, version)
    ]


def _body(fields: tuple[SchemaField, ...], version: int) -> list[SchemaField]:
    """The fields outside the tag section."""
    return [field for field in fields if version in field.versions and version not in field.tagged]


def default_of(field: SchemaField) -> Json:
    """The value of a field that is not there."""
    if field.default == "null":
        return None
    if field.is_array:
        return []
    if field.type == "bool":
        return field.default == "true"
    if field.type in FIXED:
        return int(field.default or 0)
    if field.type == "float64":
        return float(field.default or 0)
    if field.type == "uuid":
        return uuid_text(bytes(UUID_SIZE))
    if field.type == "struct":
        return {inner.name: default_of(inner) for inner in field.fields}
    return field.default or ""


def _field_reader(field: SchemaField, version: int, flexible: bool) -> Reader:
    nullable = version in field.nullable
    if field.is_array:
        return _array_reader(field, version, flexible, nullable)
    if field.type == "struct":
        read = struct_reader(field.fields, version, flexible=flexible)
        if not nullable:
            return read
        return _marked(read, version in field.tagged)
    if field.type in ("string", "bytes"):
        return sized_reader(field.type, flexible, nullable)
    return scalar_reader(field.type)


def _array_reader(field: SchemaField, version: int, flexible: bool, nullable: bool) -> Reader:
    read_count = compact_size if flexible else SIZES["array"]
    read_all = _elements_reader(field, version, flexible)
    minimum = _minimum_size(field, version, flexible)

    def read(data: bytes, at: int) -> tuple[Json, int]:
        count, start = read_count(data, at)
        if count == 0:
            return [], start
        if count < 0:
            check_null_allowed("array", nullable, at)
            return None, start
        if count * minimum > len(data) - start:
            raise cut(f"{field.name}: {count} elements", data, start, count * minimum)
        return read_all(data, start, count)

    return read


def _elements_reader(
    field: SchemaField, version: int, flexible: bool
) -> Callable[[bytes, int, int], tuple[list[Json], int]]:
    """Read `count` elements; the caller has checked that they can fit."""
    if field.type in FIXED:
        code = FIXED[field.type].format[1:]

        def read_fixed(data: bytes, at: int, count: int) -> tuple[list[Json], int]:
            layout = _layout_of(code, count)
            return list(layout.unpack_from(data, at)), at + layout.size

        return read_fixed
    if field.type == "struct":
        return _structs_reader(field.fields, version, flexible)
    if field.type in ("string", "bytes"):
        read = sized_reader(field.type, flexible, nullable=False)
    else:
        read = scalar_reader(field.type)

    def read_each(data: bytes, at: int, count: int) -> tuple[list[Json], int]:
        elements = []
        for _ in range(count):
            element, at = read(data, at)
            elements.append(element)
        return elements, at

    return read_each


def _structs_reader(
    fields: tuple[SchemaField, ...], version: int, flexible: bool
) -> Callable[[bytes, int, int], tuple[list[Json], int]]:
    """As `struct_reader`, with the loop around it: no call for an element."""
    names = dict(_NAMES)
    lines = _struct_lines(fields, version, flexible, names)
    source = "\n    ".join(
        [
            "def read(data, at, count):",
            "end = len(data)",
            "elements = []",
            "for _ in range(count):",
            *(f"    {line}" for line in [*lines, "elements.append(values)"]),
            "return elements, at",
        ]
    )
    exec(source, names)  # noqa: S102 - made of our own tables
    return cast(Callable[[bytes, int, int], tuple[list[Json], int]], names["read"])


@lru_cache(maxsize=256)
def _layout_of(code: str, count: int) -> Struct:
    return Struct(f">{count}{code}")


def _minimum_size(field: SchemaField, version: int, flexible: bool) -> int:
    """The fewest bytes an element of this array field takes: what bounds a count."""
    if field.type in FIXED:
        return FIXED[field.type].size
    if field.type != "struct":
        return {"uuid": UUID_SIZE, "float64": FLOAT64.size, "string": 1 if flexible else 2}.get(
            field.type, 1
        )
    return max(1, len(_body(field.fields, version)))


def _marked(read: Reader, tagged: bool) -> Reader:
    """A nullable struct has a marker before it: a uvarint in a tag section, else an int8."""
    read_marker = read_uvarint if tagged else scalar_reader("int8")

    def read_or_null(data: bytes, at: int) -> tuple[Json, int]:
        marker, at = read_marker(data, at)
        present = marker > 0 if tagged else marker >= 0
        return read(data, at) if present else (None, at)

    return read_or_null


class _Tagged(NamedTuple):
    name: str
    read: Reader
    default: Json


def _tag_section_reader(
    fields: tuple[SchemaField, ...], version: int
) -> Callable[[bytes, int, dict[str, Json]], tuple[Json, int]]:
    """Read a tag section; what it holds takes its schema place among the values."""
    present = [field for field in fields if version in field.versions]
    tagged = [field for field in present if version in field.tagged]
    known = {
        field.tag: _Tagged(field.name, _field_reader(field, version, True), default_of(field))
        for field in tagged
    }
    order = [*(field.name for field in present), UNKNOWN_TAGS]

    def read(data: bytes, at: int, values: dict[str, Json]) -> tuple[Json, int]:
        count, at = read_uvarint(data, at)
        if count * MINIMUM_TAG_SIZE > len(data) - at:
            raise cut(f"{count} tagged fields", data, at, count * MINIMUM_TAG_SIZE)
        for _ in range(count):
            at = _read_tagged(data, at, known, values)
        return {name: values[name] for name in order if name in values}, at

    return read


def _read_tagged(
    data: bytes, at: int, known: dict[int | None, _Tagged], values: dict[str, Json]
) -> int:
    tag, at = read_uvarint(data, at)
    size, at = read_uvarint(data, at)
    stop = at + size
    if stop > len(data):
        raise cut(f"tagged field {tag}", data, at, size)
    if tag not in known:
        values.setdefault(UNKNOWN_TAGS, {})[str(tag)] = bytes_text(data[at:stop])
        return stop
    name, read, default = known[tag]
    value, taken = read(data[at:stop], 0)
    if taken != size:
        raise MalformedError(f"{name} takes {taken} bytes at {at}, its tag says {size}")
    if value != default:
        values[name] = value
    return stop
