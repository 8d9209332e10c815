"""Names, schemas and payloads that were made to harm."""

import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ottla
from cli.here import run
from ottla.arrow.schema import HEADERS_TYPE
from ottla.errors import OptionError
from ottla.schemas import json_language, protobuf_language
from ottla.schemas.decoding import PayloadDecoder, decode_pieces, plan_payloads
from ottla.schemas.registry import fold_registry
from ottla.schemas.wires import WireFormat
from schemas.registries import framed, record, registered, write_registry, write_values

NAMES = ["../x", "/etc/passwd", "a\0b", "..", ".", "", "$(touch taken)", "`x`", "a b'\"", "é" * 300]
V1 = record("Order", ("id", "int"))


@pytest.mark.parametrize("flag", ["--out", "--import"])
def test_nothing_is_written_outside(tmp_path: Path, flag: str) -> None:
    logs, out = tmp_path / "logs", tmp_path / "work" / "out"
    records = [registered(name, 1, at + 1, V1) for at, name in enumerate(NAMES)]
    write_registry(logs, records)
    before = set(tmp_path.rglob("*"))
    code, *_ = run("schemas", str(logs), flag, str(out))
    assert code == 0
    new = set(tmp_path.rglob("*")) - before
    assert {path.parent for path in new if path.is_file()} == {out}
    if flag == "--out":
        texts = [path for path in out.iterdir() if path.suffix == ".avsc"]
        assert len(texts) == len(NAMES)
        assert not any(path.name.startswith(".") for path in out.iterdir())
        write_values(logs, "x", [framed(1, V1, {"id": 5})])
        again = ottla.open(logs).scan("x", value_as="registry", schemas=out)
        assert again.to_arrow()["value"].to_pylist() == [{"id": 5}]
    else:
        script = (out / "import.sh").read_text()
        calls = script[script.index("call PUT /mode") :]
        assert set(calls) <= set(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 /%.-_~\n"
        )
    code, _, told = run("schemas", str(logs), flag, str(out))
    assert code == 2
    assert "is not empty" in told


def decoded(records: Any, values: list[bytes], **more: Any) -> tuple[list[Any], dict[str, int]]:
    registry = fold_registry(records)
    plan = plan_payloads(
        registry,
        "t",
        "value",
        wire=more.get("wire", WireFormat.AUTO),
        only=None,
        seen=[],
        max_bytes=more.get("max_bytes", 1 << 20),
    )
    decoder = PayloadDecoder(plan)
    named = pa.array(
        [
            [{"key": key, "value": value} for key, value in each]
            for each in more.get("headers", [[]] * len(values))
        ],
        HEADERS_TYPE,
    )
    records = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), "headers": named})
    pieces = [made["value"] for _, made in decode_pieces(records, {"value": decoder})]
    found = [value for piece in pieces for value in piece.column.to_pylist()]
    return found, dict(decoder.failed)


def test_good_datums_are_not_too_large_together() -> None:
    """Each version drops a field: the oldest datums are decoded once for each of these."""
    fields = [(f"f{at}", "long", 0) for at in range(60)]
    versions = [record("Order", *fields[at:]) for at in range(20)]
    records = [registered("t-value", at + 1, at + 1, each) for at, each in enumerate(versions)]
    values = [framed(1, versions[0], {"f0": 5})] * 2000
    found, failed = decoded(records, values)
    assert failed == {}
    assert [value["f0"] for value in found] == [5] * len(values)


def test_good_values_of_zlib_are_not_too_large_together() -> None:
    records = [registered("t-value", 1, 1, '"string"')]
    guid = bytes.fromhex(fold_registry(records).versions[0].guid.replace("-", ""))
    one = b"\x03\x05" + guid + zlib.compress(b"\xf0\x2e" + b"a" * 3000)
    found, failed = decoded(records, [one] * 1000)
    assert failed == {}
    assert found == ["a" * 3000] * 1000


