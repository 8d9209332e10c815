"""The view of Kafka's Spark connector on records, for all who give it: Spark, scans and export.

The core keeps Kafka's numbers. The connector has timestamps in microseconds (`timestamp[us, UTC]`),
into which not every int64 of milliseconds fits (SPARK-56243): such a record is left out, and that
is a violation like others. It has NULL for a record without headers, never an empty array.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.arrow.schema import BATCH_SCHEMA
from ottla.arrow.to_arrow import records_to_arrow
from ottla.batch.decode import Chunk
from ottla.errors import OptionError, Rule, Violation
from ottla.format.arrays import Bools
from ottla.format.attributes import CODEC_NAMES
from ottla.format.names import TopicPartition
from ottla.kernels.tables import concat_batches
from ottla.log.read.records import Choose, Reading, name_violations
from ottla.options.export import ValueAs
from ottla.schemas.plans import NO_PLANS, PayloadPlans
from ottla.where.evaluate import FilePlace, match_records
from ottla.where.tree import COLUMNS, OF_FILE, ArrowFilter, Predicate, Where

# Microseconds in an int64 reach this many milliseconds, to both sides.
MAX_TIMESTAMP: Final = (2**63 - 1) // 1000
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")
HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
# KafkaRecordToRowConverter.kafkaSchema: the order is fixed and everything is nullable.
CONNECTOR_COLUMNS: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP_TYPE),
        pa.field("timestampType", pa.int32()),
    ]
)
HEADERS_COLUMN: Final = pa.field("headers", HEADERS_TYPE)
# What the batch around a record says, in the order of `includeBatchColumns`.
BATCH_COLUMNS: Final = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("magic", pa.int32()),
        pa.field("codec", pa.string()),
        pa.field("baseOffset", pa.int64()),
        pa.field("partitionLeaderEpoch", pa.int32()),
        pa.field("producerId", pa.int64()),
        pa.field("producerEpoch", pa.int32()),
        pa.field("sequence", pa.int32()),
        pa.field("isTransactional", pa.bool_()),
    ]
)
# A row for each batch, with where it is.
BATCHES_COLUMNS: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("file", pa.string()),
        *(field.with_nullable(True) for field in BATCH_SCHEMA),
    ]
)
EXPECTED_TIMESTAMP: Final = f"within {MAX_TIMESTAMP} ms of 1970"


def needed_columns(where: Where | None) -> list[str]:
    """What must be decoded, beside what is shown, to tell which records are wanted."""
    if where is None:
        return []
    return where.columns() if isinstance(where, Predicate) else _named(where)


def chooser(where: Where | None, place: FilePlace) -> Choose | None:
    """What tells which records of a file are wanted."""
    match where:
        case None:
            return None
        case Predicate():
            return lambda chunk: match_records(where, chunk, place)
        case _:
            return lambda chunk: _match_expression(where, chunk, place)


def _named(where: ArrowFilter) -> list[str]:
    """Columns of the core that an expression may name; it does not tell, but its text does."""
    text = str(where)
    return [name for name in COLUMNS if name in text and name not in OF_FILE]


def _match_expression(where: ArrowFilter, chunk: Chunk, place: FilePlace) -> Bools:
    """Which records an expression over the connector's columns is true of.

    A time that the connector has no room for is null to it.
    """
    names = _named(where)
    columns = dict(zip(names, records_to_arrow(chunk, names).columns, strict=True)) if names else {}
    if "timestamp" in columns:
        times = columns["timestamp"]
        near = pc.less_equal(pc.abs(pc.max_element_wise(times, -MAX_TIMESTAMP - 1)), MAX_TIMESTAMP)
        columns["timestamp"] = microseconds(pc.if_else(near, times, None))
    if "headers" in columns:
        columns["headers"] = headers_or_null(columns["headers"], HEADERS_TYPE)
    if "codec" in columns:
        columns["codec"] = codec_names(columns["codec"])
    topic, file = (
        None if name is None else name.encode("utf-8", "backslashreplace").decode()
        for name in (place.name.topic, place.file)
    )
    columns |= {
        "topic": pa.repeat(pa.scalar(topic, pa.string()), chunk.count),
        "partition": pa.repeat(pa.scalar(place.name.partition, pa.int32()), chunk.count),
        "file": pa.repeat(pa.scalar(file, pa.string()), chunk.count),
        "": pa.array(np.arange(chunk.count)),
    }
    try:
        found = pa.table(columns).filter(where.expression)
    except pa.ArrowException as error:
        raise OptionError(f"where: {error}; columns are {', '.join(COLUMNS)}") from error
    chosen = np.zeros(chunk.count, dtype=np.bool_)
    chosen[found[""].to_numpy()] = True
    return chosen


def leave_out_unfit(
    readings: Iterable[Reading], file: str, name: TopicPartition
) -> Iterator[Reading]:
    """Readings of a file without records whose timestamps the connector has no room for."""
    for reading in readings:
        yield reading if reading.chunk is None else _fit(reading, reading.chunk, file, name)


def _fit(reading: Reading, chunk: Chunk, file: str, name: TopicPartition) -> Reading:
    timestamps = chunk.buffers.timestamp[: chunk.count]
    if timestamps.min() >= -MAX_TIMESTAMP and timestamps.max() <= MAX_TIMESTAMP:
        return reading
    unfit = (timestamps > MAX_TIMESTAMP) | (timestamps < -MAX_TIMESTAMP)
    wanted = unfit if reading.kept is None else unfit & reading.kept
    found = _describe(chunk, np.flatnonzero(wanted), file)
    kept = ~unfit if reading.kept is None else reading.kept & ~unfit
    violations = [*reading.violations, *name_violations(found, name)]
    return replace(reading, kept=kept, violations=violations)


def _describe(chunk: Chunk, rows: npt.NDArray[np.intp], file: str) -> list[Violation]:
    batches = concat_batches([batches for batches, _ in chunk.pieces])
    counts = np.concatenate([counts for _, counts in chunk.pieces])
    owner = np.repeat(np.arange(batches.position.size), counts)
    return [
        Violation(
            Rule.TIMESTAMP_RANGE,
            "the timestamp does not fit into microseconds",
            file,
            position=int(batches.position[owner[row]]),
            size=int(batches.size[owner[row]]),
            offset=int(chunk.buffers.offset[row]),
            last_offset=int(chunk.buffers.offset[row]),
            found=str(chunk.buffers.timestamp[row]),
            expected=EXPECTED_TIMESTAMP,
        )
        for row in rows.tolist()
    ]


def times_fit(rows: pa.Table, columns: Sequence[str]) -> pa.ChunkedArray:
    """Which rows have no time, in these columns, that the connector has no room for."""
    fits = pa.chunked_array([pa.repeat(True, rows.num_rows)])
    for name in columns:
        for near in (
            pc.less_equal(rows[name], MAX_TIMESTAMP),
            pc.greater_equal(rows[name], -MAX_TIMESTAMP),
        ):
            fits = pc.and_(fits, pc.fill_null(near, True))
    return fits


def microseconds(milliseconds: pa.Array, target: pa.DataType = TIMESTAMP_TYPE) -> pa.Array:
    """Times that fit, as the connector has them."""
    return pc.multiply(milliseconds, 1000).view(target)


def codec_names(codes: pa.Array) -> pa.Array:
    """Codecs by their names."""
    names = pa.array([CODEC_NAMES[code] for code in sorted(CODEC_NAMES)], pa.string())
    return names.take(codes)


def headers_or_null(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Headers of the core in the type that is wanted, NULL where there are none."""
    empty = pc.equal(pc.list_value_length(column), 0)
    keys, values = column.values.flatten()
    structs = pa.StructArray.from_arrays([keys, values], fields=list(target.value_type))
    return pa.ListArray.from_arrays(column.offsets, structs, type=target, mask=empty)


