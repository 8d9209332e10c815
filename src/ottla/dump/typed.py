"""Records of a dump as schemas have them; what is not decoded has `raw`, and the reason."""

import base64
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ottla.arrow.to_arrow import records_to_arrow
from ottla.batch.decode import Chunk
from ottla.internal import DecodedRecord
from ottla.jobs.export.json_lines import plain_value
from ottla.schemas.decoding import PayloadDecoder
from ottla.schemas.plans import PayloadPlans


def decode_records(
    chunk: Chunk, plans: PayloadPlans, wanted: list[int]
) -> Iterator[tuple[int, DecodedRecord]]:
    """Some records of a chunk, by their numbers."""
    rows = records_to_arrow(chunk, ["key", "value", "headers"]).take(pa.array(wanted, pa.int64()))
    headers = rows.column("headers")
    keys, values = (_decode(rows.column(side), headers, side, plans) for side in ("key", "value"))
    for record, (key, key_error), (value, error) in zip(wanted, keys, values, strict=True):
        told = "; ".join(each for each in (key_error, error) if each)
        yield record, DecodedRecord(key, value, False, told or None)


def _decode(
    column: pa.Array, headers: pa.Array, side: str, plans: PayloadPlans
) -> list[tuple[Any, str | None]]:
    plan = plans.of(side)
    if plan is None:
        return [(_text(value), None) for value in column.to_pylist()]
    found = PayloadDecoder(plan).decode(column, headers)
    made: list[tuple[Any, str | None]] = []
    for at, value in enumerate(found.column.to_pylist()):
        if not found.failed[at]:
            made.append((plain_value(value), None))
            continue
        again = PayloadDecoder(plan)
        again.decode(column.slice(at, 1), headers.slice(at, 1))
        raw = base64.b64encode(column[at].as_py()).decode()
        made.append(({"raw": raw}, f"{side}: {next(iter(again.failed), 'not decoded')}"))
    return made


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
