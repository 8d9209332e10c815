"""A slice as rows: records as the connector shows them, batch headers, or what is wrong.

Here alone records of the core get the columns that users see: of Spark's source, of scans and of
exports. Which columns these are, and of what types, a schema says: the target.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ottla.arrow.permissive import CORRUPT, corrupt_rows
from ottla.arrow.texts import keep_bytes, to_json, to_texts, without_text
from ottla.catalog.slices import Slice
from ottla.connector import RAW, codec_names, headers_or_null, microseconds, record_columns
from ottla.jobs.read.records import read_for_connector, read_headers, read_slice, read_violations
from ottla.log.read.records import Mode, obey
from ottla.options.read import ReadOptions, View
from ottla.schemas.plans import PayloadPlans
from ottla.where.evaluate import FilePlace
from ottla.where.tree import OF_FILE

if TYPE_CHECKING:
    from ottla.schemas.decoding import DecodedPayloads, PayloadDecoder

_VIOLATION_ROWS: Final = 4096  # in one Arrow batch: a slice can be broken from end to end


def read_rows(part: Slice, options: ReadOptions, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, with the columns of `target`, as view and mode say."""
    return _VIEWS[options.view](part, options, target)


def _records(part: Slice, options: ReadOptions, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    whole = _with_payloads(target, options)
    decoders = decoders_of(options.payloads, whole)
    columns = core_columns(target.names, decoders)
    place = FilePlace(part.name, part.log.path)
    read = read_slice if options.raw else read_for_connector
    for reading in obey(options.mode, read(part, columns, options.access)):
        records = reading.to_arrow(columns)
        if records is not None and records.num_rows:
            for piece, decoded in in_pieces(records, decoders):
                rows = to_rows(piece, place, whole, decoded)
                yield rows if whole is target else rows.select(target.names)
        if reading.violations and options.mode is Mode.PERMISSIVE:
            yield corrupt_rows(reading.violations, target)


def _batches(part: Slice, options: ReadOptions, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    for headers in read_headers(part, options.access, options.mode):
        yield to_rows(headers, FilePlace(part.name, part.log.path), target)


def _violations(part: Slice, options: ReadOptions, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    found = read_violations(part, options.access)
    while rows := list(islice(found, _VIOLATION_ROWS)):
        # A list of rows is read by the names of the columns.
        yield pa.RecordBatch.from_pylist([violation.as_row() for violation in rows], target)


_VIEWS = {View.RECORDS: _records, View.BATCHES: _batches, View.VIOLATIONS: _violations}


_RAW: Final = {f"{name}{RAW}": name for name in ("key", "value")}


def _with_payloads(target: pa.Schema, options: ReadOptions) -> pa.Schema:
    """The same, with the keys or values that a column of raw bytes is about."""
    columns = record_columns(options.key_as, options.value_as, options.payloads)
    known = {field.name: field for field in columns}
    asked = [name for raw, name in _RAW.items() if raw in target.names]
    missing = [known[name] for name in asked if name not in target.names]
    return pa.schema([*target, *missing]) if missing else target


Decoders = Mapping[str, "PayloadDecoder"]
_NO_DECODERS: Final[Decoders] = {}
Decoded = Mapping[str, "DecodedPayloads"]
_NOT_DECODED: Final[Decoded] = {}


def decoders_of(plans: PayloadPlans, target: pa.Schema) -> dict[str, "PayloadDecoder"]:
    """What decodes keys or values of these columns by schemas, and counts what it did."""
    wanted = [name for name in _RAW.values() if plans.of(name) and name in target.names]
    if not wanted:
        return {}
    from ottla.schemas.decoding import PayloadDecoder  # with its kernels, which few ask for

    return {name: PayloadDecoder(plan) for name in wanted if (plan := plans.of(name))}


def in_pieces(
    records: pa.RecordBatch, decoders: Decoders
) -> Iterator[tuple[pa.RecordBatch, Decoded]]:
    """Records as they are, or few at a time where schemas decode them, and what these made."""
    if not decoders:
        yield records, _NOT_DECODED
        return
    from ottla.schemas.decoding import decode_pieces

    yield from decode_pieces(records, decoders)


def core_columns(columns: Iterable[str], decoders: Decoders = _NO_DECODERS) -> list[str]:
    """What must be decoded for these columns; an offset is needed to count rows.

    >>> core_columns(["topic", "valueRaw", "value", "offset"]), core_columns(["file"])
    (['value', 'offset'], ['offset'])
    """
    wanted = (_RAW.get(name, name) for name in columns)
    core = [name for name in wanted if name not in OF_FILE and name != CORRUPT]
    core += ["headers"] if decoders else []  # they may name schemas
    return list(dict.fromkeys(core)) or ["offset"]


def to_rows(
    records: pa.RecordBatch,
    place: FilePlace,
    target: pa.Schema,
    decoded: Decoded = _NOT_DECODED,
) -> pa.RecordBatch:
    """A batch of records, or of batch headers, with the columns of `target`.

    What is a number in `target` stays one: a time becomes microseconds where it shall be a time.
    """
    payloads: dict[str, pa.Array] = {}
    for raw, name in _RAW.items():
        if name not in target.names:
            continue
        column = records.column(name)
        if name in decoded:
            made = decoded[name]
            payloads |= {name: made.column, raw: keep_bytes(column, pa.array(made.failed))}
        else:
            payloads[name] = _payloads(column, target.field(name).type)
    arrays = [_column(field, records, place, payloads) for field in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _payloads(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Keys or values in a type that needs no schema."""
    if isinstance(kind, pa.JsonType):
        return pa.ExtensionArray.from_storage(kind, to_json(column))
    return to_texts(column) if pa.types.is_string(kind) else column


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same with texts for JSON, for those who know no such type."""
    return pa.schema(
        [
            field.with_type(field.type.storage_type)
            if isinstance(field.type, pa.BaseExtensionType)
            else field
            for field in schema
        ]
    )


def to_plain(rows: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Rows with a plain schema, and with the names that it has for what is in lists and maps."""
    plain = (
        column.storage if isinstance(column, pa.ExtensionArray) else column
        for column in rows.columns
    )
    arrays = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(plain, target, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _column(
    field: pa.Field, records: pa.RecordBatch, place: FilePlace, payloads: dict[str, pa.Array]
) -> pa.Array:
    name, kind = field.name, field.type
    if name in OF_FILE:
        value = place.file if name == "file" else getattr(place.name, name)
        value = _utf8(value) if isinstance(value, str) else value
        count = records.num_rows
        room = 1 << count.bit_length()  # so that batches of about one size share an array
        return _repeated(value, kind, room).slice(0, count)
    if name == CORRUPT:
        return pa.nulls(records.num_rows, kind)
    if name in payloads:
        return payloads[name]
    if name in _RAW:
        return without_text(records.column(_RAW[name]), payloads[_RAW[name]])
    column = records.column(name)
    if pa.types.is_timestamp(kind):
        return microseconds(column, kind)
    if pa.types.is_list(kind):
        return headers_or_null(column, kind)
    if name == "codec" and column.type != kind:
        return codec_names(column)
    return column


def _utf8(name: str) -> str:
    """The name of a file or topic: Arrow has no strings but UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()


@lru_cache(maxsize=4)
def _repeated(value: str | int | None, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def without_room(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A copy to keep: what is decoded lies in buffers with room for four times as much."""
    columns = [pa.concat_arrays([column]) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
