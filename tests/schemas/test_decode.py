"""`ottla.decode`: bytes of any origin by one schema."""

import pyarrow as pa
import pytest

import ottla
from ottla.errors import OptionError
from schemas.registries import record

ORDER = record("Order", ("id", "int"))
PROTO = 'syntax = "proto3"; message A { int64 a = 1; } message B { string b = 1; }'
JSON = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_each_language() -> None:
    datums = pa.array([b"\x02", None, b"", b"\x04"])
    assert ottla.decode(datums, ORDER).to_pylist() == [{"id": 1}, None, None, {"id": 2}]
    messages = pa.chunked_array([[b"\x08\x05"], [b"\x08"]], pa.large_binary())
    found = ottla.decode(messages, PROTO, value_as="protobuf")
    assert found.to_pylist() == [{"a": 5}, None]
    second = pa.array([b"\0\0\0\0\x07\x02\x02\x0a\x01x"])
    with_ids = ottla.decode(second, PROTO, value_as="protobuf", wire="confluent")
    assert with_ids.to_pylist() == [None], "the schema means its first message"
    texts = pa.array([b'{"a":1}', b"[]"])
    assert ottla.decode(texts, JSON, value_as="jsonschema").to_pylist() == [{"a": 1}, None]


def test_frames_are_skipped_whatever_id_they_name() -> None:
    values = pa.array([b"\0\0\0\0\x07\x02", b"\0\0\0\0\x08\x04", b"\x02"])
    assert ottla.decode(values, ORDER, wire="confluent").to_pylist() == [{"id": 1}, {"id": 2}, None]


def test_none_and_many() -> None:
    none = ottla.decode(pa.array([], pa.binary()), ORDER)
    assert none.type == pa.struct([("id", pa.int32())])
    many = ottla.decode(pa.array([b"\x02"] * 100_000), ORDER)
    assert len(many) == 100_000
    assert many.null_count == 0


@pytest.mark.parametrize(
    ("schema", "more", "said"),
    [
        ("no schema", {}, "can be used"),
        (ORDER, {"value_as": "registry"}, "avro, protobuf, jsonschema"),
        (ORDER, {"wire": "wire"}, "wire"),
    ],
)
def test_what_is_wrong_is_said(schema: object, more: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        ottla.decode(pa.array([b"\x02"]), schema, **more)
