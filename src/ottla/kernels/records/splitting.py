"""Where one batch ends and the next begins, by the rule of Kafka's producer.

MemoryRecordsBuilder.hasRoomFor: a batch takes its first record whatever its size, and then each
record for which there is still room in `limit` bytes after what was written, compressed by an
estimate that is on the safe side.
"""

import numpy as np

from ottla.format.arrays import Int64s
from ottla.format.layout import BATCH_OVERHEAD, LOG_OVERHEAD
from ottla.format.sentinels import INT32_MAX
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.ints import wrapping_subtract
from ottla.kernels.bytes.writing import varint_size
from ottla.kernels.records.legacy_write import message_overhead, message_size
from ottla.kernels.records.v2_write import field_size, fields_size, is_int32
from ottla.kernels.tables import RecordBuffers

ESTIMATION_FACTOR = np.float32(1.05)  # COMPRESSION_RATE_ESTIMATION_FACTOR


@inlined
def estimate(written: int, ratio: np.float32) -> int:
    """The bytes that `written` will take; a ratio of 0 stands for no compression."""
    if ratio == np.float32(0):
        return written
    # Java multiplies as floats, from left to right.
    return i64(np.float32(written) * ratio * ESTIMATION_FACTOR)


@inlined
def record_size(records: RecordBuffers, row: int, offset_delta: int, timestamp_delta: int) -> int:
    """The bytes of a v2 record."""
    size = fields_size(records, row) + varint_size(timestamp_delta) + varint_size(offset_delta)
    return field_size(size)


@kernel
def split_v2(
    records: RecordBuffers, limit: int, ratio: np.float32, delete_horizon: int, bounds: Int64s
) -> int:
    """Fill `bounds` with the rows where batches begin, and the count; return how many there are."""
    batches = 0
    written = i64(0)
    first = i64(0)
    base_timestamp = i64(0)
    for row in range(records.offset.size):
        timestamp = records.timestamp[row]
        full = row == 0
        if not full:
            estimated = BATCH_OVERHEAD + estimate(written, ratio)
            next_delta = records.offset[row - 1] - records.offset[first] + 1
            wanted = record_size(
                records, row, next_delta, wrapping_subtract(timestamp, base_timestamp)
            )
            full = (
                estimated >= limit
                or estimated + wanted > limit
                or BATCH_OVERHEAD + written + wanted > INT32_MAX - 10
                or not is_int32(records.offset[row], records.offset[first])
            )
        if full:
            bounds[batches] = row
            batches += 1
            first = i64(row)
            written = i64(0)
            base_timestamp = delete_horizon if delete_horizon >= 0 else timestamp
        offset_delta = records.offset[row] - records.offset[first]
        written += record_size(
            records, row, offset_delta, wrapping_subtract(timestamp, base_timestamp)
        )
    bounds[batches] = records.offset.size
    return batches


@kernel
def split_legacy(
    records: RecordBuffers, limit: int, ratio: np.float32, magic: int, bounds: Int64s
) -> int:
    """The same for v0 and v1, where only a wrapper costs something of its own."""
    overhead = i64(0) if ratio == np.float32(0) else i64(message_overhead(magic))
    batches = 0
    written = i64(0)
    first = i64(0)
    for row in range(records.offset.size):
        wanted = message_size(records, row, magic)
        estimated = overhead + estimate(written, ratio)
        if (
            row == 0
            or estimated >= limit
            or estimated + wanted > limit
            or LOG_OVERHEAD + written + wanted > INT32_MAX
            or not is_int32(records.offset[row], records.offset[first])
        ):
            bounds[batches] = row
            batches += 1
            first = i64(row)
            written = i64(0)
        written += wanted
    bounds[batches] = records.offset.size
    return batches
