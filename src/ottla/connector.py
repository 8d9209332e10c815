"""The view of Kafka's Spark connector on records, for all who give it: Spark and export.

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

from ottla.batch.decode import Chunk
from ottla.errors import Rule, Violation
from ottla.format.names import TopicPartition
from ottla.kernels.tables import concat_batches
from ottla.log.read.records import Reading, name_violations

# Microseconds in an int64 reach this many milliseconds, to both sides.
MAX_TIMESTAMP: Final = (2**63 - 1) // 1000
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")
EXPECTED_TIMESTAMP: Final = f"within {MAX_TIMESTAMP} ms of 1970"


def leave_out_unfit(
    readings: Iterable[Reading], file: str, name: TopicPartition
) -> Iterator[Reading]:
    """Readings of a file without records whose timestamps the connector has no room for."""
    for reading in readings:
        yield reading if reading.chunk is None else _fit(reading, reading.chunk, file, name)


def _fit(reading: Reading, chunk: Chunk, file: str, name: TopicPartition) -> Reading:
    timestamps = chunk.buffers.timestamp[: chunk.count]
    unfit = (timestamps > MAX_TIMESTAMP) | (timestamps < -MAX_TIMESTAMP)
    if not unfit.any():
        return reading
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


def headers_or_null(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Headers of the core in the type that is wanted, NULL where there are none."""
    empty = pc.equal(pc.list_value_length(column), 0)
    keys, values = column.values.flatten()
    structs = pa.StructArray.from_arrays([keys, values], fields=list(target.value_type))
    return pa.ListArray.from_arrays(column.offsets, structs, type=target, mask=empty)
