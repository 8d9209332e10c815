"""Build the offset and time index of a segment while its batches go by."""

from dataclasses import dataclass

import numpy as np

from ottla.format.layout import INDEX_ENTRY, TIME_INDEX_ENTRY
from ottla.format.sentinels import INT32_MAX
from ottla.kernels.search import indexing
from ottla.kernels.tables import Batches, Int64s
from ottla.log.files.offset_index import OffsetIndex
from ottla.log.files.time_index import TimeIndex


@dataclass(frozen=True, slots=True)
class SegmentConfig:
    """When a broker rolls and indexes; the names and defaults of Kafka's topic configs."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096

    def limits(self) -> Int64s:
        """As the kernel takes them."""
        limits = np.zeros(indexing.LIMITS_SIZE, dtype=np.int64)
        limits[indexing.SEGMENT_BYTES] = min(self.segment_bytes, INT32_MAX)
        limits[indexing.SEGMENT_MS] = self.segment_ms
        limits[indexing.MAX_ENTRIES] = self.segment_index_bytes // INDEX_ENTRY.itemsize
        limits[indexing.MAX_TIME_ENTRIES] = self.segment_index_bytes // TIME_INDEX_ENTRY.itemsize
        limits[indexing.INDEX_INTERVAL] = self.index_interval_bytes
        return limits


class IndexBuilder:
    """The indexes of one segment, as far as batches were appended."""

    def __init__(self, base_offset: int, config: SegmentConfig) -> None:
        self.state = indexing.new_state(base_offset)
        self.limits = config.limits()
        self.entries: list[Int64s] = []
        self.time_entries: list[Int64s] = []

    @property
    def base_offset(self) -> int:
        return int(self.state[indexing.BASE_OFFSET])

    @property
    def size(self) -> int:
        return int(self.state[indexing.SIZE])

    def append(self, batches: Batches, first: int) -> int:
        """Index rows from `first` on, and return the row before which a broker would roll."""
        room = batches.position.size - first
        entries = np.empty((room, 2), dtype=np.int64)
        time_entries = np.empty((room, 2), dtype=np.int64)
        row, made, timed, _ = indexing.append_batches(
            batches, first, self.limits, self.state, entries, time_entries
        )
        self.entries.append(entries[:made].copy())
        self.time_entries.append(time_entries[:timed].copy())
        return int(row)

    def finish(self) -> tuple[OffsetIndex, TimeIndex]:
        """The indexes as they are trimmed on roll and close, with the forced last time entry."""
        last = np.empty((1, 2), dtype=np.int64)
        timed = indexing.append_time_entry(self.state, last, 0)
        self.time_entries.append(last[:timed])
        offsets = np.concatenate([*self.entries, np.empty((0, 2), dtype=np.int64)])
        times = np.concatenate(self.time_entries)
        base = self.base_offset
        return (
            OffsetIndex(base, offsets[:, 0], offsets[:, 1]),
            TimeIndex(base, times[:, 0], times[:, 1]),
        )


def build_indexes(
    batches: Batches, base_offset: int, *, index_interval_bytes: int = 4096
) -> tuple[OffsetIndex, TimeIndex]:
    """The indexes that LogSegment.recover gives for the batches of one segment."""
    config = SegmentConfig(
        segment_bytes=INT32_MAX,
        segment_ms=2**62,
        segment_index_bytes=INT32_MAX,
        index_interval_bytes=index_interval_bytes,
    )
    builder = IndexBuilder(base_offset, config)
    builder.append(batches, 0)
    return builder.finish()
