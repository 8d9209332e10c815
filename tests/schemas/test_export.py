"""Exports of values with schemas: no row is missing, and all readers agree on the columns."""

import json
import uuid
import zlib
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.dataset as ds
import pytest

import ottla
from cli.here import run
from ottla.errors import OptionError
from ottla.jobs.schemas.resolve import resolve_payloads
from ottla.options.read import parse_read_options
from schemas.registries import framed, record, registered, write_registry, write_values

V1 = record("Order", ("id", "int"), ("note", "string"))
V2 = record("Order", ("id", "long"), ("note", "string"), ("price", ["null", "double"], None))
V3 = record("Order", ("id", "long"), ("price", ["null", "double"], None))
V4 = record(
    "Order",
    ("id", "long"),
    ("price", ["null", "double"], None),
    ("lines", {"type": "array", "items": "string"}, []),
)
VERSIONS = {11: V1, 12: V2, 13: V3, 14: V4}
VALUES = [
    framed(11, V1, {"id": 1, "note": "a"}),
    framed(12, V2, {"id": 2, "note": "b", "price": 0.5}),
    framed(13, V3, {"id": 3, "price": None}),
    framed(14, V4, {"id": 4, "price": 1.5, "lines": ["x", "y"]}),
    None,
    framed(99, V4, {"id": 5, "price": None, "lines": []}),
    framed(14, V4, {"id": 6, "price": None, "lines": ["z"]})[:-1],
    b"\0\0",
    b"text",
    b"",
]
EXPECTED = [
    {"id": 1, "price": None, "lines": [], "note": "a"},
    {"id": 2, "price": 0.5, "lines": [], "note": "b"},
    {"id": 3, "price": None, "lines": [], "note": None},
    {"id": 4, "price": 1.5, "lines": ["x", "y"], "note": None},
    *[None] * 6,
]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write_orders(tmp_path / "logs")
    return tmp_path / "logs"


def write_orders(folder: Path) -> None:
    """A topic of four schemas, with what none explains."""
    write_registry(
        folder,
        [
            registered("orders-value", at + 1, number, schema)
            for at, (number, schema) in enumerate(VERSIONS.items())
        ],
    )
    write_values(folder, "orders", VALUES)


def account_of(out: Path) -> dict[str, Any]:
    (path,) = Path(f"{out}.ottla").rglob("account.json")
    (row,) = json.loads(path.read_text())["account"]
    return row


