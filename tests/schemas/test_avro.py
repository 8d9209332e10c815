"""Datums of Avro against fastavro: random schemas and values, and what is wrong with others."""

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernels._jit import INTERPRETED
from ottla.kernels.avro.check import check
from ottla.kernels.avro.fill import fill
from ottla.kernels.avro.skip import skip
from ottla.kernels.avro.wire import gather_spans, split_wire
from ottla.schemas import avro
from ottla.schemas.avro import (
    AvroFault,
    AvroProgram,
    SchemaError,
    compile_avro,
    decode_avro,
    parse_avro,
)
from ottla.schemas.fitting import bisect, fit, fit_type
from ottla.schemas.spans import spans_of
from ottla.schemas.wire import Wire, fingerprint, split
from schemas.avro_cases import (
    LOGICAL,
    PLAIN,
    Json,
    as_numbers,
    encode,
    is_read_by_fastavro,
    named,
    parsed,
    plain,
    read_by_fastavro,
    readers,
    same,
    schemas,
    thorough,
    values,
    varint,
)

LIMIT = 1 << 24


def decode(
    datums: list[bytes | None], writer: Json, reader: Json | None = None, limit: int = LIMIT
) -> tuple[list[Any], list[int]]:
    program = program_of(writer, reader)
    array, faults = decode_avro(program, pa.array(datums, pa.binary()), limit)
    array.validate(full=True)
    assert array.type == program.arrow_type
    assert len(array) == len(datums)
    return as_numbers(array).to_pylist(), faults.tolist()


def program_of(writer: Json, reader: Json | None = None) -> AvroProgram:
    given = parse_avro(json.dumps(writer))
    return compile_avro(given, None if reader is None else parse_avro(json.dumps(reader)))


