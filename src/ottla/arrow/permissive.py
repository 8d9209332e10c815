"""What PERMISSIVE reading adds to a table: the column `_corrupt`, and a row for each violation."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from ottla.errors import Violation

CORRUPT: Final = "_corrupt"


def permissive_schema(schema: pa.Schema) -> pa.Schema:
    """Columns that may all be null, and the text of a violation after them."""
    fields = [field.with_nullable(True) for field in schema]
    return pa.schema([*fields, pa.field(CORRUPT, pa.string())])


def add_corrupt(records: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Records in which nothing is wrong, with the columns of a permissive schema."""
    nothing = pa.nulls(records.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*records.columns, nothing], schema=schema)


def corrupt_rows(violations: Sequence[Violation | str], schema: pa.Schema) -> pa.RecordBatch:
    """A row for each violation, null but for what it says."""
    texts = pa.array([str(violation) for violation in violations], pa.string())
    arrays = [
        texts if field.name == CORRUPT else pa.nulls(len(violations), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
