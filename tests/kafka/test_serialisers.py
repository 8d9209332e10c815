"""What real serialisers write through a real broker is read from its disk, without any registry.

The registries are small servers of ours: what they answer decides no byte but the ids.
"""

import base64
import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fastavro
import pytest
from benchmarks.maven import class_path, java
from broker import JAVA, Broker, new_broker
from clients import Rdkafka, Sent, create_topic
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_tools import protoc
from schema_servers import Registered, SchemaServer, glue_id, serve

import ottla

HERE = Path(__file__).parent
OTTLA = Path(sys.executable).with_name("ottla")
TIME = 1_714_000_000_123
AT = datetime(2024, 4, 24, 23, 6, 40, 123000, UTC)


def logical(kind: Any, name: str, **more: Any) -> dict[str, Any]:
    base = kind if isinstance(kind, dict) else {"type": kind}
    return base | {"logicalType": name} | more


def fixed(name: str, size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "int"}]}
# Name, type, what is written and what is read.
AVRO: list[tuple[str, Any, Any, Any]] = [
    ("null", "null", None, None),
    ("boolean", "boolean", True, True),
    ("int", "int", -(2**31), -(2**31)),
    ("long", "long", -(2**40), -(2**40)),
    ("float", "float", 1.5, 1.5),
    ("double", "double", -2.5e300, -2.5e300),
    ("bytes", "bytes", b"\0\xff", b"\0\xff"),
    ("string", "string", "é", "é"),
    ("enum", {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}, "BLUE", "BLUE"),
    ("fixed", fixed("Three", 3), b"abc", b"abc"),
    ("array", {"type": "array", "items": "long"}, [1, -2], [1, -2]),
    ("map", {"type": "map", "values": "string"}, {"k": "v"}, [("k", "v")]),
    ("record", INNER, {"a": 5}, {"a": 5}),
    ("records", {"type": "array", "items": "Inner"}, [{"a": 6}], [{"a": 6}]),
    ("maybe", ["null", "string"], "x", "x"),
    ("absent", ["null", "string"], None, None),
    ("union", ["null", "int", "string"], "u", {"int": None, "string": "u"}),
    (
        "decimal",
        logical("bytes", "decimal", precision=6, scale=2),
        Decimal("-123.45"),
        Decimal("-123.45"),
    ),
    (
        "fixedDecimal",
        logical(fixed("Money", 8), "decimal", precision=10, scale=3),
        Decimal("7.125"),
        Decimal("7.125"),
    ),
    ("uuid", logical("string", "uuid"), *["b3e9f8a0-1c2d-4e5f-8091-a2b3c4d5e6f7"] * 2),
    ("date", logical("int", "date"), 19_837, date(2024, 4, 24)),
    ("timeMillis", logical("int", "time-millis"), 3_600_001, 3_600_001_000),
    ("timeMicros", logical("long", "time-micros"), 3_600_000_001, 3_600_000_001),
    ("timestampMillis", logical("long", "timestamp-millis"), TIME, AT),
    ("timestampMicros", logical("long", "timestamp-micros"), TIME * 1000, AT),
    ("localMillis", logical("long", "local-timestamp-millis"), TIME, AT.replace(tzinfo=None)),
    ("duration", logical(fixed("Span", 12), "duration"), b"\1" + bytes(11), b"\1" + bytes(11)),
]
AVRO_SCHEMA = {
    "type": "record",
    "name": "Every",
    "namespace": "shop",
    "fields": [{"name": name, "type": kind} for name, kind, _, _ in AVRO],
}
AVRO_VALUE = {name: value for name, _, value, _ in AVRO}

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message First { int32 a = 1; }
enum Colour { RED = 0; BLUE = 1; }
message Every {
  double double = 1; float float = 2; int32 int32 = 3; int64 int64 = 4; uint32 uint32 = 5;
  uint64 uint64 = 6; sint32 sint32 = 7; sint64 sint64 = 8; fixed32 fixed32 = 9;
  fixed64 fixed64 = 10; sfixed32 sfixed32 = 11; sfixed64 sfixed64 = 12; bool bool = 13;
  string string = 14; bytes bytes = 15; Colour colour = 16; repeated int32 numbers = 17;
  map<string, int64> counts = 18; First first = 19; repeated First firsts = 20;
  oneof choice { string text = 21; int64 number = 22; }
  optional string maybe = 23; google.protobuf.Timestamp at = 24; Inner inner = 25;
  message Inner { string name = 1; }
}
"""
PROTOBUF: dict[str, Any] = {
    "double": -2.5e300,
    "float": 1.5,
    "int32": -(2**31),
    "int64": -(2**63),
    "uint32": 2**32 - 1,
    "uint64": 2**64 - 1,
    "sint32": -(2**31),
    "sint64": -(2**63),
    "fixed32": 2**32 - 1,
    "fixed64": 2**64 - 1,
    "sfixed32": -5,
    "sfixed64": -6,
    "bool": True,
    "string": "é",
    "bytes": b"\0\xff",
    "colour": "BLUE",
    "numbers": [1, -2],
    "counts": [("k", 7)],
    "first": {"a": 3},
    "firsts": [{"a": 4}, {"a": 5}],
    "text": "chosen",
    "number": None,
    "maybe": "",
    "at": AT,
    "inner": {"name": "i"},
}

JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Every",
    "type": "object",
    "properties": {
        "string": {"type": "string"},
        "integer": {"type": "integer"},
        "number": {"type": "number"},
        "boolean": {"type": "boolean"},
        "maybe": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "list": {"type": "array", "items": {"type": "integer"}},
        "object": {"type": "object", "properties": {"a": {"type": "number"}}},
        "any": {"type": "object"},
    },
}
JSON_VALUE = {
    "string": "é",
    "integer": 2**40,
    "number": 2.5,
    "boolean": False,
    "maybe": "m",
    "list": [1, 2],
    "object": {"a": 0.5},
    "any": {"b": [1]},
}
EXPECTED: dict[str, dict[str, Any]] = {
    "avro": {name: expected for name, _, _, expected in AVRO},
    "protobuf": PROTOBUF,
    "json": JSON_VALUE | {"any": '{"b":[1]}'},
}


def described(folder: Path) -> bytes:
    """The descriptors of the .proto text and of what it imports."""
    (folder / "every.proto").write_text(PROTO)
    standard = Path(protoc.__file__).parent / "_proto"
    out = folder / "every.bin"
    words = ["", f"-I{folder}", f"-I{standard}", "--include_imports", f"-o{out}", "every.proto"]
    assert protoc.main(words) == 0
    return out.read_bytes()


class Values:
    """The same value in each language: as bytes without a frame, and its schema."""

    def __init__(self, folder: Path) -> None:
        self.set = described(folder)
        pool = descriptor_pool.DescriptorPool()
        for each in descriptor_pb2.FileDescriptorSet.FromString(self.set).file:
            pool.Add(each)
        self.message = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Every"))
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO_SCHEMA), AVRO_VALUE)
        self.plain = {
            "avro": stream.getvalue(),
            "protobuf": self.every().SerializeToString(),
            "json": json.dumps(JSON_VALUE).encode(),
        }
        self.schemas = {
            "avro": json.dumps(AVRO_SCHEMA),
            "protobuf": base64.b64encode(self.set).decode(),
            "json": json.dumps(JSON_SCHEMA),
        }

    def every(self) -> Any:
        told = {key: value for key, value in PROTOBUF.items() if value is not None}
        told |= {"at": AT.isoformat(), "counts": dict(PROTOBUF["counts"])}
        told["bytes"] = base64.b64encode(PROTOBUF["bytes"]).decode()
        return json_format.ParseDict(told, self.message())

    def job(self, kind: str, topic: str, **more: Any) -> dict[str, Any]:
        """What programs in other languages are told."""
        return {
            "kind": kind,
            "topic": topic,
            "schema": self.schemas[kind],
            "message": "shop.Every" if "serializer" not in more else "Every",
            "values": [base64.b64encode(self.plain[kind]).decode()] * 2,
        } | more


KINDS = ("avro", "protobuf", "json")
PLACES = {"prefix": False, "headers": True}
TOPICS = [
    *(
        f"{who}-{kind}-{place}"
        for who in ("python", "npm", "apicurio")
        for kind in KINDS
        for place in PLACES
    ),
    *(f"glue-{kind}-{packed}" for kind in KINDS for packed in ("none", "zlib")),
]


def produce_python(broker: Broker, values: Values, url: str) -> None:
    """confluent-kafka; keys by the same schemas where the id is in front."""
    client = SchemaRegistryClient({"url": url})
    producer = Rdkafka(broker.bootstrap)
    for kind in KINDS:
        for place, headers in PLACES.items():
            conf: dict[str, Any] = {}
            if headers:
                conf["schema.id.serializer"] = header_schema_id_serializer
            write, value = {
                "avro": (AvroSerializer(client, json.dumps(AVRO_SCHEMA), conf=conf), AVRO_VALUE),
                "protobuf": (ProtobufSerializer(values.message, client, conf=conf), values.every()),
                "json": (JSONSerializer(json.dumps(JSON_SCHEMA), client, conf=conf), JSON_VALUE),
            }[kind]
            topic, sent = f"python-{kind}-{place}", []
            for _ in range(2):
                named: list[tuple[str, bytes]] = []
                key = write(value, SerializationContext(topic, MessageField.KEY, named))
                data = write(value, SerializationContext(topic, MessageField.VALUE, named))
                sent.append(Sent(key, data, TIME, tuple(named)))
            producer.send(topic, sent)


def produce_npm(broker: Broker, values: Values, url: str) -> None:
    """@confluentinc/schemaregistry makes the bytes; librdkafka sends them."""
    jobs = [
        values.job(kind, f"npm-{kind}-{place}", headers=headers)
        for kind in KINDS
        for place, headers in PLACES.items()
    ]
    project = HERE / "node"
    done = project / "node_modules" / ".package-lock.json"  # written last
    if not done.exists() or done.stat().st_mtime < (project / "package.json").stat().st_mtime:
        install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
        subprocess.run([*install, "--ignore-scripts"], cwd=project, check=True)
    told = json.dumps({"jobs": jobs, "url": url})
    command = ["node", str(project / "serialise.js")]
    run = subprocess.run(command, input=told, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    producer = Rdkafka(broker.bootstrap)
    for row in json.loads(run.stdout):
        named = tuple((key, base64.b64decode(text)) for key, text in row["headers"])
        data = base64.b64decode(row["value"])
        producer.send(row["topic"], [Sent(None, data, TIME, named)])


def run_java(project: str, broker: Broker, jobs: list[dict[str, Any]]) -> None:
    """Serialise.java with the jars of a project."""
    command = java(str(HERE / "Serialise.java"), class_path(JAVA / project), "-Xmx512m")
    told = json.dumps({"bootstrap": broker.bootstrap, "jobs": jobs})
    # Glue's client signs what it asks; nobody looks at it.
    words = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"}
    run = subprocess.run(
        command, input=told, capture_output=True, text=True, env=os.environ | words
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]


def produce_apicurio(broker: Broker, values: Values, server: SchemaServer, url: str) -> None:
    """Version 3. Its serialiser of JSON Schema finds a schema, it does not bring one."""
    names = {"avro": "avro.Avro", "protobuf": "protobuf.Protobuf", "json": "jsonschema.JsonSchema"}
    jobs = []
    for kind in KINDS:
        for place, headers in PLACES.items():
            topic = f"apicurio-{kind}-{place}"
            config = {
                "apicurio.registry.url": f"{url}/apis/registry/v3",
                "apicurio.registry.auto-register": str(kind != "json").lower(),
                "apicurio.registry.find-latest": str(kind == "json").lower(),
                "apicurio.registry.headers.enabled": str(headers).lower(),
                "apicurio.registry.artifact.group-id": "default",
            }
            if kind == "json":
                server.add(f"{topic}-value", "JSON", json.dumps(JSON_SCHEMA))
            serializer = f"io.apicurio.registry.serde.{names[kind]}KafkaSerializer"
            jobs.append(values.job(kind, topic, serializer=serializer, config=config))
    run_java("apicurio", broker, jobs)


def produce_glue(broker: Broker, values: Values, url: str) -> None:
    """Plain and packed."""
    jobs = []
    for kind in KINDS:
        for packed in ("none", "zlib"):
            config = {
                "region": "eu-central-1",
                "endpoint": url,
                "dataFormat": kind.upper(),
                "compression": packed.upper(),
                "avroRecordType": "GENERIC_RECORD",
            }
            serializer = "com.amazonaws.services.schemaregistry.serializers"
            serializer += ".GlueSchemaRegistryKafkaSerializer"
            topic = f"glue-{kind}-{packed}"
            jobs.append(values.job(kind, topic, serializer=serializer, config=config))
    run_java("glue", broker, jobs)


def write_files(folder: Path, server: SchemaServer, *, by_uuid: bool) -> None:
    """Schemas as files, named as `ottla schemas --out` does; an index tells of references."""
    endings = {"AVRO": "avsc", "PROTOBUF": "proto", "JSON": "json"}
    folder.mkdir()
    index = []
    for one in server.schemas:
        number = glue_id(one) if by_uuid else one.id
        name = f"{quote(one.subject, safe='')}.v{one.version}.id{number}.{endings[one.type]}"
        (folder / name).write_text(one.text)
        if one.references:
            index.append({"file": name, **json.loads(one.record()[1])})
    (folder / "schemas.jsonl").write_text("".join(json.dumps(row) + "\n" for row in index))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The log directory of a stopped broker, and folders with the schemas of other registries."""
    folder = tmp_path_factory.mktemp("serialisers")
    values = Values(folder)
    broker = new_broker(folder)
    confluent, apicurio, glue = SchemaServer(), SchemaServer(50), SchemaServer()
    broker.start()
    try:
        create_topic(broker.bootstrap, "_schemas", cleanup_policy="compact")
        for topic in TOPICS:
            create_topic(broker.bootstrap, topic, retention_ms="-1")  # its records are old
        with ExitStack() as stack:
            url = stack.enter_context(serve(confluent.confluent))
            produce_python(broker, values, url)
            if shutil.which("npm"):
                produce_npm(broker, values, url)
            at = stack.enter_context(serve(apicurio.apicurio))
            produce_apicurio(broker, values, apicurio, at)
            produce_glue(broker, values, stack.enter_context(serve(glue.glue)))
        records = [_sent(one) for one in confluent.schemas]
        Rdkafka(broker.bootstrap).send("_schemas", records)
    finally:
        broker.stop()
    write_files(folder / "apicurio", apicurio, by_uuid=False)
    write_files(folder / "glue", glue, by_uuid=True)
    return broker.log_dir, folder


