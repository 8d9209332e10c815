"""Records of a dump as schemas have them; what is not decoded has `raw`, and the reason."""

import base64
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from ottla.arrow.to_arrow import records_to_arrow
from ottla.batch.decode import Chunk
from ottla.internal import DecodedRecord
from ottla.jobs.export.json_lines import plain_value, python_values
from ottla.schemas.decoding import DecodedPayloads, PayloadDecoder, decode_pieces
from ottla.schemas.plans import PayloadPlans

_SIDES: Final = ("key", "value")


def decode_records(
    chunk: Chunk, plans: PayloadPlans, wanted: list[int]
) -> Iterator[tuple[int, DecodedRecord]]:
    """Some records of a chunk, by their numbers."""
    rows = records_to_arrow(chunk, ["key", "value", "headers"]).take(pa.array(wanted, pa.int64()))
    decoders = {side: PayloadDecoder(plan) for side in _SIDES if (plan := plans.of(side))}
    numbers = iter(wanted)
    for piece, decoded in decode_pieces(rows, decoders):
        keys, values = (_side(piece.column(side), side, decoded.get(side)) for side in _SIDES)
        for (key, key_error), (value, error) in zip(keys, values, strict=True):
            told = "; ".join(each for each in (key_error, error) if each)
            yield next(numbers), DecodedRecord(key, value, False, told or None)


def _side(
    column: pa.Array, side: str, found: DecodedPayloads | None
) -> list[tuple[Any, str | None]]:
    if found is None:
        return [(_text(value), None) for value in column.to_pylist()]
    made: list[tuple[Any, str | None]] = [
        (plain_value(value), None) for value in python_values(found.column)
    ]
    for why, several in found.failures.items():
        for at in (int(row) for rows in several for row in rows):
            raw = base64.b64encode(column[at].as_py()).decode()
            made[at] = {"raw": raw}, f"{side}: {why}"
    return made


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
