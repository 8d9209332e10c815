"""The columns of tables and the places of their files.

A flat table has the columns of Spark's connector. The other one has a struct `kafka`, with what
the batch of a record says, and a place for the bytes of keys and values that do not decode.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

import numpy as np
import pyarrow as pa

from ottla.connector import (
    BATCH_COLUMNS,
    HEADERS_COLUMN,
    RAW,
    TIMESTAMP_TYPE,
    payload_columns,
    record_columns,
)
from ottla.errors import OptionError
from ottla.format.names import TopicPartition
from ottla.options.export import ExportOptions, FileFormat, PartitionBy, TableColumns
from ottla.schemas.plans import PayloadPlans
from ottla.storage.listing import exists
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import join

DELTA_LOG: Final = "_delta_log"
CATALOG_FILE: Final = "catalog.db"  # of Iceberg, where no catalog is named
STRUCT: Final = "kafka"
DAY: Final = "day"
_DAY_MS: Final = 86_400_000
_FIRST_DAY: Final = date.min.toordinal() - date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date.max.toordinal() - date(1970, 1, 1).toordinal()
_MOST_DIGITS: Final = 38  # of a decimal
# The fields of the struct: how the core calls them, and of what type they are.
_FIELDS: Final = {
    "topic": ("topic", pa.string()),
    "partition": ("partition", pa.int32()),
    "offset": ("offset", pa.int64()),
    "timestamp": ("timestamp", TIMESTAMP_TYPE),
    "batch_byte_offset": ("position", pa.int64()),
    "batch_base_offset": ("baseOffset", pa.int64()),
    "batch_partition_leader_epoch": ("partitionLeaderEpoch", pa.int32()),
    "batch_magic": ("magic", pa.int32()),
    "batch_timestamp_type": ("timestampType", pa.int32()),
    "batch_compression_type": ("codec", pa.int32()),
    "batch_max_timestamp": ("maxTimestamp", pa.int64()),
    "batch_producer_id": ("producerId", pa.int64()),
    "batch_producer_epoch": ("producerEpoch", pa.int32()),
    "batch_base_sequence": ("baseSequence", pa.int32()),
}
_PAYLOADS: Final = {
    "key": "key",
    "key_raw": f"key{RAW}",
    "value": "value",
    "value_raw": f"value{RAW}",
}


def decoded_columns(options: ExportOptions, plans: PayloadPlans) -> pa.Schema:
    """What tasks decode for a table, before it is put into its layout."""
    if options.columns is TableColumns.KAFKA:
        return pa.schema(
            [
                *payload_columns("key", options.key_as, plans),
                *payload_columns("value", options.value_as, plans),
                *(pa.field(name, kind) for name, kind in _FIELDS.values()),
                HEADERS_COLUMN,
            ]
        )
    batch = BATCH_COLUMNS if options.batch_columns else ()
    columns = record_columns(options.key_as, options.value_as, plans)
    return pa.schema([*columns, HEADERS_COLUMN, *batch])


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table, those of its files, and by which of the first it is partitioned."""

    table: pa.Schema
    file: pa.Schema
    keys: tuple[str, ...]
    nested: bool

    def to_file(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with what was decoded, as a file has them."""
        given = dict(zip(rows.schema.names, rows.columns, strict=True))
        arrays = [self._column(field, given, rows.num_rows) for field in self.file]
        return pa.RecordBatch.from_arrays(arrays, schema=self.file)

    def _column(self, field: pa.Field, given: Mapping[str, pa.Array], count: int) -> pa.Array:
        if self.nested and field.name == STRUCT:
            columns = [given[name] for name, _ in _FIELDS.values()]
            return pa.StructArray.from_arrays(columns, fields=list(field.type))
        name = _PAYLOADS.get(field.name, field.name) if self.nested else field.name
        if name not in given:  # nothing of it could fail to decode
            return pa.nulls(count, field.type)
        column = given[name]
        plain = column.storage if isinstance(column, pa.ExtensionArray) else column
        return plain if plain.type.equals(field.type) else plain.cast(field.type)

    @property
    def measured(self) -> dict[str, str]:
        """The columns by which readers skip files, as Parquet calls them, by their names."""
        within = f"{STRUCT}." if self.nested else ""
        return {name: f"{within}{name}" for name in ("partition", "offset", "timestamp")}


def layout_of(options: ExportOptions, decoded: pa.Schema) -> Layout:
    """Where columns go that tasks decode."""
    nested = options.columns is TableColumns.KAFKA
    columns = _nested(decoded) if nested else list(decoded)
    delta = options.format is FileFormat.DELTA
    columns = [pa.field(each.name, plain_type(each.type, delta=delta)) for each in columns]
    second = DAY if options.partition_by is PartitionBy.DAY else "partition"
    if not delta:  # which takes partitions from columns, and the day from a timestamp
        return Layout(pa.schema(columns), pa.schema(columns), ("topic", second), nested)
    types = {"topic": pa.string(), "partition": pa.int32(), DAY: pa.date32()}
    table = {each.name: each for each in columns}
    for name in ("topic", second):
        table.setdefault(name, pa.field(name, types[name]))
    keys = ("topic", second)
    file = [each for each in columns if each.name not in keys]
    return Layout(pa.schema(list(table.values())), pa.schema(file), keys, nested)


def _nested(decoded: pa.Schema) -> list[pa.Field]:
    fields = [pa.field(name, kind) for name, (_, kind) in _FIELDS.items()]
    payloads = [
        pa.field(name, decoded.field(given).type if given in decoded.names else pa.binary())
        for name, given in _PAYLOADS.items()
    ]
    return [pa.field(STRUCT, pa.struct(fields)), HEADERS_COLUMN, *payloads]


def plain_type(kind: pa.DataType, *, delta: bool = False) -> pa.DataType:
    """A type that tables have: what they have no type for is a number, or text.

    >>> plain_type(pa.list_(pa.uint32())), plain_type(pa.time32("ms"), delta=True)
    (ListType(list<element: int64>), DataType(int32))
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type, delta=delta)
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, plain_type(each.type, delta=delta)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(
            plain_type(kind.key_type, delta=delta), plain_type(kind.item_type, delta=delta)
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", plain_type(kind.value_type, delta=delta)))
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type, delta=delta)
    return _plain_number(kind, delta=delta)