def test_a_zlib_bomb_of_glue_is_bounded() -> None:
    records = [registered("t-value", 1, 1, '"string"')]
    registry = fold_registry(records)
    guid = bytes.fromhex(registry.versions[0].guid.replace("-", ""))
    small = b"\x03\x05" + guid + zlib.compress(b"\x06abc")
    bomb = b"\x03\x05" + guid + zlib.compress(bytes(50 << 20), 9)
    broken = b"\x03\x05" + guid + b"no zlib"
    values, failed = decoded(records, [small, bomb, broken, b"\x03\0" + guid + b"\x02x"])
    assert values == ["abc", None, None, "x"]
    name = f"guid {registry.versions[0].guid}"
    assert failed == {f"too large: {name}": 1, f"broken payload (no zlib): {name}": 1}


PROTO = 'syntax = "proto3"; {} message A {{ string a = 1; int64 b = 2; }} message B {{ A a = 1; }}'


def protobuf(text: str = PROTO.format(""), **more: Any) -> Any:
    return registered("t-value", 1, 1, text, schemaType="PROTOBUF", **more)


def test_a_broken_message_is_one_null() -> None:
    good = b"\0\0\0\0\x01\0" + b"\x0a\x01x\x10\x05"
    values = [good, b"\0\0\0\0\x01\0" + b"\x0a\xff", good, b"\0\0\0\0\x01\xff\xff\xff\xff\xff\xff"]
    values += [b"\0\0\0\0\x01"]
    found, failed = decoded([protobuf()], values)
    assert found == [{"a": "x", "b": 5}, None, {"a": "x", "b": 5}, None, None]
    assert sum(failed.values()) == 3


def test_another_message_is_no_row_of_defaults() -> None:
    """The second message of the file, of which no sample told."""
    found, failed = decoded([protobuf()], [b"\0\0\0\0\x01\x02\x02" + b"\x0a\x00"])
    assert found == [None]
    assert failed == {"another type: id 1": 1}


def test_apicurio_names_the_message() -> None:
    """By a Ref in front of it: another than the first of the file is no row of the first."""
    front, a, b = b"\0\0\0\0\x01", b"\x0a\x01x\x10\x05", b"\x0a\x00"
    values = [front + b"\x03\x0a\x01A" + a]
    values += [
        front + each for each in (b"\x03\x0a\x01B" + b, b"\x03\x0a\x01C" + b, a, b"", b"\xff")
    ]
    found, failed = decoded([protobuf()], values, wire=WireFormat.APICURIO)
    assert found == [{"a": "x", "b": 5}, *[None] * 5]
    assert failed == {"another type: id 1": 1, "unusable schema: id 1": 4}


@pytest.mark.parametrize("name", ["../x.proto", "/x.proto", "a\0.proto", "", "x" * 500])
def test_names_of_imports(name: str) -> None:
    refers = [{"name": name, "subject": "other", "version": 1}]
    records = [
        protobuf(references=refers),
        registered("other", 1, 2, PROTO.format(""), schemaType="PROTOBUF"),
    ]
    with pytest.raises(OptionError, match="is no name of a"):
        decoded(records, [])


def test_protoc_is_asked_once_for_what_it_does_not_take() -> None:
    records = [protobuf("message of no use {")]
    before = protobuf_language._described_or_not.cache_info().misses
    for _ in range(3):
        with pytest.raises(OptionError, match=r"protoc: ottla-root\.proto:1"):
            decoded(records, [])
    assert protobuf_language._described_or_not.cache_info().misses == before + 1


def test_names_that_are_folders_of_each_other() -> None:
    refers = [
        {"name": "a.proto", "subject": "one", "version": 1},
        {"name": "a.proto/b.proto", "subject": "two", "version": 1},
    ]
    others = [
        registered(name, 1, at, 'syntax = "proto3";', schemaType="PROTOBUF")
        for at, name in ((2, "one"), (3, "two"))
    ]
    with pytest.raises(OptionError, match="is no name of a"):
        decoded([protobuf(references=refers), *others], [])


def test_imports_in_a_circle() -> None:
    first = PROTO.format('import "b.proto";')
    second = 'syntax = "proto3"; import "ottla-root.proto";'
    refers = [{"name": "b.proto", "subject": "b", "version": 1}]
    records = [
        protobuf(first, references=refers),
        registered("b", 1, 2, second, schemaType="PROTOBUF"),
    ]
    with pytest.raises(OptionError, match="protoc"):
        decoded(records, [])


