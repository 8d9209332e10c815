"""The transactions of a log: open, committed, aborted, empty; what is stable and may be seen.

Everything comes from batch headers; only control batches are opened. Feed the windows of a
partition in order, from its first segment or from where a producer snapshot was taken.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.batch.attributes import codec_ids
from ottla.codec import Arena, CodecError, decompress_into
from ottla.format.arrays import Bools
from ottla.format.attributes import CODEC_MASK, CODEC_NAMES, ControlType
from ottla.format.layout import BATCH_OVERHEAD, TRANSACTION_INDEX_ENTRY, position_of
from ottla.format.sentinels import NO_OFFSET
from ottla.kernels.bytes.crc import crc32c
from ottla.kernels.producers import transactions as kernels
from ottla.kernels.producers.state import NO_MARKER, Completed, Markers
from ottla.kernels.tables import Batches, Int64s, take_batches
from ottla.region import Region
from ottla.rules.producers.producer import (
    Origin,
    ProducerState,
    Refusal,
    append_all,
    concat_completed,
    empty_state,
    no_markers,
    open_rows,
)

Entries = npt.NDArray[np.void]

CRC_START: Final = position_of("attributes")
MAX_MARKER_BATCH_BYTES: Final = 1 << 20  # a compressed control batch; Kafka writes none


class Open(NamedTuple):
    """Transactions without a marker, by first offset.

    `last_timestamp` is of the producer's newest data. The counts are of what was read, so that a
    transaction which began before the first window has only its later part in them.
    """

    producer_id: Int64s
    producer_epoch: Int64s
    coordinator_epoch: Int64s
    first_offset: Int64s
    last_offset: Int64s
    first_timestamp: Int64s
    last_timestamp: Int64s
    batches: Int64s
    records: Int64s
    size: Int64s


class Transactions:
    """The fold: `begin_segment`, `add` its tables of batches in order, and so on; then ask.

    `end_offset` is where the log ends, as far as it was seen.
    """

    def __init__(self, state: ProducerState | None = None, end_offset: int = 0) -> None:
        self.state = state if state is not None else empty_state()
        self.end_offset = end_offset
        self._tables: list[Completed] = []

    def begin_segment(self, base_offset: int) -> None:
        """Go on with a segment; one without batches says how far the log went, too."""
        self.end_offset = max(self.end_offset, base_offset)

    def add(self, batches: Batches, markers: Markers) -> list[Refusal]:
        """Take the next batches; return those that no broker would have taken.

        They are not transactional while their producer had a transaction open.
        """
        completed, stopped = append_all(self.state, batches, markers, Origin.REPLICATION)
        if completed.last_offset.size:
            self._tables.append(completed)
        if batches.last_offset.size:
            self.end_offset = max(self.end_offset, int(batches.last_offset[-1]) + 1)
        return [stop for stop in stopped if isinstance(stop, Refusal)]

    def completed(self) -> Completed:
        """Transactions that a marker ended, in order of the markers; the empty ones too."""
        self._tables = [concat_completed(self._tables)]
        return self._tables[0]

    def open(self) -> Open:
        """Transactions that no marker ended."""
        producers = self.state.producers
        rows = np.array(open_rows(self.state), dtype=np.int64)
        return Open(*(getattr(producers, name)[rows] for name in Open._fields))

    def aborted(self) -> Entries:
        """The aborted transactions."""
        return aborted_transactions(self.completed())

    def last_stable_offset(self, high_watermark: int | None = None) -> int:
        """Up to where a read_committed reader gets (UnifiedLog.lastStableOffset).

        Without a high watermark everything in the log counts as replicated.
        """
        limit = self.end_offset if high_watermark is None else high_watermark
        unstable = first_unstable_offset(self.open(), self.completed(), limit)
        return limit if unstable is None else min(unstable, limit)


def read_markers(region: Region, batches: Batches) -> Markers:
    """What the control batches of a window say; one whose CRC is wrong says nothing."""
    count = batches.position.size
    markers = no_markers(count)
    if kernels.read_markers(region.data, region.size, region.position, batches, markers, 0, count):
        _read_compressed(region, batches, markers)
    return markers


def _read_compressed(region: Region, batches: Batches, markers: Markers) -> None:
    """Markers that someone compressed: a broker leaves them as they are (LogValidator)."""
    arena = Arena()
    ends = batches.position + batches.size - region.position
    compressed = (codec_ids(batches) > 0) & (ends <= region.size)
    rows = np.flatnonzero((markers.control_type == kernels.NOT_READ) & compressed)
    for row in rows.tolist():
        markers.control_type[row] = NO_MARKER
        payload = region.data.data[int(ends[row] - batches.size[row]) + BATCH_OVERHEAD : ends[row]]
        arena.at = BATCH_OVERHEAD
        codec = int(codec_ids(batches)[row])
        if codec not in CODEC_NAMES:
            continue
        try:
            size = decompress_into(codec, 2, payload, arena, MAX_MARKER_BATCH_BYTES)
        except CodecError:
            continue
        marker = _read_decompressed(arena, BATCH_OVERHEAD + size, batches, row)
        for column, value in zip(markers, marker, strict=True):
            column[row] = value[0]


def _read_decompressed(arena: Arena, size: int, batches: Batches, row: int) -> Markers:
    """The marker of a batch whose records lie in the arena, behind the room of a header."""
    alone = take_batches(batches, np.array([row]))
    alone.position[0] = 0
    alone.size[0] = size
    alone.attributes[0] &= ~np.int64(CODEC_MASK)
    alone.crc[0] = crc32c(arena.data, CRC_START, size)
    markers = no_markers(1)
    kernels.read_markers(arena.data, size, 0, alone, markers, 0, 1)
    return markers


def aborted_transactions(completed: Completed) -> Entries:
    """Those that a transaction index holds: aborted, and not empty; in order of their markers."""
    rows = (completed.control_type == ControlType.ABORT) & (completed.first_offset != NO_OFFSET)
    entries = np.zeros(np.count_nonzero(rows), dtype=TRANSACTION_INDEX_ENTRY)
    for name in ("producer_id", "first_offset", "last_offset", "last_stable_offset"):
        entries[name] = getattr(completed, name)[rows]
    return entries


def first_unstable_offset(
    transactions: Open, completed: Completed, high_watermark: int
) -> int | None:
    """Where the first undecided or unreplicated transaction begins (firstUnstableOffset)."""
    unreplicated = (completed.last_offset >= high_watermark) & (completed.first_offset != NO_OFFSET)
    candidates = np.concatenate([transactions.first_offset, completed.first_offset[unreplicated]])
    return int(candidates.min()) if candidates.size else None


def aborted_mask(batches: Batches, aborted: Entries) -> Bools:
    """Which data batches belong to an aborted transaction."""
    order = np.lexsort((aborted["first_offset"], aborted["producer_id"]))
    producer_ids, first_offsets, last_offsets = (
        aborted[name][order].astype(np.int64)
        for name in ("producer_id", "first_offset", "last_offset")
    )
    found = np.zeros(batches.position.size, dtype=np.bool_)
    kernels.mark_aborted(batches, producer_ids, first_offsets, last_offsets, found)
    return found


def is_hanging(
    transactions: Open, now: int, max_transaction_timeout_ms: int
) -> npt.NDArray[np.bool_]:
    """Open transactions whose producer has been silent for longer than any transaction may last.

    As `kafka-transactions.sh find-hanging` chooses its candidates; it then asks the coordinator,
    whom a log alone can not ask.
    """
    return now - transactions.last_timestamp > max_transaction_timeout_ms