def test_four_versions_unknown_ids_and_broken_datums(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ottla.open(logs).export(out, "orders", value_as="registry")
    table = ds.dataset(out, format="parquet", partitioning="hive").to_table()
    assert table["value"].to_pylist() == EXPECTED
    raws = [None] * 5 + VALUES[5:]
    assert table["valueRaw"].to_pylist() == raws
    assert account_of(out)["payloads"]["value"] == {
        "decoded": {"id 11": 1, "id 12": 1, "id 13": 1, "id 14": 1},
        "failed": {
            "no such schema: id 99": 1,
            "broken payload (truncated): id 14": 1,
            "names no schema: no schema named": 3,
        },
    }
    pattern = str(out / "**" / "*.parquet")
    rows = duckdb.sql(f"select value from '{pattern}' order by \"offset\"").fetchall()
    assert [value for (value,) in rows] == EXPECTED
    assert polars.read_parquet(pattern)["value"].to_list() == EXPECTED


def test_pandas_has_integers(logs: Path) -> None:
    found = ottla.open(logs).scan("orders", value_as="registry").to_pandas()
    assert type(found["value"][0]["id"]) is int


def test_lines_of_json(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ottla.open(logs).export(out, "orders", value_as="avro", format="jsonl")
    (path,) = out.rglob("*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["value"] for row in rows] == EXPECTED


def test_times_that_python_has_no_year_for(tmp_path: Path) -> None:
    at = {"type": "long", "logicalType": "timestamp-millis"}
    day = {"type": "int", "logicalType": "date"}
    several = {"type": "array", "items": at}
    schema = record(
        "T", ("at", at), ("day", day), ("all", several), ("map", {"type": "map", "values": day})
    )
    write_registry(tmp_path / "logs", [registered("t-value", 1, 1, schema)])
    far, last = 1_700_000_000_000_000, 2**31 - 1
    rows = [
        {"at": 0, "day": 1, "all": [0], "map": {"a": 1}},
        {"at": far, "day": last, "all": [0, far], "map": {"a": last}},
        {"at": 0, "day": last, "all": [], "map": {}},
    ]
    write_values(tmp_path / "logs", "t", [framed(1, schema, row) for row in rows])
    early, date = "1970-01-01T00:00:00+00:00", "1970-01-02"
    expected = [
        {"at": early, "day": date, "all": [early], "map": [["a", date]]},
        {"at": far * 1000, "day": last, "all": [early, far * 1000], "map": [["a", last]]},
        {"at": early, "day": last, "all": [], "map": []},
    ]
    log = ottla.open(tmp_path / "logs")
    log.export(tmp_path / "out", "t", value_as="registry", format="jsonl")
    (path,) = (tmp_path / "out").rglob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["value"] for line in lines] == expected
    words = ["--topic", "t", "--value-as", "registry", "--format", "jsonl"]
    code, out, _ = run("dump", str(tmp_path / "logs"), *words)
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["decoded"]["value"] for line in lines if "decoded" in line] == expected


def test_a_later_run_adds_columns(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ottla.open(logs).export(out, "orders", value_as="registry")
    v5 = record("Order", ("id", "long"), ("more", "string", "m"))
    records = [registered("orders-value", at, 10 + at, VERSIONS[10 + at]) for at in range(1, 5)]
    write_registry(logs, [*records, registered("orders-value", 5, 15, v5)])
    write_values(logs, "orders", [framed(15, v5, {"id": 7, "more": "n"})], base=100)
    ottla.open(logs).export(out, "orders", value_as="registry")
    pattern = str(out / "**" / "*.parquet")
    table = f"read_parquet('{pattern}', union_by_name=true)"
    query = f"select value.id, value.more, value.price from {table}"
    assert (7, "n", None) in duckdb.sql(query).fetchall()


def test_a_later_run_retypes_nothing(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ottla.open(logs).export(out, "orders", value_as="registry")
    other = record("Order", ("id", "string"))
    write_registry(logs, [registered("orders-value", 1, 21, other)])
    write_values(logs, "orders", [framed(21, other, {"id": "x"})], base=100)
    with pytest.raises(OptionError, match=r"value\.id was int64, is string"):
        ottla.open(logs).export(out, "orders", value_as="registry")
    with pytest.raises(OptionError, match="valueAs is registry, not binary"):
        ottla.open(logs).export(out, "orders")


def test_a_table_for_each_type(tmp_path: Path) -> None:
    user = record("User", ("name", "string"))
    write_registry(
        tmp_path / "logs",
        [registered("shop.Order", 1, 1, V1), registered("shop.User", 1, 2, user)],
    )
    values = [
        framed(1, V1, {"id": 1, "note": "a"}),
        framed(2, user, {"name": "ada"}),
        None,
        b"text",
    ]
    write_values(tmp_path / "logs", "mixed", values)
    log = ottla.open(tmp_path / "logs")
    both = log.scan("mixed", value_as="registry", columns=["value"]).to_arrow().to_pydict()
    assert both["value"] == [
        {"Order": {"id": 1, "note": "a"}, "User": None},
        {"Order": None, "User": {"name": "ada"}},
        None,
        None,
    ]
    log.export(tmp_path / "out", "mixed", value_as="registry", each=True)
    found = tables_of(tmp_path / "out")
    assert {name: [row["value"] for row in rows] for name, rows in found.items()} == {
        "type=Order": [{"id": 1, "note": "a"}],
        "type=User": [{"name": "ada"}],
        "type=_other": [None, None],
    }
    assert [row["valueRaw"] for row in found["type=_other"]] == [None, b"text"]


def tables_of(out: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each folder of an export, by its name."""
    return {
        folder.name: polars.read_parquet(str(folder / "**" / "*.parquet")).rows(named=True)
        for folder in out.iterdir()
    }


def test_a_topic_without_schemas_beside_tables_for_each_type(logs: Path, tmp_path: Path) -> None:
    write_values(logs, "plain", [b"hello", b"world", None])
    ottla.open(logs).export(tmp_path / "out", value_as="registry", each=True)
    found = tables_of(tmp_path / "out")
    assert [row["value"] for row in found["topic=plain"]] == [b"hello", b"world", None]
    assert sum(map(len, (found["type=Order"], found["type=_other"]))) == len(VALUES)


def test_types_with_odd_names_have_tables(tmp_path: Path) -> None:
    """One is called as what is of no type, others are too long for a file system."""
    names = ["_other", "L" * 300, "L" * 299 + "M"]
    schemas = [record(name, ("id", "int")) for name in names]
    records = [registered(f"s{at}", 1, at + 1, each) for at, each in enumerate(schemas)]
    write_registry(tmp_path / "logs", records)
    values = [framed(at + 1, each, {"id": at}) for at, each in enumerate(schemas)]
    write_values(tmp_path / "logs", "odd", [*values, b"text"])
    ottla.open(tmp_path / "logs").export(tmp_path / "out", "odd", value_as="registry", each=True)
    found = tables_of(tmp_path / "out")
    assert len(found) == 4
    assert [row["value"] for row in found["type=_other_2"]] == [{"id": 0}]
    assert [row["valueRaw"] for row in found["type=_other"]] == [b"text"]


def test_datums_that_are_null_are_rows_of_a_table(tmp_path: Path) -> None:
    maybe = ["null", record("Maybe", ("id", "long"))]
    user = record("User", ("name", "string"))
    write_registry(
        tmp_path / "logs",
        [registered("shop.Maybe", 1, 1, maybe), registered("shop.User", 1, 2, user)],
    )
    null = b"\0\0\0\0\1\0"
    values = [framed(1, maybe, {"id": 5}), null, framed(2, user, {"name": "ada"}), None]
    write_values(tmp_path / "logs", "mixed", values)
    ottla.open(tmp_path / "logs").export(tmp_path / "out", "mixed", value_as="registry", each=True)
    found = tables_of(tmp_path / "out")
    assert sum(map(len, found.values())) == len(values)
    assert [row["valueRaw"] for row in found["type=_other"]] == [null, None]


def test_a_type_that_no_sample_had_is_no_row_of_defaults(tmp_path: Path) -> None:
    """Without its schema in the plan a record is null, with its bytes and the reason."""
    empty = {"type": "record", "name": "Empty", "namespace": "shop", "fields": []}
    fixed = record("Fixed", ("none", {"type": "fixed", "name": "F", "size": 0}), ("nil", "null"))
    write_registry(
        tmp_path / "logs",
        [registered("odd-value", 1, 1, empty), registered("odd-value", 2, 2, fixed)],
    )
    values = [framed(1, empty, {}), framed(2, fixed, {"none": b"", "nil": None})]
    write_values(tmp_path / "logs", "odd", values)
    ottla.open(tmp_path / "logs").export(tmp_path / "out", "odd", value_as="registry")
    table = ds.dataset(tmp_path / "out", format="parquet").to_table()
    assert table.num_rows == 2
    assert table["valueRaw"].null_count == 2


def test_topics_without_schemas_stay_bytes(logs: Path, tmp_path: Path) -> None:
    """Where the registry decides; and they do not become structs in the same place later."""
    out = tmp_path / "out"
    write_values(logs, "plain", [b"text"])
    ottla.open(logs).export(out, value_as="registry")
    found = {path.parts[-3] for path in out.rglob("*.parquet")}
    assert found == {"topic=_schemas", "topic=orders", "topic=plain"}
    plain = polars.read_parquet(str(out / "topic=plain" / "**" / "*.parquet"))
    assert plain["value"].to_list() == [b"text"]
    records = [registered("orders-value", at, 10 + at, VERSIONS[10 + at]) for at in range(1, 5)]
    write_registry(logs, [*records, registered("plain-value", 1, 30, V1)])
    with pytest.raises(OptionError, match="value was binary, is struct"):
        ottla.open(logs).export(out, "plain", value_as="registry")


def test_keys_without_schemas_leave_values_as_they_are(logs: Path, tmp_path: Path) -> None:
    """A schema for the keys of another topic changes nothing for these."""
    key = record("Key", ("id", "int"))
    records = [registered("orders-value", at, 10 + at, VERSIONS[10 + at]) for at in range(1, 5)]
    write_registry(logs, [*records, registered("users-key", 1, 30, key)])
    write_values(logs, "users", [b"text"])
    log = ottla.open(logs)
    found = log.scan("orders", value_as="registry", key_as="registry").to_arrow()
    assert found["value"].to_pylist() == EXPECTED
    assert found["key"].to_pylist() == [b"k"] * len(EXPECTED)
    log.export(tmp_path / "out", ["orders", "users"], value_as="registry", key_as="registry")
    orders = polars.read_parquet(str(tmp_path / "out" / "topic=orders" / "**" / "*.parquet"))
    assert orders["value"].to_list() == EXPECTED


def test_a_topic_whose_schemas_can_not_be_used_is_told(logs: Path, tmp_path: Path) -> None:
    records = [registered("orders-value", at, 10 + at, VERSIONS[10 + at]) for at in range(1, 5)]
    bad = registered("bad-value", 1, 30, "message {", schemaType="PROTOBUF")
    write_registry(logs, [*records, bad])
    write_values(logs, "bad", [b"\0\0\0\0\x1e\0x"])
    out = str(tmp_path / "out")
    topics = ["--topic", "orders", "--topic", "bad", "--value-as", "registry"]
    code, _, told = run("export", str(logs), out, *topics)
    assert code == 0
    assert "the values of bad stay bytes: no schema for the values of bad can be used" in told
    code, _, told = run("dump", str(logs), *topics)
    assert code == 0
    assert "the values of bad stay bytes" in told
    with pytest.raises(OptionError, match="no schema for the values of bad can be used"):
        ottla.open(logs).scan("bad", value_as="registry").to_arrow()


def test_one_bad_schema_stops_nothing(logs: Path) -> None:
    records = [registered("orders-value", at, 10 + at, VERSIONS[10 + at]) for at in range(1, 5)]
    write_registry(logs, [*records, registered("orders-value", 5, 15, "no schema")])
    with pytest.warns(UserWarning, match=r"version 5 \(id 15\) cannot be used"):
        found = ottla.open(logs).scan("orders", value_as="registry").to_arrow()
    assert found["value"].to_pylist() == EXPECTED


def test_what_glue_packed_is_bounded_by_max_batch_bytes(tmp_path: Path) -> None:
    """Its schemas are files, named by the ids of their versions."""
    folder, number = tmp_path / "files", uuid.UUID(int=7)
    folder.mkdir()
    (folder / f"t-value.v1.id{number}.avsc").write_text('"string"')
    packed = zlib.compress(b"\xe0\xd4\x03" + b"a" * 30_000)
    write_values(tmp_path / "logs", "t", [b"\x03\x05" + number.bytes + packed] * 3)
    log = ottla.open(tmp_path / "logs")
    found = log.scan("t", value_as="avro", schemas=folder).to_arrow()
    assert found["value"].to_pylist() == ["a" * 30_000] * 3
    words = ["--value-as", "avro", "--schemas", str(folder), "--max-batch-bytes", "10000"]
    code, out, _ = run("dump", str(tmp_path / "logs"), *words)
    assert code == 0
    assert out.count(f"undecodable: value: too large: guid {number}") == 3
    texts = {"path": str(tmp_path / "logs"), "valueAs": "avro", "schemas": str(folder)}
    given = resolve_payloads(parse_read_options(texts | {"maxBatchBytes": "10000"}))
    assert given.payloads.value is not None
    assert given.payloads.value.max_bytes == 10_000