def test_a_file_that_no_reference_names() -> None:
    with pytest.raises(OptionError, match="protoc"):
        decoded([protobuf(PROTO.format('import "/etc/passwd";'))], [])


def test_references_of_json_that_fan_out() -> None:
    """Thirty levels, each of which names the next one twice."""
    levels = {
        f"l{at}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/definitions/l{at + 1}"} for side in ("a", "b")},
        }
        for at in range(30)
    }
    levels["l30"] = {"type": "string"}
    schema = {"$ref": "#/definitions/l0", "definitions": levels}
    mapping = json_language._Mapping()
    mapping.map([json_language._Document(schema, {})])
    assert mapping.count < 2 * json_language._MOST_TYPES
    found, _ = decoded(
        [registered("t-value", 1, 1, schema, schemaType="JSON")], [b'\0\0\0\0\x01{"a":null}']
    )
    assert found == ['{"a":null}'] or isinstance(found[0], dict)


def test_odd_schemas_of_json() -> None:
    circle = {"type": "object", "properties": {"next": {"$ref": "#"}, "x": {"type": "integer"}}}
    found, _ = decoded(
        [registered("t-value", 1, 1, circle, schemaType="JSON")],
        [
            b'\0\0\0\0\x01{"x":1,"next":{"x":2}}',
            b'\0\0\0\0\x01{"y":1}',
            b"\0\0\0\0\x01" + b"[" * 9999,
        ],
    )
    assert found == [{"x": 1, "next": '{"x":2}'}, None, None]
    for odd in (True, [], {"$ref": 5}, {"$ref": "#/a"}, {"type": ["string", "integer"]}, {}):
        kind = json_language._Mapping().map([json_language._Document(odd, {})])[0]
        assert kind == pa.string()


def test_documents_that_arrow_has_no_value_for() -> None:
    properties = {"a": {"type": "string"}, "b": {"type": "number"}, "c": {}}
    schema = {"type": "object", "properties": properties}
    documents = [
        b'{"a":"\\ud800"}',
        b'{"b":1e999}',
        b'{"c":["\\udc00"]}',
        b'{"c":1e999}',
        b'{"b":1}',
    ]
    values = [b"\0\0\0\0\x01" + each for each in documents]
    found, failed = decoded([registered("t-value", 1, 1, schema, schemaType="JSON")], values)
    assert found == [*[None] * 4, {"a": None, "b": 1.0, "c": None}]
    assert failed == {"broken payload (no such document): id 1": 4}
    odd = {"type": "object", "properties": {"\ud800": {"type": "string"}}}
    assert json_language._Mapping().map([json_language._Document(odd, {})])[0] == pa.string()


def test_many_unknown_ids_are_few_counts() -> None:
    values = [b"\0" + number.to_bytes(4, "big") + b"x" for number in range(100, 20_100)]
    found, failed = decoded([registered("t-value", 1, 1, V1)], values)
    assert found == [None] * len(values)
    assert sum(failed.values()) == len(values)
    assert len(failed) == 101


@pytest.mark.parametrize("front", [b"\xc3\x01" + bytes(4), b"\x03\0" + bytes(12)])
def test_many_unknown_fingerprints_and_guids_are_few_counts(front: bytes) -> None:
    """Of a registry that is asked once for all fingerprints."""
    values = [front + number.to_bytes(4, "big") + b"x" for number in range(100, 5100)]
    found, failed = decoded([registered("t-value", 1, 1, V1)], values)
    assert found == [None] * len(values)
    assert sum(failed.values()) == len(values)
    assert len(failed) == 101


def test_rules_that_encode_are_told(tmp_path: Path) -> None:
    rules = {"encodingRules": [{"name": "e", "type": "ENCRYPT_PAYLOAD"}]}
    records = [registered("t-value", 1, 1, V1, ruleSet=rules)]
    found, failed = decoded(records, [framed(1, V1, {"id": 1})])
    assert (found, failed) == ([None], {"encoded by a rule: id 1": 1})
    plan = plan_payloads(
        fold_registry(records),
        "t",
        "value",
        wire=WireFormat.AUTO,
        only=None,
        seen=[],
        max_bytes=1000,
    )
    assert "rules that encode payloads (ENCRYPT_PAYLOAD)" in plan.told[0]


