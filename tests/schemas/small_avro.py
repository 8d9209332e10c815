"""A little of everything that Avro has, for kernels that are interpreted."""

from pathlib import Path

import pyarrow as pa

from ottla.schemas.wire import Wire, split
from schemas.avro_cases import LOGICAL, PLAIN, encode, named, parsed, plain, read_by_fastavro, same
from schemas.test_avro import decode

FIELDS = [
    {"name": f"f{at}", "type": kind}
    for at, kind in enumerate(
        [
            *PLAIN,
            *LOGICAL,
            ["null", "string"],
            {"type": "array", "items": ["null", "float", {"type": "map", "values": "long"}]},
            {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
            {
                "type": "fixed",
                "name": "D",
                "size": 9,
                "logicalType": "decimal",
                "precision": 12,
                "scale": 0,
            },
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "map", "values": {"type": "record", "name": "Empty", "fields": []}},
        ]
    )
]
DEFAULT = {"name": "new", "type": {"type": "array", "items": "int"}, "default": [5]}


SMALL = [None, False, 0, 0, 0.0, 0.0, b"", "", 0, 0, 0, 0, 0, 0, 0, 0, 0, "u", b"\1", b""]
LARGE = [None, True, -(2**31), 2**63 - 1, 1.5, -2.5, b"b" * 70, "\u00e4\u20ac\U0001f600" * 9]
LARGE += [20_000, 86_399_999, 1, -(2**50), 2**60, 5, 6, 7, 8, "u" * 36, b"\xff\1", b"\x81" * 9]
ROWS = [
    [*SMALL, (0, None), [], bytes(16), bytes(9), "A", {}],
    [
        *LARGE,
        (1, "text"),
        [(0, None), (1, 0.5), (2, {"k": 1})],
        bytes(range(16)),
        (-(10**11)).to_bytes(9, "big", signed=True),
        "B",
        {"x": {}},
    ],
]
VALUES = [{field["name"]: value for field, value in zip(FIELDS, row, strict=True)} for row in ROWS]


def avro(_: Path) -> None:
    """Every type, whole and in pieces, some of them skipped; and what stands before datums."""
    schema = {"type": "record", "name": "R", "fields": [*FIELDS]}
    reader = {"type": "record", "name": "R", "fields": [*FIELDS[::2], DEFAULT]}
    types = named(schema)
    for value in VALUES:
        datum = encode(schema, value, types)
        pieces = [datum[:size] for size in range(0, len(datum), 7)]
        found, faults = decode([datum, None, *pieces], schema)
        assert found[2:] == [None] * len(pieces)
        assert faults[:2] == [0, 0]
        assert all(faults[2:])
        assert same(plain(schema, types, found[0]), read_by_fastavro(datum, parsed(schema)[1]))
        found, faults = decode([datum], schema, reader)
        assert faults == [0]
        assert found[0]["new"] == [5]
    framed = [b"\0\0\0\0\7\4\2\4abc", None, b"other"]
    for wire in Wire:
        assert split(pa.array(framed), wire).payloads().null_count == 1