@given(st.data())
def test_random_datums_are_what_fastavro_reads(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    types = named(schema)
    _, theirs = parsed(schema)
    given_values = data.draw(st.lists(values(schema, types), min_size=1, max_size=4))
    datums = [encode(schema, one, types) for one in given_values]
    found, faults = decode([*datums, None], schema)
    assert faults == [0] * (len(datums) + 1)
    assert found[-1] is None
    for datum, one in zip(datums, found, strict=False):
        assert same(plain(schema, types, one), read_by_fastavro(datum, theirs)), (datum, one)


@given(st.data())
def test_every_prefix_and_flipped_byte_gives_a_value_or_one_fault(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    types = named(schema)
    _, theirs = parsed(schema)
    datum = encode(schema, data.draw(values(schema, types)), types)[:60]
    broken = [datum[:size] for size in range(len(datum))]
    broken += [
        datum[:at] + bytes([datum[at] ^ flip]) + datum[at + 1 :]
        for at in range(len(datum))
        for flip in (1, 0x80, 0xFF)
    ]
    found, faults = decode([datum, *broken, datum], schema, limit=1 << 20)
    assert repr(found[0]) == repr(found[-1])  # NaN is not equal to itself
    for piece, one, fault in zip(broken, found[1:-1], faults[1:-1], strict=True):
        if fault:
            assert one is None
        if fault in (AvroFault.TOO_LARGE, AvroFault.BAD_COUNT):
            continue  # fastavro would go on for as long as it has memory
        try:
            expected = read_by_fastavro(piece, theirs)
        except Exception:
            assert fault, (piece, one)
            continue
        if not fault:
            assert same(plain(schema, types, one), expected), (piece, one, expected)


@given(st.data())
def test_one_pass_is_as_good_as_two_or_gives_up(data: st.DataObject) -> None:
    """From the first datum it guesses how much room there must be for all."""
    schema = data.draw(schemas())
    types = named(schema)
    drawn = data.draw(st.lists(values(schema, types), min_size=2, max_size=4))
    datums = [encode(schema, one, types) for one in drawn]
    if data.draw(st.booleans()):
        last = datums[-1]
        at = data.draw(st.integers(0, len(last)))
        datums[-1] = last[:at] + data.draw(st.sampled_from([b"", b"\xff", b"\0"])) + last[at + 1 :]
    nulls = data.draw(st.integers(0, 1))
    program, column = program_of(schema), pa.array([*datums, *[None] * nulls], pa.binary())
    array, faults = decode_avro(program, column, LIMIT)
    spans = spans_of(column)
    for step in (1, len(column)):
        made = avro._fill_at_once(program, *spans, LIMIT, step)
        if made is None:
            continue
        assert not faults.any()
        once = made.array(program.code.top, is_whole=not nulls)
        once.validate(full=True)
        assert repr(as_numbers(once).to_pylist()) == repr(as_numbers(array).to_pylist())


@pytest.mark.skipif(INTERPRETED, reason="it takes too long")
def test_many_datums_are_what_each_is_alone() -> None:
    """Alike, of which the last need more room than was guessed, and one of which is broken."""
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": in_array("long")}],
    }
    short, long = b"\x02x\0", b"\xc0\x3e" + b"y" * 4000 + b"\x04\x02\x04\0"
    expected = [{"a": "x", "b": []}] * 9000
    assert decode([short] * 9000, schema) == (expected, [0] * 9000)
    found, faults = decode([short] * 9000 + [long] * 100, schema)
    assert found == expected + [{"a": "y" * 4000, "b": [1, 2]}] * 100
    assert not any(faults)
    found, faults = decode([*[short] * 8000, b"\x04x", *[short] * 1000], schema)
    assert found == [*expected[:8000], None, *expected[8000:]]
    assert faults.index(AvroFault.TRUNCATED) == 8000


@given(st.data())
def test_random_pairs_resolve_as_fastavro_resolves_them(data: st.DataObject) -> None:
    writer = data.draw(schemas())
    reader = data.draw(readers(writer))
    types = named(writer)
    try:
        _, theirs = parsed(reader)
    except Exception:
        # A name may now be used before its type is defined.
        with pytest.raises(SchemaError):
            parse_avro(json.dumps(reader))
        return
    _, wrote = parsed(writer)
    datums = [
        encode(writer, one, types)
        for one in data.draw(st.lists(values(writer, types), min_size=1, max_size=3))
    ]
    expected = []
    for datum in datums:
        resolved = is_read_by_fastavro(datum, wrote, theirs)
        expected.append((resolved, read_by_fastavro(datum, wrote, theirs) if resolved else None))
    try:
        found, faults = decode(list(datums), writer, reader)
    except SchemaError:
        # fastavro finds out when it meets what does not resolve: a list may be empty.
        every = [encode(writer, one, types) for one in thorough(writer, types)]
        assert not all(is_read_by_fastavro(datum, wrote, theirs) for datum in every)
        return
    for one, fault, (resolved, value) in zip(found, faults, expected, strict=True):
        if fault == AvroFault.OUT_OF_RANGE and "decimal" in json.dumps(reader):
            continue  # a text that is read as bytes is no decimal, and fastavro was not asked
        if resolved and fault == AvroFault.BAD_BRANCH:
            # The same: what the branch holds does not resolve, and the datum has none of it.
            every = [encode(writer, each, types) for each in thorough(writer, types)]
            assert not all(is_read_by_fastavro(datum, wrote, theirs) for datum in every)
            continue
        assert resolved == (not fault), (one, fault, value)
        if resolved:
            assert same(plain(reader, named(reader), one), value), (one, value)


def test_a_branch_of_the_very_type_is_chosen() -> None:
    """As Avro's Java does, before it looks for one that a value can be promoted to."""
    assert decode([b"\0\2\xff", b"\2\2x"], ["bytes", "string"], ["string", "bytes"]) == (
        [{"string": None, "bytes": b"\xff"}, {"string": "x", "bytes": None}],
        [0, 0],
    )
    found, _ = decode([b"\2"], "int", ["double", "long", "int"])
    assert found == [{"double": None, "long": None, "int": 1}]


RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
EMPTY = {"type": "record", "name": "Empty", "fields": []}


def in_array(items: Json) -> Json:
    return {"type": "array", "items": items}


BOMBS = [
    pytest.param(in_array("null"), varint(2**31) + b"\0", AvroFault.TOO_LARGE, id="nulls"),
    pytest.param(in_array(EMPTY), varint(2**31) + b"\0", AvroFault.TOO_LARGE, id="empty-records"),
    pytest.param(in_array("null"), varint(2**62) + b"\0", AvroFault.TOO_LARGE, id="most-nulls"),
    pytest.param(in_array("long"), varint(2**31) + b"\0", AvroFault.BAD_COUNT, id="longs"),
    pytest.param(in_array("long"), varint(-(2**31)) + b"\2\0", AvroFault.BAD_COUNT, id="negative"),
    pytest.param(in_array("long"), varint(-(2**63)) + b"\2\0", AvroFault.BAD_COUNT, id="least"),
    pytest.param(
        {"type": "map", "values": "null"}, varint(2**31) + b"\0", AvroFault.BAD_COUNT, id="map"
    ),
    pytest.param("string", varint(2**31) + b"x", AvroFault.TRUNCATED, id="string-of-2-GiB"),
    pytest.param("bytes", varint(-1), AvroFault.BAD_LENGTH, id="negative-length"),
    pytest.param("string", b"\x02\xff", AvroFault.BAD_UTF8, id="no-text"),
    pytest.param("long", b"\xff" * 10 + b"\x01", AvroFault.BAD_NUMBER, id="endless-number"),
    pytest.param("int", varint(2**31), AvroFault.OUT_OF_RANGE, id="no-int"),
    pytest.param("boolean", b"\x02", AvroFault.OUT_OF_RANGE, id="no-boolean"),
    pytest.param(["null", "int"], varint(2), AvroFault.BAD_BRANCH, id="no-branch"),
    pytest.param(["null", "int", "string"], varint(-1), AvroFault.BAD_BRANCH, id="minus-branch"),
    pytest.param(
        {"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", AvroFault.BAD_ENUM, id="no-symbol"
    ),
    pytest.param("int", b"\x02\x02", AvroFault.TRAILING, id="trailing"),
    pytest.param("double", bytes(7), AvroFault.TRUNCATED, id="short-double"),
    pytest.param(NODE, b"\x02\x02" * 5000 + b"\x02\x00", AvroFault.TOO_DEEP, id="deep"),
    pytest.param(
        {"type": "long", "logicalType": "timestamp-millis"},
        varint(2**62),
        AvroFault.OUT_OF_RANGE,
        id="far-timestamp",
    ),
    pytest.param(
        {"type": "int", "logicalType": "time-millis"},
        varint(86_400_000),
        AvroFault.OUT_OF_RANGE,
        id="no-time",
    ),
    pytest.param(
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 0},
        b"\x04" + (10_000).to_bytes(2, "big"),
        AvroFault.OUT_OF_RANGE,
        id="no-decimal",
    ),
]


@pytest.mark.parametrize(("schema", "datum", "fault"), BOMBS)
def test_what_is_wrong_is_one_null_and_its_reason(
    schema: Json, datum: bytes, fault: AvroFault
) -> None:
    found, faults = decode([datum, None, datum], schema)
    assert found == [None, None, None]
    assert faults == [fault, 0, fault]


def test_skipped_bombs_cost_no_time() -> None:
    doubled: Json = EMPTY
    for depth in range(60):
        again = f"D{depth - 1}" if depth else "Empty"
        fields = [{"name": "a", "type": doubled}, {"name": "b", "type": again}]
        doubled = {"type": "record", "name": f"D{depth}", "fields": fields}
    writer = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": "long"},
            {"name": "nulls", "type": in_array("null")},
            {"name": "records", "type": in_array(doubled)},
        ],
    }
    datum = b"\x02" + varint(2**40) + b"\0" + varint(2**61) + b"\0"
    assert decode([datum], writer, RECORD) == ([{"a": 1}], [0])