def test_times_that_do_not_fit_are_no_other_times() -> None:
    schema = record("T", ("at", {"type": "long", "logicalType": "timestamp-millis"}))
    values = [framed(1, schema, {"at": number}) for number in (5, 2**62, -(2**62), 7)]
    found, failed = decoded([registered("t-value", 1, 1, schema)], values)
    assert [value and value["at"].timestamp() for value in found] == [0.005, None, None, 0.007]
    assert sum(failed.values()) == 2


LOST = "fields without a column: id {}"


def test_a_field_of_an_old_version_that_no_sample_had() -> None:
    old = record("Order", ("id", "int"), ("precious", "string"))
    versions = [registered("t-value", at, at, V1) for at in range(2, 23)]
    values = [framed(1, old, {"id": 1, "precious": "x"}), framed(2, V1, {"id": 2})]
    found, failed = decoded([registered("t-value", 1, 1, old), *versions], values)
    assert found == [None, {"id": 2}]
    assert failed == {LOST.format(1): 1}


def test_a_field_of_another_subject_that_no_sample_had() -> None:
    more = record("Order", ("id", "int"), ("more", "string"))
    records = [registered("t-value", 1, 1, V1), registered("other", 1, 2, more)]
    found, failed = decoded(records, [framed(2, more, {"id": 1, "more": "x"})])
    assert (found, failed) == ([None], {LOST.format(2): 1})


def test_a_field_of_an_inner_record_that_was_dropped() -> None:
    first, second = (
        record("Order", ("lines", {"type": "array", "items": record("Line", *fields)}))
        for fields in ([("a", "int"), ("b", "string")], [("a", "int")])
    )
    records = [registered("t-value", 1, 1, first), registered("t-value", 2, 2, second)]
    values = [
        framed(1, first, {"lines": [{"a": 1, "b": "x"}]}),
        framed(2, second, {"lines": [{"a": 1}]}),
    ]
    found, failed = decoded(records, values)
    assert found == [{"lines": [{"a": 1, "b": "x"}]}, {"lines": [{"a": 1, "b": None}]}]
    assert failed == {}


def test_inner_fields_of_several_versions() -> None:
    """Under unions and other names; one that was dropped whole, with types of its own."""
    size = {"type": "enum", "name": "Size", "symbols": ["S", "L"]}
    first = record("Order", ("line", ["null", record("Line", ("size", size), ("n", "int"))]))
    gone = record("Gone", ("sizes", {"type": "array", "items": "Size"}))
    second = record(
        "Order", ("line", record("Line", ("size", size), ("part", record("Part", ("old", gone)))))
    )
    part = record("Part", ("k", "int", 5))
    third = record("Order", ("row", ["null", record("Line", ("part", part, {"k": 6}))]))
    third["fields"][0]["aliases"] = ["line"]
    records = [
        registered("t-value", at, at, each) for at, each in enumerate((first, second, third), 1)
    ]
    values = [
        framed(1, first, {"line": {"size": "L", "n": 7}}),
        framed(1, first, {"line": None}),
        framed(2, second, {"line": {"size": "S", "part": {"old": {"sizes": ["L", "S"]}}}}),
        framed(3, third, {"row": {"part": {"k": 8}}}),
    ]
    found, failed = decoded(records, values)
    assert failed == {}
    old = {"sizes": ["L", "S"]}
    assert found == [
        {"row": {"part": {"k": 6, "old": None}, "size": "L", "n": 7}},
        {"row": None},
        {"row": {"part": {"k": 5, "old": old}, "size": "S", "n": None}},
        {"row": {"part": {"k": 8, "old": None}, "size": None, "n": None}},
    ]


