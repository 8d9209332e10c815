"""Arrow batches of the core, as Spark demands them: column by column, cast once, no row touched."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa

from ottla.arrow.permissive import CORRUPT
from ottla.catalog.slices import Slice
from ottla.connector import headers_or_null, microseconds
from ottla.errors import Violation
from ottla.format.attributes import CODEC_NAMES

# These do not come from records: they are the same for the whole slice.
_OF_SLICE: Final[dict[str, Callable[[Slice], str | int | None]]] = {
    "topic": lambda part: part.name.topic,
    "partition": lambda part: part.name.partition,
    "file": lambda part: part.log.path,
}


def core_columns(target: pa.Schema) -> list[str]:
    """What must be decoded for these columns; an offset is needed to count rows."""
    wanted = [name for name in target.names if name not in _OF_SLICE and name != CORRUPT]
    return wanted or ["offset"]


def to_spark(records: pa.RecordBatch, part: Slice, target: pa.Schema) -> pa.RecordBatch:
    """A batch of records, or of batch headers, with the columns of `target`."""
    arrays = [_column(field, records, part) for field in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _column(field: pa.Field, records: pa.RecordBatch, part: Slice) -> pa.Array:
    if field.name in _OF_SLICE:
        count = records.num_rows
        room = 1 << count.bit_length()  # so that batches of about one size share an array
        return _repeated(_OF_SLICE[field.name](part), field.type, room).slice(0, count)
    if field.name == CORRUPT:
        return pa.nulls(records.num_rows, field.type)
    column = records.column(field.name)
    if pa.types.is_timestamp(field.type):
        return microseconds(column, field.type)
    if pa.types.is_list(field.type):
        return headers_or_null(column, field.type)
    if field.name == "codec" and pa.types.is_integer(column.type):
        return _codec_names().take(column)
    return column


@lru_cache(maxsize=16)
def _repeated(value: str | int | None, type_: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, type_), count)


def internal_rows(rows: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Rows of a view of an internal topic with the columns of `target`."""
    arrays = [_internal_column(field, rows) for field in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _internal_column(field: pa.Field, rows: pa.RecordBatch) -> pa.Array:
    if field.name == CORRUPT:
        return pa.nulls(rows.num_rows, field.type)
    column = rows.column(field.name)
    if pa.types.is_timestamp(field.type):
        return microseconds(column, field.type)
    return column.cast(field.type)  # Spark names the elements of a list otherwise


def _codec_names() -> pa.Array:
    return pa.array([CODEC_NAMES[code] for code in sorted(CODEC_NAMES)], pa.string())


def violation_rows(violations: Sequence[Violation], target: pa.Schema) -> pa.RecordBatch:
    """A row for each violation."""
    return pa.RecordBatch.from_pylist([violation.as_row() for violation in violations], target)
