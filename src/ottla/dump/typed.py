"""Records of a dump as schemas have them; what is not decoded has `raw`, and the reason."""

import base64
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from ottla.arrow.to_arrow import records_to_arrow
from ottla.batch.decode import Chunk
from ottla.internal import DecodedRecord
from ottla.jobs.export.json_lines import plain_value, python_values
from ottla.options.dump import Encoding
from ottla.schemas.decoding import DecodedPayloads, PayloadDecoder, decode_pieces
from ottla.schemas.plans import PayloadPlans

_SIDES: Final = ("key", "value")
_Shown = tuple[Any, str | None]  # with what is wrong
_ENCODED: Final[dict[Encoding, Callable[[bytes], str]]] = {
    Encoding.UTF8: lambda value: value.decode("utf-8", "backslashreplace"),
    Encoding.BASE64: lambda value: base64.b64encode(value).decode(),
    Encoding.HEX: bytes.hex,
}


def decode_records(
    chunk: Chunk, plans: PayloadPlans, wanted: list[int], encoding: Encoding | None
) -> Iterator[tuple[int, DecodedRecord]]:
    """Some records of a chunk, by their numbers; a side without schemas is shown in an encoding."""
    rows = records_to_arrow(chunk, ["key", "value", "headers"]).take(pa.array(wanted, pa.int64()))
    decoders = {side: PayloadDecoder(plan) for side in _SIDES if (plan := plans.of(side))}
    numbers = iter(wanted)
    for piece, decoded in decode_pieces(rows, decoders):
        keys, values = (
            _decoded(piece.column(side), side, decoded[side])
            if side in decoded
            else _plain(piece.column(side), encoding)
            for side in _SIDES
        )
        for (key, key_error), (value, error) in zip(keys, values, strict=True):
            told = "; ".join(each for each in (key_error, error) if each)
            yield next(numbers), DecodedRecord(key, value, False, told or None)


def _decoded(column: pa.Array, side: str, found: DecodedPayloads) -> list[_Shown]:
    made: list[_Shown] = [(plain_value(value), None) for value in python_values(found.column)]
    for why, several in found.failures.items():
        for at in (int(row) for rows in several for row in rows):
            raw = base64.b64encode(column[at].as_py()).decode()
            made[at] = {"raw": raw}, f"{side}: {why}"
    return made


def _plain(column: pa.Array, encoding: Encoding | None) -> list[_Shown]:
    say = _ENCODED[encoding or Encoding.UTF8]
    return [(None if value is None else say(value), None) for value in column.to_pylist()]
