"""What a broker stores of appends that it takes: their bytes but for a few fields, or new ones.

Offsets are the last thing that is written: they lie outside the CRC, and records count from their
batch's first (`ottla.kernels.records.append.assign_offsets`).
"""

import numpy as np

from ottla.batch.attributes import is_transactional
from ottla.batch.encode import Encoded
from ottla.batch.memory import allocate_from_pool
from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.batch.rebuild import encode_under
from ottla.format.arrays import Bools
from ottla.format.attributes import LOG_APPEND_TIME, TRANSACTIONAL, TimestampType
from ottla.format.sentinels import NO_OFFSET, NO_TIMESTAMP
from ottla.kernels.records.stamping import stamp_timestamps
from ottla.kernels.records.v2_write import EVERY_ROW
from ottla.kernels.tables import Batches, Int64s, RecordBuffers, take_batches
from ottla.region import PADDING, Bytes, Region
from ottla.rules.append.checks import AppendPolicy


def copy(region: Region, batches: Batches) -> tuple[Bytes, Batches]:
    """The bytes of the batches one after another, padded, and the table for them."""
    ends = np.cumsum(batches.size)
    moved = Batches(*(column.copy() for column in batches))
    moved.position[:] = ends - batches.size
    data = allocate_from_pool(int(ends[-1]) + PADDING)
    starts = (batches.position - region.position).tolist()
    parts = [
        region.data[start : start + size]
        for start, size in zip(starts, batches.size.tolist(), strict=True)
    ]
    np.concatenate(parts, out=data[: int(ends[-1])])
    return data, moved


def is_append_time(policy: AppendPolicy) -> bool:
    """Whether the topic keeps the broker's time."""
    return policy.timestamp_type == TimestampType.LOG_APPEND_TIME


def stamp_times(
    data: Bytes, batches: Batches, newest: Int64s, now: int, policy: AppendPolicy
) -> None:
    """Timestamp type and largest timestamp into bytes that stay; magic 0 has no room for them."""
    if batches.magic[0] > 0:
        stamps = np.full_like(newest, now) if is_append_time(policy) else newest
        stamp_timestamps(data, 0, batches, int(is_append_time(policy)), stamps)


def encode_anew(
    batches: Batches,
    rows: Int64s,
    records: RecordBuffers,
    target: int,
    now: int,
    policy: AppendPolicy,
) -> Encoded:
    """Batches of magic 2 with the topic's codec and time, the same producers, from offset 0 on."""
    bounds = np.append(0, np.cumsum(rows))
    table = take_batches(batches, np.arange(rows.size))
    table.magic[:] = CURRENT_MAGIC
    table.attributes[:] = target | (is_transactional(batches) * TRANSACTIONAL)
    if is_append_time(policy):
        table.attributes[:] |= LOG_APPEND_TIME
        table.max_timestamp[:] = now
    table.base_offset[:] = 0
    table.last_offset[:] = table.last_offset_delta[:] = rows - 1
    table.base_timestamp[:] = records.timestamp[bounds[:-1]]
    deltas = np.arange(bounds[-1]) - np.repeat(bounds[:-1], rows)
    level = policy.compression_level
    return encode_under(table, records._replace(offset=deltas), EVERY_ROW, bounds, level)


def time_index_entries(
    batches: Batches, newest: Int64s, compressed: bool | Bools, now: int, policy: AppendPolicy
) -> tuple[Int64s, Int64s]:
    """Of each batch with its offsets, the largest timestamp and the offset that stands for it."""
    append_time = is_append_time(policy)
    without = (batches.magic == 0) | ((newest == NO_TIMESTAMP) & (not append_time))
    largest = np.where(without, NO_TIMESTAMP, now if append_time else newest)
    return largest, np.where(without & ~np.bool_(compressed), NO_OFFSET, batches.last_offset)
