"""Find an offset or a time in a segment: by index where there is one that holds, then by a walk."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.errors import CorruptLogError, Severity
from ottla.kernels.gather import CONTROL
from ottla.log.names import Kind
from ottla.log.offset_index import check_offset_index, lookup_offset, read_offset_index
from ottla.log.partition import Segment
from ottla.log.segment import read_windows
from ottla.log.time_index import check_time_index, lookup_timestamp, read_time_index
from ottla.log.walk import walk_file
from ottla.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage import File, open_file, read_bytes


class Place(NamedTuple):
    """A record of a segment."""

    offset: int
    timestamp: int


def find_offset(
    segment: Segment, offset: int, options: StorageOptions = DEFAULT_OPTIONS
) -> int | None:
    """Where the first batch begins that ends at or past `offset` (LogSegment.translateOffset)."""
    with open_file(segment.log, options) as file:
        return _position_of(file, offset, _start_of(segment, file, offset, options))


def _start_of(segment: Segment, file: File, offset: int, options: StorageOptions) -> int:
    """Where to begin to look; 0 where the offset index is missing, broken or points nowhere."""
    entry = segment.side_files.get(Kind.OFFSET_INDEX)
    if entry is None:
        return 0
    data = read_bytes(entry, options)
    if any(True for _ in check_offset_index(data, segment.base_offset, entry.path)):
        return 0
    _, position = lookup_offset(read_offset_index(data, segment.base_offset), offset)
    return position if position == 0 or _leads_on(file, position, offset) else 0


def _leads_on(file: File, position: int, offset: int) -> bool:
    """Whether a batch that does not lie past `offset` begins at the position."""
    batches = next(walk_file(file, start=position)).batches
    if not batches.position.size:
        return False
    return bool(batches.base_offset[0] <= offset)


def _position_of(file: File, offset: int, start: int) -> int | None:
    for part in walk_file(file, start=start):
        rows = np.flatnonzero(part.batches.last_offset >= offset)
        if rows.size:
            return int(part.batches.position[rows[0]])
    return None


def find_timestamp(
    segment: Segment,
    timestamp: int,
    start_offset: int = 0,
    options: StorageOptions = DEFAULT_OPTIONS,
) -> Place | None:
    """The first record at or past `start_offset` whose timestamp is at or past `timestamp`.

    LogSegment.findOffsetByTimestamp: the time index says from which offset to look on.
    """
    with open_file(segment.log, options) as file:
        offset = max(start_offset, _offset_before(segment, timestamp, options))
        position = _position_of(file, offset, _start_of(segment, file, offset, options))
        if position is None:
            return None
        for place in _records(file, position, timestamp):
            if place.offset >= start_offset:
                return place
    return None


def _offset_before(segment: Segment, timestamp: int, options: StorageOptions) -> int:
    entry = segment.side_files.get(Kind.TIME_INDEX)
    if entry is None:
        return segment.base_offset
    data = read_bytes(entry, options)
    if any(True for _ in check_time_index(data, segment.base_offset, entry.path)):
        return segment.base_offset
    return lookup_timestamp(read_time_index(data, segment.base_offset), timestamp)[1]


def _records(file: File, position: int, timestamp: int) -> Iterator[Place]:
    """Records with at least this timestamp; only batches that have one are opened."""
    decoder = Decoder(CONTROL, max_batch_bytes=DEFAULT_MAX_BATCH_BYTES)
    for window in read_windows(file, start=position):
        rows = np.flatnonzero(window.batches.max_timestamp >= timestamp)
        for row in rows.tolist():
            one = type(window.batches)(*(column[row : row + 1] for column in window.batches))
            for chunk in [*decoder.decode(window.region, one), decoder.flush()]:
                if chunk is None:
                    continue
                late = np.flatnonzero(chunk.buffers.timestamp[: chunk.count] >= timestamp)
                for index in late.tolist():
                    times, offsets = chunk.buffers.timestamp, chunk.buffers.offset
                    yield Place(int(offsets[index]), int(times[index]))
            if decoder.broken:
                raise CorruptLogError(decoder.broken[0].violation)
        if window.violation is not None and window.violation.rule.severity is Severity.ERROR:
            raise CorruptLogError(window.violation)
