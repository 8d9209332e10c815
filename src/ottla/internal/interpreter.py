"""One interpreter for every layout: fields and a version become a function that reads them.

Readers take bytes and a position and give a JSON-able value and the position after it. They raise
`MalformedError` and nothing else, and allocate nothing from a length that the bytes do not cover.
A value looks like what Kafka's generated JSON converters print: fields of other versions and tagged
fields equal to their default are left out, bytes are base64, ids have Kafka's own text form.
"""

import math
from binascii import b2a_base64
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from ottla.internal.notation import Field

Json = Any  # str, int, float, bool, None, list[Json] or dict[str, Json]
Reader = Callable[[bytes, int], tuple[Json, int]]

FIXED: Final = {
    kind: Struct(f">{code}")
    for kind, code in {
        "bool": "?",
        "int8": "b",
        "int16": "h",
        "int32": "i",
        "int64": "q",
        "uint16": "H",
        "uint32": "I",
    }.items()
}
UUID_SIZE: Final = 16
URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
FLOAT64: Final = Struct(">d")
MAX_UVARINT_SIZE: Final = 5
MAX_STRING_SIZE: Final = 2**15 - 1
MINIMUM_TAG_SIZE: Final = 2  # tag and size, one byte each
UNKNOWN_TAGS: Final = "_unknownTaggedFields"


class MalformedError(Exception):
    """The bytes are not what the schema says; the text says where."""


def struct_reader(fields: tuple[Field, ...], version: int, *, flexible: bool) -> Reader:
    """Read these fields at this version into a dict."""
    body = body_readers(fields, version, flexible=flexible)
    if not flexible:
        return _plain_struct_reader(body)
    read_tags = _tag_section_reader(fields, version)

    def read(data: bytes, at: int) -> tuple[Json, int]:
        values: dict[str, Json] = {}
        for name, read_field in body:
            values[name], at = read_field(data, at)
        if at < len(data) and data[at] == 0:
            return values, at + 1
        return read_tags(data, at, values)

    return read


def _plain_struct_reader(body: list[tuple[str, Reader]]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Json, int]:
        values: dict[str, Json] = {}
        for name, read_field in body:
            values[name], at = read_field(data, at)
        return values, at

    return read


def body_readers(
    fields: tuple[Field, ...], version: int, *, flexible: bool
) -> list[tuple[str, Reader]]:
    """The fields outside the tag section, in byte order."""
    return [
        (field.name, _field_reader(field, version, flexible))
        for field in fields
        if version in field.versions and version not in field.tagged
    ]


def default_of(field: Field) -> Json:
    """The value of a field that is not there."""
    if field.default == "null":
        return None
    if field.is_array:
        return []
    if field.type == "bool":
        return field.default == "true"
    if field.type in FIXED:
        return int(field.default or 0)
    if field.type == "uuid":
        return uuid_text(bytes(UUID_SIZE))
    if field.type == "struct":
        return {inner.name: default_of(inner) for inner in field.fields}
    return field.default or ""


def _field_reader(field: Field, version: int, flexible: bool) -> Reader:
    nullable = version in field.nullable
    if field.is_array:
        return _array_reader(field, version, flexible, nullable)
    if field.type == "struct":
        read = struct_reader(field.fields, version, flexible=flexible)
        if not nullable:
            return read
        return _marked(read, version in field.tagged)
    if field.type in ("string", "bytes"):
        return _sized_reader(field.type, flexible, nullable)
    return _scalar_reader(field.type)


def _scalar_reader(kind: str) -> Reader:
    if kind == "uuid":
        return _read_uuid
    if kind == "float64":
        return _read_float64
    unpack, size = FIXED[kind].unpack_from, FIXED[kind].size

    def read(data: bytes, at: int) -> tuple[Json, int]:
        stop = at + size
        if stop > len(data):
            raise _cut(kind, data, at, size)
        return unpack(data, at)[0], stop

    return read


def _sized_reader(kind: str, flexible: bool, nullable: bool) -> Reader:
    """Read a string or bytes: a size, then as many bytes."""
    read_size = _compact_size if flexible else _SIZES[kind]
    limit = MAX_STRING_SIZE if kind == "string" else None
    text = _string_text if kind == "string" else _bytes_text

    def read(data: bytes, at: int) -> tuple[Json, int]:
        size, start = read_size(data, at)
        if size < 0:
            _check_null_allowed(kind, nullable, at)
            return None, start
        stop = start + size
        if stop > len(data):
            raise _cut(kind, data, start, size)
        if limit is not None and size > limit:
            raise MalformedError(f"{kind} of {size} bytes at {at}, at most {limit} are allowed")
        return text(data[start:stop]), stop

    return read


def _array_reader(field: Field, version: int, flexible: bool, nullable: bool) -> Reader:
    read_count = _compact_size if flexible else _SIZES["array"]
    read_all = _elements_reader(field, version, flexible)
    minimum = _minimum_size(field, version, flexible)

    def read(data: bytes, at: int) -> tuple[Json, int]:
        count, start = read_count(data, at)
        if count == 0:
            return [], start
        if count < 0:
            _check_null_allowed("array", nullable, at)
            return None, start
        if count * minimum > len(data) - start:
            raise _cut(f"{field.name}: {count} elements", data, start, count * minimum)
        return read_all(data, start, count)

    return read