def test_an_older_version_does_not_change_a_column() -> None:
    """A record that contained itself would be text: it stays a struct, and old values bytes."""
    first = record("Node", ("value", "int"), ("next", ["null", "Node"]))
    second = record("Node", ("value", "int"))
    records = [registered("t-value", 1, 1, first), registered("t-value", 2, 2, second)]
    values = [framed(1, first, {"value": 1, "next": None}), framed(2, second, {"value": 2})]
    assert decoded(records, values) == ([None, {"value": 2}], {LOST.format(1): 1})


def test_properties_of_older_documents() -> None:
    """At every depth; what no schema ever had stays bytes."""

    def schema(**properties: Any) -> dict[str, Any]:
        return {"type": "object", "properties": properties}

    text, number = {"type": "string"}, {"type": "integer"}
    first = schema(a=number, b=text, c={"type": "array", "items": schema(x=text, y=text)})
    second = schema(a=number, c={"type": "array", "items": schema(y=number)})
    records = [
        registered("t-value", at, at, each, schemaType="JSON")
        for at, each in enumerate((first, second), 1)
    ]
    values = [
        b'\0\0\0\0\x01{"a":1,"b":"b","c":[{"x":"x"}]}',
        b'\0\0\0\0\x02{"a":1,"c":[{"y":2}]}',
        b'\0\0\0\0\x01{"c":[{"y":"two"}]}',
        b'\0\0\0\0\x02{"z":1}',
    ]
    found, failed = decoded(records, values)
    assert found == [
        {"a": 1, "c": [{"y": None, "x": "x"}], "b": "b"},
        {"a": 1, "c": [{"y": 2, "x": None}], "b": None},
        None,
        None,
    ]
    assert sum(failed.values()) == 2


def test_a_field_that_changed_its_capitals() -> None:
    first, second = record("A", ("Name", "string")), record("A", ("name", "string", ""))
    records = [registered("t-value", 1, 1, first), registered("t-value", 2, 2, second)]
    found, failed = decoded(records, [framed(1, first, {"Name": "precious"})])
    assert (found, failed) == ([None], {LOST.format(1): 1})


def test_a_field_of_an_inner_message_that_was_dropped() -> None:
    text = 'syntax = "proto3"; message B {{ A a = 1; }} message A {{ int64 b = 2; {} }}'
    records = [
        registered("t-value", at, at, text.format(more), schemaType="PROTOBUF")
        for at, more in ((1, "string a = 1;"), (2, ""))
    ]
    inner = b"\x0a\x01x\x10\x05"
    values = [b"\0\0\0\0" + at + b"\0\x0a\x05" + inner for at in (b"\1", b"\2")]
    found, failed = decoded(records, values)
    assert found == [None, {"a": {"b": 5}}]
    assert failed == {LOST.format(1): 1}


def test_apicurio_has_no_exception_for_bytes() -> None:
    records = [registered("t-value", 1, 1, '"bytes"')]
    raw, framed_bytes = b"\0\0\0\0\x01abc", b"\0\0\0\0\x01\x06abc"
    assert decoded(records, [raw], wire=WireFormat.CONFLUENT)[0] == [b"abc"]
    assert decoded(records, [framed_bytes], wire=WireFormat.APICURIO)[0] == [b"abc"]


def test_a_large_schema(tmp_path: Path) -> None:
    fields = [(f"f{at}", "string") for at in range(270_000)]
    text = json.dumps(record("Large", *fields))
    assert len(text) > 10_000_000
    with pytest.raises(OptionError, match="no schema for the values of t can be used"):
        decoded([registered("t-value", 1, 1, text)], [])


def test_a_glue_message_has_a_number_in_front() -> None:
    """In the order of the full names of all messages, those of maps and inner ones too."""
    text = """syntax = "proto3"; package p;
      message B { map<string, int64> counts = 1; message A { string a = 1; } }
      message A { string a = 1; }"""
    record = registered("t-value", 1, 1, text, schemaType="PROTOBUF")
    guid = bytes.fromhex(fold_registry([record]).versions[0].guid.replace("-", ""))
    front, body = b"\x03\0" + guid, b"\x0a\x05\x0a\x01k\x10\x07"
    values = [front + b"\x01" + body, front + b"\x00\x0a\x01x", front + b"\x81\x00" + body]
    values += [front, front + b"\x09" + body, front + b"\xff" * 9]
    packed = b"\x03\x05" + guid + zlib.compress(b"\x01" + body)
    found, failed = decoded([record], [*values, packed])
    counts = {"counts": [("k", 7)]}
    assert found == [counts, None, counts, None, None, None, counts]
    name = f"guid {fold_registry([record]).versions[0].guid}"
    assert failed == {f"another type: {name}": 1, f"unusable schema: {name}": 3}