def test_defaults_count_as_memory() -> None:
    """Items without bytes for which the reader has a long default."""
    field = {"name": "text", "type": "string", "default": "x" * 1000}
    reader = in_array({"type": "record", "name": "Empty", "fields": [field]})
    found, faults = decode([varint(10**6) + b"\0", varint(2) + b"\0"], in_array(EMPTY), reader)
    assert faults == [AvroFault.TOO_LARGE, 0]
    assert found == [None, [{"text": "x" * 1000}] * 2]


def test_all_columns_together_stay_within_the_limit() -> None:
    datum = varint(1000) + b"x" * 1000
    found, faults = decode([datum] * 100, "string", limit=10_000)
    assert found.count("x" * 1000) == faults.count(0) == 9
    assert faults.count(AvroFault.TOO_LARGE) == 91
    assert decode([datum] * 100, "string", limit=10)[1] == [AvroFault.TOO_LARGE] * 100


def test_a_record_that_contains_itself_is_json() -> None:
    datums: list[bytes | None] = [b"\x02\x02\x04\x00", b"\x02\x04", None]
    found, faults = decode(datums, NODE)
    assert faults == [0, AvroFault.BAD_BRANCH, 0]
    assert found == ['{"value":1,"next":{"value":2,"next":null}}', None, None]


