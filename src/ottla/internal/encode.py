"""Records of the internal topics from the values that `decode_record` shows: the way back.

The tables that are read by are written by, at every version that they have. A field that is not
given has its default, bytes are base64 as everywhere in these values, and tags that no table knows
are written as they were read. Values are taken as they are: only decoding has to expect anything.
"""

from base64 import b64decode, b64encode, urlsafe_b64decode
from collections.abc import Mapping
from functools import cache
from struct import Struct
from typing import Final

from ottla.batch.control import write_uvarint
from ottla.internal.interpreter import UNKNOWN_TAGS, default_of
from ottla.internal.notation import Schema, SchemaField, read_table
from ottla.internal.primitives import FIXED, FLOAT64, Json
from ottla.internal.records import CLUSTER_METADATA, FRAME_VERSION, record_type_name

_NULL: Final = -1
_SIZES: Final = {"string": FIXED["int16"], "bytes": FIXED["int32"], "array": FIXED["int32"]}
_INT16: Final = FIXED["int16"]


def encode_key(topic: str, number: int, values: Mapping[str, Json]) -> bytes:
    """The key of a coordinator's record: its type, then its fields."""
    schema = _newest(topic.strip("_"), "key", number)
    return _INT16.pack(number) + write_body(schema, 0, values)


def encode_value(topic: str, number: int, version: int, values: Mapping[str, Json]) -> bytes:
    """The value of a coordinator's record: its version, then its fields."""
    schema = _newest(topic.strip("_"), "value", number)
    return _INT16.pack(version) + write_body(schema, version, values)


def encode_framed(topic: str, number: int, version: int, values: Mapping[str, Json]) -> bytes:
    """The value of a metadata record, which has no key."""
    frame = b"".join(map(write_uvarint, (FRAME_VERSION, number, version)))
    return frame + write_body(_newest(topic.strip("_"), "record", number), version, values)


def encode_metadata(kind: str, version: int, values: Mapping[str, Json]) -> bytes:
    """The value of a record of the cluster's metadata, of a type as decoding names it.

    >>> encode_metadata("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": 25})
    b'\\x01\\x0c\\x00\\x11metadata.version\\x00\\x19\\x00'
    """
    return encode_framed(CLUSTER_METADATA, _metadata_numbers()[kind], version, values)


@cache
def _metadata_numbers() -> dict[str, int]:
    table = CLUSTER_METADATA.strip("_")
    return {record_type_name(table, number): number for _, number in read_table(table)}


def encode_blob(number: int, version: int, values: Mapping[str, Json]) -> str:
    """One of tables/member_blobs.txt, as the base64 that a member of a group has for it."""
    body = write_body(_newest("member_blobs", "record", number), version, values)
    return b64encode(_INT16.pack(version) + body).decode("ascii")


def _newest(table: str, kind: str, number: int) -> Schema:
    return read_table(table)[kind, number][0]


def write_body(schema: Schema, version: int, values: Mapping[str, Json]) -> bytes:
    """The fields of a layout at one of its versions, without what selects it."""
    return _write_struct(schema.fields, version, version in schema.flexible, values)


def _write_struct(
    fields: tuple[SchemaField, ...], version: int, flexible: bool, values: Mapping[str, Json]
) -> bytes:
    present = [field for field in fields if version in field.versions]
    body = b"".join(
        _write_field(field, version, flexible, values.get(field.name, default_of(field)))
        for field in present
        if version not in field.tagged
    )
    return body + _write_tags(present, version, values) if flexible else body


def _write_tags(fields: list[SchemaField], version: int, values: Mapping[str, Json]) -> bytes:
    """The tagged fields that differ from their defaults, by number."""
    unknown = values.get(UNKNOWN_TAGS, {})
    tagged = {int(tag): b64decode(text) for tag, text in unknown.items()}
    for field in fields:
        value = values.get(field.name, default_of(field))
        if field.tag is not None and version in field.tagged and value != default_of(field):
            tagged[field.tag] = _write_field(field, version, True, value)
    parts = [
        write_uvarint(tag) + write_uvarint(len(data)) + data for tag, data in sorted(tagged.items())
    ]
    return write_uvarint(len(parts)) + b"".join(parts)


def _write_field(field: SchemaField, version: int, flexible: bool, value: Json) -> bytes:
    if field.type == "struct" and version in field.nullable and not field.is_array:
        if value is None:
            return b"\0" if version in field.tagged else b"\xff"
        return b"\1" + _write_one(field, version, flexible, value)
    if not field.is_array:
        return _write_one(field, version, flexible, value)
    if value is None:
        return _write_size("array", flexible, _NULL)
    elements = [_write_one(field, version, flexible, element) for element in value]
    return _write_size("array", flexible, len(elements)) + b"".join(elements)


def _write_one(field: SchemaField, version: int, flexible: bool, value: Json) -> bytes:
    if field.type == "struct":
        return _write_struct(field.fields, version, flexible, value)
    if field.type == "uuid":
        return urlsafe_b64decode(f"{value}==")
    if field.type not in _SIZES:
        layout: Struct = FLOAT64 if field.type == "float64" else FIXED[field.type]
        return layout.pack(float(value) if field.type == "float64" else value)
    if value is None:
        return _write_size(field.type, flexible, _NULL)
    data = value.encode("utf-8") if field.type == "string" else b64decode(value)
    return _write_size(field.type, flexible, len(data)) + data


def _write_size(kind: str, flexible: bool, size: int) -> bytes:
    return write_uvarint(size + 1) if flexible else _SIZES[kind].pack(size)