def _elements_reader(
    field: Field, version: int, flexible: bool
) -> Callable[[bytes, int, int], tuple[list[Json], int]]:
    """Read `count` elements; the caller has checked that they can fit."""
    if field.type in FIXED:
        code = FIXED[field.type].format[1:]

        def read_fixed(data: bytes, at: int, count: int) -> tuple[list[Json], int]:
            layout = _layout_of(code, count)
            return list(layout.unpack_from(data, at)), at + layout.size

        return read_fixed
    if field.type == "struct":
        read = struct_reader(field.fields, version, flexible=flexible)
    elif field.type in ("string", "bytes"):
        read = _sized_reader(field.type, flexible, nullable=False)
    else:
        read = _scalar_reader(field.type)

    def read_each(data: bytes, at: int, count: int) -> tuple[list[Json], int]:
        elements = []
        for _ in range(count):
            element, at = read(data, at)
            elements.append(element)
        return elements, at

    return read_each


@lru_cache(maxsize=256)
def _layout_of(code: str, count: int) -> Struct:
    return Struct(f">{count}{code}")


def _minimum_size(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes an element of this array field takes: what bounds a count."""
    if field.type in FIXED:
        return FIXED[field.type].size
    if field.type != "struct":
        return {"uuid": UUID_SIZE, "float64": FLOAT64.size, "string": 1 if flexible else 2}.get(
            field.type, 1
        )
    return max(1, len(body_readers(field.fields, version, flexible=flexible)))


def _marked(read: Reader, tagged: bool) -> Reader:
    """A nullable struct has a marker before it: a uvarint in a tag section, else an int8."""
    read_marker = read_uvarint if tagged else _scalar_reader("int8")

    def read_or_null(data: bytes, at: int) -> tuple[Json, int]:
        marker, at = read_marker(data, at)
        present = marker > 0 if tagged else marker >= 0
        return read(data, at) if present else (None, at)

    return read_or_null


def _tag_section_reader(
    fields: tuple[Field, ...], version: int
) -> Callable[[bytes, int, dict[str, Json]], tuple[Json, int]]:
    """Read a tag section; what it holds takes its schema place among the values."""
    present = [field for field in fields if version in field.versions]
    tagged = [field for field in present if version in field.tagged]
    known = {field.tag: (field, _field_reader(field, version, flexible=True)) for field in tagged}
    order = [*(field.name for field in present), UNKNOWN_TAGS]

    def read(data: bytes, at: int, values: dict[str, Json]) -> tuple[Json, int]:
        count, at = read_uvarint(data, at)
        if count * MINIMUM_TAG_SIZE > len(data) - at:
            raise _cut(f"{count} tagged fields", data, at, count * MINIMUM_TAG_SIZE)
        for _ in range(count):
            at = _read_tagged(data, at, known, values)
        return {name: values[name] for name in order if name in values}, at

    return read


def _read_tagged(
    data: bytes, at: int, known: dict[int | None, tuple[Field, Reader]], values: dict[str, Json]
) -> int:
    tag, at = read_uvarint(data, at)
    size, at = read_uvarint(data, at)
    stop = at + size
    if stop > len(data):
        raise _cut(f"tagged field {tag}", data, at, size)
    if tag not in known:
        values.setdefault(UNKNOWN_TAGS, {})[str(tag)] = _bytes_text(data[at:stop])
        return stop
    field, read = known[tag]
    value, taken = read(data[at:stop], 0)
    if taken != size:
        raise MalformedError(f"{field.name} takes {taken} bytes at {at}, its tag says {size}")
    if value != default_of(field):
        values[field.name] = value
    return stop


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits."""
    value = shift = 0
    for byte in data[at : at + MAX_UVARINT_SIZE]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at + shift // 7
    if shift == 7 * MAX_UVARINT_SIZE:
        raise MalformedError(f"varint longer than {MAX_UVARINT_SIZE} bytes at {at}")
    raise _cut("varint", data, at, shift // 7 + 1)


def _compact_size(data: bytes, at: int) -> tuple[int, int]:
    """A size or count of the flexible encoding: one more than it is, 0 for null."""
    if at < len(data) and data[at] < 0x80:
        return data[at] - 1, at + 1
    size, at = read_uvarint(data, at)
    return size - 1, at


def _read_uuid(data: bytes, at: int) -> tuple[Json, int]:
    stop = at + UUID_SIZE
    if stop > len(data):
        raise _cut("uuid", data, at, UUID_SIZE)
    return uuid_text(data[at:stop]), stop


def _read_float64(data: bytes, at: int) -> tuple[Json, int]:
    stop = at + FLOAT64.size
    if stop > len(data):
        raise _cut("float64", data, at, FLOAT64.size)
    value: float = FLOAT64.unpack_from(data, at)[0]
    if math.isfinite(value):
        return value, stop
    # JSON has no word for these; Jackson writes them as text.
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity", stop


@lru_cache(maxsize=4096)  # the same few ids, over and over
def uuid_text(data: bytes) -> str:
    return b2a_base64(data)[:22].translate(URL_SAFE).decode("ascii")


def _string_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _bytes_text(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def _check_null_allowed(kind: str, nullable: bool, at: int) -> None:
    # Any negative length is null to the generated readers, not only the -1 that is written.
    if not nullable:
        raise MalformedError(f"{kind} at {at} is null and must not be")


def _cut(what: str, data: bytes, at: int, size: int) -> MalformedError:
    return MalformedError(f"{what} needs {size} bytes at {at}, {max(0, len(data) - at)} are left")


_SIZES: Final[dict[str, Reader]] = {
    "string": _scalar_reader("int16"),
    "bytes": _scalar_reader("int32"),
    "array": _scalar_reader("int32"),
}