def _sent(one: Registered) -> Sent:
    return Sent(*one.record(), TIME)


@pytest.mark.parametrize("topic", TOPICS)
def test_what_goes_in_comes_out(written: tuple[Path, Path], topic: str) -> None:
    who, kind, _ = topic.split("-")
    if who == "npm" and not shutil.which("npm"):
        pytest.skip("npm is not here (Debian: apt install npm)")
    logs, folder = written
    more: dict[str, Any] = {}
    if who in ("apicurio", "glue"):
        more = {"schemas": folder / who, "wire": who}
    names = {"avro": "avro", "protobuf": "protobuf", "json": "jsonschema"}
    for value_as in ("registry", names[kind]):
        table = ottla.open(logs).scan(topic, value_as=value_as, **more).to_arrow()
        assert table["value"].to_pylist() == [EXPECTED[kind]] * 2
        assert table["valueRaw"].null_count == 2


@pytest.mark.parametrize("topic", [name for name in TOPICS if name.startswith("python")])
def test_keys_too(written: tuple[Path, Path], topic: str) -> None:
    table = ottla.open(written[0]).scan(topic, key_as="registry").to_arrow()
    assert table["key"].to_pylist() == [EXPECTED[topic.split("-")[1]]] * 2
    assert table["keyRaw"].null_count == 2


def test_the_command_explains_all_of_confluent(written: tuple[Path, Path]) -> None:
    command = [OTTLA, "schemas", written[0], "--json", "--exact"]
    run = subprocess.run(command, capture_output=True, text=True)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    used = {row["topic"] for row in rows if row["type"] == "usage" and row["explained"]}
    assert {name for name in TOPICS if name.startswith(("python", "npm"))} <= used
