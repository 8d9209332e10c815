"""Spark's view of the columns: those of its Kafka connector, then ours."""

import difflib
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Final, NoReturn

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from ottla.arrow.permissive import CORRUPT
from ottla.arrow.schema import VIOLATION_SCHEMA
from ottla.connector import (
    BATCH_COLUMNS,
    BATCHES_COLUMNS,
    HEADERS_COLUMN,
    record_columns,
)
from ottla.errors import OptionError
from ottla.internal.views import VIEWS, time_columns
from ottla.jobs.read.rows import plain_schema
from ottla.log.read.records import Mode
from ottla.options.read import ReadOptions, View

HEADERS_FIELD: Final = from_arrow_schema(pa.schema([HEADERS_COLUMN]))["headers"]
BATCH_FIELDS: Final = tuple(from_arrow_schema(BATCH_COLUMNS))
CORRUPT_FIELD: Final = StructField(CORRUPT, StringType())

# Older versions have times in UTC without being told.
_HAS_ZONES: Final = "timezone" in signature(to_arrow_schema).parameters
_to_arrow: Final = partial(to_arrow_schema, timezone="UTC") if _HAS_ZONES else to_arrow_schema

BATCHES_SCHEMA: Final = from_arrow_schema(BATCHES_COLUMNS)
VIOLATIONS_SCHEMA: Final = from_arrow_schema(VIOLATION_SCHEMA)


def schema_of(options: ReadOptions) -> StructType:
    """The columns that a query gets when it does not choose."""
    if options.view is View.BATCHES:
        return BATCHES_SCHEMA
    if options.view is View.VIOLATIONS:
        return VIOLATIONS_SCHEMA
    corrupt = [CORRUPT_FIELD] if options.mode is Mode.PERMISSIVE else []
    if options.view in VIEWS:
        return StructType(_internal_fields(VIEWS[options.view].schema) + corrupt)
    fields = _record_fields(options)
    fields += [HEADERS_FIELD] if options.include_headers else []
    fields += BATCH_FIELDS if options.include_batch_columns else []
    return StructType(fields + corrupt)


def _record_fields(options: ReadOptions) -> list[StructField]:
    """Those of the connector; JSON is text to Spark."""
    columns = pa.schema(record_columns(options.key_as, options.value_as, options.payloads))
    return list(from_arrow_schema(plain_schema(columns)))


def _internal_fields(schema: pa.Schema) -> list[StructField]:
    times = time_columns(schema)
    return [
        StructField(field.name, TimestampType() if field.name in times else field.dataType)
        for field in from_arrow_schema(schema)
    ]


def _columns_of(options: ReadOptions) -> dict[str, StructField]:
    """All columns that `.schema(...)` may choose from."""
    if options.view is not View.RECORDS:
        return {field.name: field for field in schema_of(options)}
    corrupt = (CORRUPT_FIELD,) if options.mode is Mode.PERMISSIVE else ()
    fields = (*_record_fields(options), HEADERS_FIELD, *BATCH_FIELDS, *corrupt)
    return {field.name: field for field in fields}


def choose_columns(names: Sequence[str], options: ReadOptions) -> StructType:
    """The schema of some columns, in the order given."""
    columns = _columns_of(options)
    return StructType(
        [columns[name] if name in columns else _missing(name, columns) for name in names]
    )


def _missing(name: str, columns: Mapping[str, StructField]) -> NoReturn:
    close = difflib.get_close_matches(name, columns, n=1)
    meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(columns)}"
    raise OptionError(f"schema: no column {name}; {meant}")


def check_schema(chosen: StructType, options: ReadOptions) -> None:
    """Refuse a user's schema that names what is not there; Spark itself passes on anything."""
    columns = _columns_of(options)
    for field in chosen:
        known = columns[field.name] if field.name in columns else _missing(field.name, columns)
        if field.dataType != known.dataType:
            found, expected = field.dataType.simpleString(), known.dataType.simpleString()
            raise OptionError(f"schema: column {field.name} is {expected}, not {found}")
        if not field.nullable:
            raise OptionError(f"schema: column {field.name} must be nullable")


def reading_schema(target: pa.Schema, options: ReadOptions) -> pa.Schema:
    """What is read for `target`: with JSON where it has the text of JSON, and as schemas say."""
    if options.view is not View.RECORDS:
        return target
    columns = record_columns(options.key_as, options.value_as, options.payloads)
    known = {field.name: field for field in columns if _is_made(field, options)}
    if not known:
        return target
    return pa.schema([known.get(field.name, field) for field in target])


def _is_made(field: pa.Field, options: ReadOptions) -> bool:
    """Whether a column is made of bytes by us, and then becomes what Spark has for it."""
    is_typed = field.name in ("key", "value") and options.payloads.of(field.name) is not None
    return is_typed or isinstance(field.type, pa.JsonType)


def arrow_schema(chosen: StructType) -> pa.Schema:
    """The Arrow schema that Spark demands of every batch, to the letter."""
    return _to_arrow(chosen)
