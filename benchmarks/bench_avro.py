"""Datums of Avro to columns: ours against fastavro, and against pyruhvro where it can.

One thread each. fastavro makes dicts and is complete; pyruhvro makes Arrow from a list of bytes.
"""

import io
import json
import random
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pyruhvro

from benchmarks.corpus import Plan
from benchmarks.rounds import best_rates, timed
from benchmarks.table import millions, ratio
from benchmarks.targets import AVRO_TO_FASTAVRO, AVRO_TO_PYRUHVRO
from ottla.schemas.avro import compile_avro, decode_avro, parse_avro

HEADING = (
    "records",
    "ours, Mrec/s",
    "fastavro",
    "ratio",
    "target",
    "pyruhvro",
    "ratio",
    "target",
)
LIMIT = 1 << 30

FLAT = {
    "type": "record",
    "name": "Flat",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "user", "type": "string"},
        {"name": "country", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": "double"},
        {"name": "count", "type": "int"},
        {"name": "paid", "type": "boolean"},
        {"name": "score", "type": ["null", "float"], "default": None},
        {"name": "reference", "type": ["null", "long"], "default": None},
        {"name": "note", "type": "string"},
    ],
}
NESTED = {
    "type": "record",
    "name": "Nested",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "customer",
            "type": {
                "type": "record",
                "name": "Customer",
                "fields": [
                    {"name": "name", "type": "string"},
                    {"name": "mail", "type": ["null", "string"]},
                ],
            },
        },
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "article", "type": "string"},
                        {"name": "count", "type": "int"},
                        {"name": "price", "type": "double"},
                    ],
                },
            },
        },
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {
            "name": "state",
            "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT"]},
        },
    ],
}


def flat_record(chance: random.Random) -> dict[str, Any]:
    return {
        "id": chance.randrange(1 << 40),
        "time": 1_700_000_000_000 + chance.randrange(1 << 34),
        "user": f"user-{chance.randrange(10_000)}",
        "country": chance.choice([None, "DE", "FI"]),
        "amount": chance.random(),
        "count": chance.randrange(1000),
        "paid": chance.random() < 0.5,
        "score": chance.choice([None, 0.5]),
        "reference": chance.choice([None, chance.randrange(1 << 30)]),
        "note": "x" * chance.randrange(20),
    }


def _nested(chance: random.Random) -> dict[str, Any]:
    return {
        "id": chance.randrange(1 << 40),
        "customer": {
            "name": f"user-{chance.randrange(10_000)}",
            "mail": chance.choice([None, "m"]),
        },
        "lines": [
            {"article": f"a{at}", "count": at, "price": chance.random()}
            for at in range(chance.randrange(4))
        ],
        "tags": {"source": "web", "kind": "order"},
        "state": chance.choice(["NEW", "PAID", "SENT"]),
    }


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Ten thousand different records of each shape, again and again."""
    count = 10 * min(plan.uncompressed_bytes // 1000, 20_000)
    shapes = {"flat, 10 fields": (FLAT, flat_record), "nested": (NESTED, _nested)}
    for label, (schema, make) in shapes.items():
        chance = random.Random(21)
        parsed = fastavro.parse_schema(schema)
        some = [written(parsed, make(chance)) for _ in range(min(count, 10_000))]
        datums = some * (count // len(some))
        few = datums[: len(some)]
        column = pa.array(datums, pa.binary())
        text = json.dumps(schema)
        program = compile_avro(parse_avro(text))
        array, faults = decode_avro(program, column, LIMIT)
        assert not faults.any()
        assert len(array) == len(datums)

        def ours(program: Any = program, column: pa.Array = column) -> int:
            return len(decode_avro(program, column, LIMIT)[0])

        def theirs(parsed: Any = parsed, few: list[bytes] = few) -> int:
            for datum in few:
                fastavro.schemaless_reader(io.BytesIO(datum), parsed, None)
            return len(few)

        def rust(text: str = text, datums: list[bytes] = datums) -> int:
            return pyruhvro.deserialize_array(datums, text).num_rows

        turns = {"ours": timed(ours), "fastavro": timed(theirs), "pyruhvro": timed(rust)}
        best = best_rates(turns, plan.rounds, warm_ups=1)
        yield (
            f"{label}, {sum(map(len, some)) // len(some)} bytes",
            millions(best["ours"]),
            millions(best["fastavro"]),
            *ratio(best["ours"], best["fastavro"], AVRO_TO_FASTAVRO),
            millions(best["pyruhvro"]),
            *ratio(best["ours"], best["pyruhvro"], AVRO_TO_PYRUHVRO),
        )


def written(parsed: Any, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, record)
    return out.getvalue()
