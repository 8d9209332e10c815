"""Wire formats: bytes as their serialisers write them, and what only looks like them."""

import json
import uuid

import pyarrow as pa
import pytest
from fastavro.schema import fingerprint as their_fingerprint
from fastavro.schema import to_parsing_canonical_form
from hypothesis import given

from ottla.schemas.avro import parse_avro
from ottla.schemas.wire import Wire, WireColumns, WireKind, canonical_form, fingerprint, split
from schemas.avro_cases import Json, schemas

UUID = uuid.UUID("b3e9f8a0-1c2d-4e5f-8091-a2b3c4d5e6f7")


def split_all(values: list[bytes | None], wire: Wire) -> WireColumns:
    return split(pa.array(values, pa.binary()), wire)


FRAMED = [
    pytest.param(Wire.CONFLUENT, b"\0\0\0\1\2", b"abc", 258, id="confluent"),
    pytest.param(Wire.CONFLUENT, b"\0\xff\0\0\0", b"", 0xFF000000, id="high-id"),
    pytest.param(Wire.APICURIO_2, b"\0" + bytes(6) + b"\1\2", b"abc", 258, id="apicurio-2"),
    pytest.param(Wire.CONFLUENT_PROTOBUF, b"\0\0\0\0\7\0", b"abc", 7, id="first-message"),
    pytest.param(Wire.CONFLUENT_PROTOBUF, b"\0\0\0\0\7\4\2\6", b"abc", 7, id="message-1-3"),
    pytest.param(
        Wire.SINGLE_OBJECT, b"\xc3\1" + (258).to_bytes(8, "little"), b"abc", 258, id="single"
    ),
]


@pytest.mark.parametrize(("wire", "prefix", "payload", "number"), FRAMED)
def test_a_prefix_names_a_schema_and_every_part_of_it_does_not(
    wire: Wire, prefix: bytes, payload: bytes, number: int
) -> None:
    whole = prefix + payload
    parts = [prefix[:size] for size in range(len(prefix))]
    found = split_all([whole, None, b"\x7f" + whole, *parts], wire)
    assert found.kinds.tolist() == [wire, WireKind.ABSENT] + [WireKind.UNFRAMED] * (len(parts) + 1)
    assert found.ids[0] == number
    assert found.payloads().to_pylist() == [payload, None, b"\x7f" + whole, *parts]


def test_glue_names_a_uuid_and_whether_its_payload_is_compressed() -> None:
    values = [b"\3\0" + UUID.bytes + b"abc", b"\3\5" + UUID.bytes + b"z", b"\3\1" + UUID.bytes]
    found = split_all([*values], Wire.GLUE)
    assert found.kinds.tolist() == [WireKind.GLUE, WireKind.GLUE_ZLIB, WireKind.UNFRAMED]
    assert [found.uuid(row) for row in range(2)] == [UUID, UUID]
    assert found.payloads().to_pylist() == [b"abc", b"z", values[2]]


def test_a_path_of_messages_is_told_and_no_path_is_the_first() -> None:
    prefix = b"\0\0\0\0\7"
    paths = [b"\0", b"\2\0", b"\4\2\x80\2", b"\1", b"\xfe"]
    found = split_all([prefix + path for path in paths], Wire.CONFLUENT_PROTOBUF)
    framed = WireKind.CONFLUENT_PROTOBUF
    assert found.kinds.tolist() == [framed] * 3 + [WireKind.UNFRAMED] * 2
    assert [found.message_path(row) for row in range(3)] == [(0,), (0,), (1, 128)]


@given(schemas())
def test_fingerprints_are_those_of_fastavro(schema: Json) -> None:
    ours = parse_avro(json.dumps(schema))
    form = to_parsing_canonical_form(json.loads(json.dumps(schema)))
    assert canonical_form(ours) == form
    theirs = bytes.fromhex(their_fingerprint(form, "CRC-64-AVRO"))
    assert fingerprint(ours).to_bytes(8, "little", signed=True) == theirs
    found = split_all([b"\xc3\1" + theirs + b"x"], Wire.SINGLE_OBJECT)
    assert found.ids[0] == fingerprint(ours)


def test_just_bytes_are_written_without_their_length() -> None:
    assert parse_avro('"bytes"').is_raw
    assert not parse_avro('"string"').is_raw