def test_the_text_of_a_record_has_its_limit_too() -> None:
    """Names of fields are in the text and not in the bytes."""
    node = json.loads(json.dumps(NODE).replace("value", "v" * 10_000))
    long, short = b"\x02\x02" * 50 + b"\x02\x00", b"\x02\x00"
    found, faults = decode([long, short], node, limit=100_000)
    assert faults == [AvroFault.TOO_LARGE, 0]
    assert found == [None, json.dumps({"v" * 10_000: 1, "next": None}, separators=(",", ":"))]


WRONG: list[Any] = [
    "",
    "{",
    "5",
    "null" + " " * 11_000_000,
    "[" * 100_000,
    '"Unknown"',
    "[]",
    '["int","int"]',
    '[["int"]]',
    {"type": 5},
    {"type": None},
    {"type": "record"},
    {"type": "record", "name": "R"},
    {"type": "record", "name": 5, "fields": []},
    {"type": "record", "name": "R", "fields": 5},
    {"type": "record", "name": "R", "fields": [5]},
    {"type": "record", "name": "R", "fields": [{"name": "a"}]},
    {"type": "record", "name": "R", "fields": [{"name": "\ud800", "type": "int"}]},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2},
    {"type": "record", "name": "R", "namespace": 5, "fields": []},
    {"type": "enum", "name": "E"},
    {"type": "enum", "name": "E", "symbols": []},
    {"type": "enum", "name": "E", "symbols": ["A", "A"]},
    {"type": "enum", "name": "E", "symbols": ["A"], "default": ["A"]},
    {"type": "enum", "name": "E", "symbols": [{}]},
    {"type": "fixed", "name": "F"},
    {"type": "fixed", "name": "F", "size": -1},
    {"type": "fixed", "name": "F", "size": True},
    {"type": "array"},
    {"type": "map", "values": 5},
]


@pytest.mark.parametrize("schema", WRONG, ids=lambda schema: str(schema)[:40])
def test_a_wrong_schema_is_an_error_with_a_sentence(schema: Any) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(SchemaError, match=r"\.$"):
        parse_avro(text)


def chain(count: int, fields: int) -> Json:
    """Records that each hold the one before several times: a small schema, a large table."""
    inner: Json = {"type": "record", "name": "L0", "fields": [{"name": "a", "type": "int"}]}
    for level in range(1, count):
        parts = [{"name": f"f{at}", "type": f"L{level - 1}"} for at in range(fields)]
        parts[0]["type"] = inner
        inner = {"type": "record", "name": f"L{level}", "fields": parts}
    return inner


@pytest.mark.parametrize("fields", [2, 10])
def test_a_schema_that_grows_without_end_is_refused_at_once(fields: int) -> None:
    schema = parse_avro(json.dumps(chain(30, fields)))
    with pytest.raises(SchemaError, match="columns"):
        compile_avro(schema)


def test_a_long_chain_of_names_is_refused() -> None:
    """No type is nested deep in the text, but each is in the one before."""
    records: list[Json] = [EMPTY]
    for at in range(5000):
        field = {"name": "a", "type": f"C{at - 1}" if at else "Empty"}
        records.append({"type": "record", "name": f"C{at}", "fields": [field]})
    fields = [{"name": "a", "type": "long"}, {"name": "skipped", "type": records}]
    schema = parse_avro(json.dumps({"type": "record", "name": "R", "fields": fields}))
    with pytest.raises(SchemaError, match="deep"):
        compile_avro(schema)
    # Who does not want it, is not hurt.
    program = compile_avro(schema, parse_avro(json.dumps(RECORD)))
    array, _ = decode_avro(program, pa.array([b"\x02" + varint(4999)]), LIMIT)
    assert array.to_pylist() == [{"a": 1}]
    with pytest.raises(SchemaError, match="deep"):
        fingerprint(parse_avro('"C4999"', [json.dumps(records)]))


