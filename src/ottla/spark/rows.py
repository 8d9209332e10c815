"""Arrow batches of other tables than records, as Spark demands them: column by column."""

import pyarrow as pa

from ottla.arrow.permissive import CORRUPT
from ottla.connector import microseconds


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