_PAYLOAD_TYPES: Final = {
    ValueAs.BINARY: pa.binary(),
    ValueAs.UTF8: pa.string(),
    ValueAs.JSON: pa.json_(pa.string()),
}
RAW: Final = "Raw"  # what follows `key` or `value` in the name of the column with their bytes


def payload_columns(name: str, value_as: ValueAs, plans: PayloadPlans = NO_PLANS) -> list[pa.Field]:
    """The columns of keys or values: what they are given as, and the bytes of what is no such.

    >>> payload_columns("value", ValueAs.UTF8)
    [pyarrow.Field<value: string>, pyarrow.Field<valueRaw: binary>]
    """
    plan = plans.of(name)
    if plan is None and value_as.needs_schemas:
        value_as = ValueAs.BINARY  # of a topic that the registry knows nothing of
    column = pa.field(name, _PAYLOAD_TYPES[value_as] if plan is None else plan.arrow_type)
    if value_as is ValueAs.BINARY:
        return [column]
    return [column, pa.field(f"{name}{RAW}", pa.binary())]


def record_columns(
    key_as: ValueAs, value_as: ValueAs, plans: PayloadPlans = NO_PLANS
) -> list[pa.Field]:
    """The connector's columns, with keys and values as they are asked for."""
    given = {"key": key_as, "value": value_as}
    return [
        column
        for field in CONNECTOR_COLUMNS
        for column in (
            payload_columns(field.name, given[field.name], plans)
            if field.name in given
            else [field]
        )
    ]