def test_a_schema_of_ten_megabytes_is_bounded() -> None:
    fields = [{"name": f"f{at}", "type": "int", "doc": "x" * 900} for at in range(9_990)]
    schema = parse_avro(json.dumps({"type": "record", "name": "R", "fields": fields}))
    found, faults = decode_avro(compile_avro(schema), pa.array([b"\x02" * 9_990, b""]), LIMIT)
    assert faults.tolist() == [0, AvroFault.TRUNCATED]
    assert found[0]["f9989"].as_py() == 1


def test_references_bring_the_types_that_a_schema_lacks() -> None:
    other = {"type": "record", "name": "o.Other", "fields": [{"name": "x", "type": "int"}]}
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "o", "type": "o.Other"}]})
    with pytest.raises(SchemaError, match=r"o\.Other"):
        parse_avro(text)
    schema = parse_avro(text, [json.dumps(other)])
    again = pickle.loads(pickle.dumps(compile_avro(schema)))
    assert again == compile_avro(schema)
    assert hash(again.writer) == hash(schema)
    array, _ = decode_avro(again, pa.array([b"\x04"], pa.large_binary()), LIMIT)
    assert array.to_pylist() == [{"o": {"x": 2}}]


def test_a_slice_of_a_column_is_decoded_alone() -> None:
    column = pa.array([b"bad!", b"\x02", None, b"\x04", b"bad!"], pa.binary())
    array, faults = decode_avro(program_of("long"), column.slice(1, 3), LIMIT)
    assert array.to_pylist() == [1, None, 2]
    assert not faults.any()
    none, _ = decode_avro(program_of(RECORD), column.slice(0, 0), LIMIT)
    assert none.type == pa.struct([("a", pa.int64())])


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_kernels_compile_for_one_signature() -> None:
    """A slice has bytes behind it, so that they are Arrow's own memory; others are copied."""
    column = pa.array([b"\x02", b"\x04" + bytes(100)], pa.binary())
    for one in (column, column.slice(0, 1), column.cast(pa.large_binary())):
        array, _ = decode_avro(program_of("long"), one, LIMIT)
        assert array[0].as_py() == 1
        assert split(one, Wire.CONFLUENT).payloads().equals(one.cast(pa.binary()))
    for kernel in (check, fill, skip, split_wire, gather_spans):
        assert len(kernel.overloads) <= 1, kernel


@given(st.data())
def test_parquet_gives_back_what_was_decoded(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    types = named(schema)
    drawn = data.draw(st.lists(values(schema, types), min_size=1, max_size=4))
    datums = [None, *(encode(schema, one, types) for one in drawn)]
    array, _ = decode_avro(program_of(schema), pa.array(datums, pa.binary()), LIMIT)
    kind = fit_type(array.type)
    column, _ = bisect(array, partial(fit, kind=kind), kind)
    column.validate(full=True)
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table({"value": column}), stream)
    again = pq.read_table(pa.BufferReader(stream.getvalue()))["value"].combine_chunks()
    assert repr(as_numbers(again).to_pylist()) == repr(as_numbers(column).to_pylist())


def test_parquet_takes_every_type(tmp_path: Path) -> None:
    kinds: list[Json] = [*PLAIN, *LOGICAL, EMPTY, {"type": "fixed", "name": "F0", "size": 0}, NODE]
    kinds += [in_array("Empty"), {"type": "map", "values": "F0"}, ["null", "Empty", "int"]]
    fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(kinds)]
    program = program_of({"type": "record", "name": "R", "fields": fields})
    array, _ = decode_avro(program, pa.array([None, b""], pa.binary()), LIMIT)
    pq.write_table(pa.table({"value": array}), tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet")["value"].to_pylist() == [None, None]