def _plain_number(kind: pa.DataType, *, delta: bool) -> pa.DataType:
    if pa.types.is_null(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_time(kind):
        number = pa.int32() if kind.bit_width == 32 else pa.int64()
        return number if delta else pa.time64("us")
    if pa.types.is_duration(kind) or (pa.types.is_timestamp(kind) and kind.unit == "ns"):
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_integer(kind):
        wide = {8: pa.int32(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        narrow = {8: pa.int32(), 16: pa.int32()}
        by_width = wide if pa.types.is_unsigned_integer(kind) else narrow
        return by_width.get(kind.bit_width, kind)
    if pa.types.is_decimal(kind):
        fits = kind.precision <= _MOST_DIGITS
        return pa.decimal128(kind.precision, kind.scale) if fits else pa.string()
    return kind


def plain_columns(schema: pa.Schema) -> pa.Schema:
    """The columns that a library tells of a table, in the types that they were given in."""
    return pa.schema([(each.name, plain_type(each.type)) for each in schema])


def days_of(timestamps: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The days of some milliseconds, as folders have them, and which rows are of each."""
    days = np.floor_divide(timestamps.to_numpy(), _DAY_MS)
    for day in np.unique(days):
        if not _FIRST_DAY <= day <= _LAST_DAY:
            raise OptionError(
                f"a record has the timestamp {timestamps[int(np.argmax(days == day))]}, of no day"
                " in the years 1 to 9999, and tables have no others: partition them by partition"
            )
        yield f"{DAY}={np.datetime64(int(day), 'D')}", pa.array(days == day)


def table_target(
    options: ExportOptions, name: TopicPartition, folders: tuple[str, ...], stem: str
) -> str:
    """Where a file of a table lies; no other attempt has its stem.

    Two exports from one state would give files the same name else, and the slower one write over
    what is in the table already.
    """
    inner = folders or (f"partition={name.partition}",)
    outer = () if options.format is FileFormat.DELTA else ("data",)
    return "/".join((*outer, f"topic={name.topic}", *inner, f"{stem}.parquet"))


def values_of(target: str) -> dict[str, str]:
    """What the path of a file says.

    >>> values_of("data/topic=orders/partition=3/00-09-ab.parquet")
    {'topic': 'orders', 'partition': '3'}
    """
    folders = [name for name in target.split("/")[:-1] if "=" in name]
    return {name: value for name, _, value in (each.partition("=") for each in folders)}


def refuse_table(out: str, options: ExportOptions, storage: StorageOptions) -> None:
    """Refuse to put files into a table that would not know of them, or as if they were one."""
    asked = (options.columns, options.partition_by, options.catalog, options.recreated)
    if asked != (TableColumns.SPARK, PartitionBy.PARTITION, None, False):
        raise OptionError(
            "columns, partitions and catalogs are of tables: the format is iceberg or delta then"
        )
    for name, form in ((DELTA_LOG, FileFormat.DELTA), (CATALOG_FILE, FileFormat.ICEBERG)):
        if exists(join(out, name), storage):
            raise OptionError(
                f"{out} is a table: go on with the format {form}, or choose another OUT"
            )
