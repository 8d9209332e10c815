"""What Confluent's own serialisers write, with a registry in memory: the bytes are real."""

import base64
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import struct_pb2, timestamp_pb2

import ottla
from builders import Row, batch
from log.generated import write_partition

USER = {
    "type": "record",
    "name": "User",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
USERS = [
    {"id": 2**40, "name": "ada", "tags": ["a", "b"], "at": 1_714_000_000_000},
    {"id": -1, "name": None, "tags": [], "at": 0},
]
JSON_SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": "number"},
        "lines": {"type": "array", "items": {"type": "string"}},
    },
}
ORDERS = [{"id": 1, "price": 2.5, "lines": ["x"]}, {"id": 2, "price": 3.0, "lines": []}]


class Topic:
    """A topic and the registry of its cluster, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = SchemaRegistryClient.new_client({"url": "mock://"})
        self.rows: list[Row] = []

    def add(self, serialize: Callable[..., bytes], value: Any) -> None:
        headers: list[tuple[str, bytes]] = []
        context = SerializationContext("users", MessageField.VALUE, headers)
        data = serialize(value, context)
        named = tuple((key.encode(), text) for key, text in context.headers or [])
        self.rows.append(Row(len(self.rows), 1000, None, data, named))

    def open(self) -> Any:
        rows = []
        for subject in self.client.get_subjects():
            for number in self.client.get_versions(subject):
                found = self.client.get_version(subject, number)
                value = {
                    "subject": subject,
                    "version": number,
                    "id": found.schema_id,
                    "schema": found.schema.schema_str,
                    "schemaType": found.schema.schema_type,
                    "references": [
                        {"name": each.name, "subject": each.subject, "version": each.version}
                        for each in found.schema.references or []
                    ],
                    "deleted": False,
                    "md5": base64.b64encode(uuid.UUID(found.guid).bytes).decode(),
                }
                key = {"keytype": "SCHEMA", "subject": subject, "version": number, "magic": 1}
                texts = (json.dumps(key).encode(), json.dumps(value).encode())
                rows.append(Row(len(rows), 1000, *texts))
        write_partition(self.folder, "_schemas-0", 0, batch(rows))
        write_partition(self.folder, "users-0", 0, batch(self.rows))
        return ottla.open(self.folder)

    def read(self) -> pa.Table:
        return self.open().scan("users", value_as="registry").to_arrow()


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    return Topic(tmp_path)


def configuration(*, headers: bool) -> dict[str, Any]:
    return {"schema.id.serializer": header_schema_id_serializer} if headers else {}


@pytest.mark.parametrize("headers", [False, True])
def test_avro(topic: Topic, headers: bool) -> None:
    write = AvroSerializer(topic.client, json.dumps(USER), conf=configuration(headers=headers))
    for user in USERS:
        topic.add(write, user)
    table = topic.read()
    found = table["value"].to_pylist()
    for user, value in zip(USERS, found, strict=True):
        assert value | {"at": int(value["at"].timestamp() * 1000)} == user
    assert table["valueRaw"].null_count == len(USERS)


@pytest.mark.parametrize("headers", [False, True])
def test_json(topic: Topic, headers: bool) -> None:
    write = JSONSerializer(
        json.dumps(JSON_SCHEMA), topic.client, conf=configuration(headers=headers)
    )
    for order in ORDERS:
        topic.add(write, order)
    assert topic.read()["value"].to_pylist() == ORDERS


@pytest.mark.parametrize("headers", [False, True])
def test_protobuf(topic: Topic, headers: bool) -> None:
    """Two types of the standard library: the second message of a file, and one alone."""
    conf = {"use.deprecated.format": False} | configuration(headers=headers)
    write = ProtobufSerializer(timestamp_pb2.Timestamp, topic.client, conf=conf)
    for seconds in (5, 7):
        topic.add(write, timestamp_pb2.Timestamp(seconds=seconds, nanos=9))
    found = topic.read()["value"].to_pylist()
    assert found == [{"seconds": 5, "nanos": 9}, {"seconds": 7, "nanos": 9}]


def test_protobuf_that_contains_itself_is_text(topic: Topic) -> None:
    conf = {"use.deprecated.format": False}
    write = ProtobufSerializer(struct_pb2.ListValue, topic.client, conf=conf)
    topic.add(write, struct_pb2.ListValue(values=[struct_pb2.Value(string_value="a")]))
    assert topic.read()["value"].to_pylist() == ['["a"]']


def test_two_types_in_one_topic(topic: Topic) -> None:
    """A struct with a field for each; a record is in one of them."""
    by_name = {"subject.name.strategy": lambda context, name: name}
    other = {"type": "record", "name": "Gone", "namespace": "shop", "fields": []}
    topic.add(AvroSerializer(topic.client, json.dumps(USER), conf=by_name), USERS[0])
    topic.add(AvroSerializer(topic.client, json.dumps(other), conf=by_name), {})
    table = topic.read()
    first, second = table["value"].to_pylist()
    assert first["User"]["name"] == "ada"
    assert first["Gone"] is None
    assert second["User"] is None
    assert second["Gone"] is not None
    assert table["valueRaw"].null_count == 2
