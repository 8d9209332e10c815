"""Datums of Avro against fastavro: random schemas and values, and what is wrong with broken ones."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
import pyarrow as pa
import pyarrow.parquet as pq

from ottla.kernels._jit import INTERPRETED
from ottla.schemas.avro import (
    AvroFault,
    AvroProgram,
    SchemaError,
    compile_avro,
    decode_avro,
    parse_avro,
)
from schemas.avro_cases import (
    Json,
    as_numbers,
    encode,
    named,
    parsed,
    plain,
    read_by_fastavro,
    same,
    schemas,
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
    assert found[0] == found[-1] or not same(found[0], found[0])
    for piece, one, fault in zip(broken, found[1:-1], faults[1:-1], strict=True):
        try:
            expected = read_by_fastavro(piece, theirs)
        except Exception:
            assert fault, (piece, one)
            continue
        if fault:
            assert one is None
        else:
            assert same(plain(schema, types, one), expected), (piece, one, expected)