def test_entries_of_maps_as_messages() -> None:
    """As Apicurio and Glue write the text of a descriptor."""
    text = """syntax = "proto3";
      message A { repeated .A.CountsEntry counts = 1;
      message CountsEntry { option map_entry = true; string key = 1; int64 value = 2; } }"""
    found, failed = decoded([protobuf(text)], [b"\0\0\0\0\x01\0\x0a\x05\x0a\x01k\x10\x07"])
    assert (found, failed) == ([{"counts": [("k", 7)]}], {})
    for wrong in ("", "int64 other = 2;", "int64 value = 3;", "repeated int64 value = 2;"):
        with pytest.raises(OptionError, match=r"is not a key and a value|no descriptors of a file"):
            decoded([protobuf(text.replace("int64 value = 2;", wrong))], [])


@pytest.mark.parametrize("field", [1, 2, 3])
def test_times_of_protobuf_that_do_not_fit(field: int) -> None:
    text = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
      import "google/protobuf/duration.proto"; message A { google.protobuf.Timestamp a = 1;
      repeated google.protobuf.Timestamp b = 2; google.protobuf.Duration c = 3; }"""
    front = b"\0\0\0\0\x01\0" + bytes([field << 3 | 2])
    near, far = b"\x02\x08\x05", b"\x0a\x08" + b"\xff" * 8 + b"\x3f"
    found, failed = decoded([protobuf(text)], [front + near, front + far, front + near])
    assert [value is None for value in found] == [False, True, False]
    assert failed == {"broken payload (no such message): id 1": 1}


def test_many_messages_that_no_file_has() -> None:
    """As many parts of a column as there are messages in a file, and no more."""
    evens = range(0, 126, 2)
    paths = [b"\x04" + bytes([first, second]) for first in evens for second in evens]
    good = b"\x0a\x01x\x10\x05"
    found, failed = decoded([protobuf()], [b"\0\0\0\0\x01" + path + good for path in paths])
    assert found == [None] * len(paths)
    assert failed == {"unusable schema: id 1": len(paths)}
    guid = bytes.fromhex(fold_registry([protobuf()]).versions[0].guid.replace("-", ""))
    named = [("__value_schema_id", b"\x01" + guid + path) for path in (b"", *paths)]
    found, failed = decoded([protobuf()], [good] * len(named), headers=[[each] for each in named])
    assert found == [{"a": "x", "b": 5}, *[None] * len(paths)]
    assert sum(failed.values()) == len(paths)


def test_headers_of_apicurio() -> None:
    records = [registered("t-value", 1, 7, V1), registered("t-value", 2, 8, V1 | {"doc": "2"})]
    front = "apicurio.value."
    seven, nine = (number.to_bytes(8, "big") for number in (7, 9))
    headers = [
        [(f"{front}contentId", seven), (f"{front}encoding", b"BINARY")],
        [(f"{front}globalId", seven)],
        [(f"{front}globalId", nine), (f"{front}contentId", seven)],
        [(f"{front}contentId", nine)],
        [(f"{front}contentId", seven), (f"{front}encoding", b"JSON")],
        [(f"{front}contentId", b"7")],
        [("apicurio.key.contentId", seven)],
    ]
    expected = [{"id": 5}] * 3 + [None] * 4
    for wire in (WireFormat.AUTO, WireFormat.APICURIO):
        found, failed = decoded(records, [b"\x0a"] * len(headers), headers=headers, wire=wire)
        assert found == expected
        assert failed == {
            "no such schema: id 9": 1,
            "Avro as JSON: id 7": 1,
            "names no schema: no schema named": 2,
        }
