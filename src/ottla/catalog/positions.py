"""Where offsets and times lie in a partition: by its indexes where they check out, else by a walk.

An index is believed as `log/read/index_entries.py` says; a header walk costs a read of each fixed
part, and decides where there is none.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import numpy as np

from ottla.batch.decode import Chunk, Decoder
from ottla.errors import CorruptLogError
from ottla.format.layout import TIME_INDEX_ENTRY
from ottla.format.names import Kind
from ottla.kernels.tables import Wanted, take_batches
from ottla.log.files.offset_index import OffsetIndex
from ottla.log.files.partition import Partition, Segment
from ottla.log.files.small_files import read_preallocated
from ottla.log.files.time_index import (
    TimeIndex,
    check_time_index,
    lookup_timestamp,
    read_time_index,
)
from ottla.log.read.index_entries import entries_of, points_at_batch, read_index_file
from ottla.log.read.next_offset import last_known_batch
from ottla.log.read.walk import walk_file
from ottla.log.read.windows import read_windows
from ottla.storage.files import File, open_remaining
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import is_remote

_LOOKS_AT_ONCE: Final = 8


def read_index(segment: Segment, storage: StorageOptions) -> OffsetIndex | None:
    """The offset index, unless there is none or it is broken."""
    return read_index_file(segment.side_files.get(Kind.OFFSET_INDEX), segment.base_offset, storage)


def _position_before(file: File, index: OffsetIndex | None, offset: int) -> int:
    """A batch start with no record at or past `offset` before it."""
    if index is None:
        return 0
    row = int(np.searchsorted(index.offset, offset, side="right")) - 1
    if row < 0 or not points_at_batch(file, index, row):
        return 0
    return int(index.position[row])


def find_start(segment: Segment, offset: int, storage: StorageOptions) -> int:
    """Where the first batch begins that reaches `offset`; the file's size if none does.

    If the walk ends before the file does, the batch may be behind the damage: then a place before
    it, so that the reader meets the damage and says so.
    """
    if offset <= segment.base_offset:
        return 0
    index = read_index(segment, storage)
    with open_remaining(segment.log, storage) as file:
        began = reached = _position_before(file, index, offset)
        for headers in walk_file(file, start=began):
            reaching = np.flatnonzero(headers.batches.last_offset >= offset)
            if reaching.size:
                return int(headers.batches.position[reaching[0]])
            reached = headers.stop
    # A wrong length may have led the walk past batches that the index knows of.
    return began if index is not None and reached < segment.log.size else reached


def find_stop(segment: Segment, offset: int, storage: StorageOptions) -> int:
    """Where the batches end that can hold an offset below `offset`."""
    index = read_index(segment, storage)
    with open_remaining(segment.log, storage) as file:
        for headers in walk_file(file, start=_position_before(file, index, offset)):
            batches = headers.batches
            reaching = np.flatnonzero(batches.last_offset >= offset)
            if reaching.size:
                row = reaching[0]
                # The base of a compressed v0 or v1 batch is unknown (-1): it may begin before.
                whole = batches.base_offset[row] < offset
                return int(batches.position[row] + (batches.size[row] if whole else 0))
    return segment.log.size


def find_batch_starts(segment: Segment, every: int, storage: StorageOptions) -> list[int]:
    """Positions about `every` bytes apart at which batches begin.

    Without a usable index a remote segment is not cut: its walk would be a request per batch. What
    comes in chunks is cut at the first batches that begin in a chunk: few chunks are read twice.
    """
    kept = segment.log.kept
    every = max(every, 0 if kept is None else kept.chunk_bytes)
    if segment.log.size <= every:
        return []
    index = read_index(segment, storage)
    with open_remaining(segment.log, storage) as file:
        if index is not None and index.position.size:
            unit = 0 if kept is None else kept.chunk_bytes
            chosen = _entries_apart(index, every - every % max(unit, 1), file.size)
            if _all_point_at_batches(file, index, chosen):
                return [int(index.position[row]) for row in chosen]
        if is_remote(segment.log.path) or kept is not None:
            return []
        return list(_walk_apart(file, every))


def _all_point_at_batches(file: File, index: OffsetIndex, rows: list[int]) -> bool:
    if not is_remote(file.path):
        return all(points_at_batch(file, index, row) for row in rows)
    with ThreadPoolExecutor(_LOOKS_AT_ONCE, "ottla-looks") as pool:  # each is a request
        return all(pool.map(partial(points_at_batch, file, index), rows))


def _entries_apart(index: OffsetIndex, every: int, size: int) -> list[int]:
    targets = np.arange(every, size, every)
    rows = np.unique(np.searchsorted(index.position, targets))
    return [int(row) for row in rows if row < index.position.size and index.position[row] < size]


def _walk_apart(file: File, every: int) -> Iterator[int]:
    wanted = every
    for headers in walk_file(file):
        positions = headers.batches.position
        while positions.size and wanted <= positions[-1]:
            position = int(positions[np.searchsorted(positions, wanted)])
            yield position
            wanted = position + every


def find_offset_past(
    segment: Segment, start: int, position: int, storage: StorageOptions
) -> int | None:
    """The offset after the first batch, from `start` on, that ends at or past a position."""
    with open_remaining(segment.log, storage) as file:
        for headers in walk_file(file, start=start):
            ends = headers.batches.position + headers.batches.size
            reaching = np.flatnonzero(ends >= position)
            if reaching.size:
                return int(headers.batches.last_offset[reaching[0]]) + 1
    return None


def find_log_end(partition: Partition, storage: StorageOptions) -> int:
    """The offset after the last batch that is whole (the log end offset).

    Batches at the very end with a wrong CRC are still being written, or were when power failed.
    """
    for segment in reversed(partition.segments):
        end = _find_segment_end(segment, storage)
        if end is not None:
            return max(end, segment.base_offset)
    return max((segment.base_offset for segment in partition.segments), default=0)


def _find_segment_end(segment: Segment, storage: StorageOptions) -> int | None:
    if segment.log.size == 0:
        return segment.base_offset if segment.base_offset > 0 else None
    index = read_index(segment, storage)
    with open_remaining(segment.log, storage) as file:
        start = last_known_batch(file, index)
        end = _last_whole_offset(file, start)
        if end is None and start > 0:
            end = _last_whole_offset(file, 0)
    return None if end is None else end + 1


def _last_whole_offset(file: File, start: int) -> int | None:
    found = None
    for window in read_windows(file, start=start):
        whole = np.flatnonzero(window.batches.crc == window.batches.computed_crc)
        if whole.size:
            found = int(window.batches.last_offset[whole[-1]])
    return found


def _read_times(segment: Segment, storage: StorageOptions) -> TimeIndex | None:
    entry = segment.side_files.get(Kind.TIME_INDEX)
    if entry is None:
        return None
    try:
        data = read_preallocated(entry, storage)
    except CorruptLogError:
        return None
    if next(check_time_index(data, segment.base_offset, entry.path), None) is not None:
        return None
    index = read_time_index(data, segment.base_offset)
    return index if index.timestamp.size else None


def find_newest_timestamp(segment: Segment, storage: StorageOptions) -> int | None:
    """The newest time of a segment that is not the last; None if its index does not tell.

    Rolling forces an entry for the newest record and cuts off what was preallocated: an index that
    still has that was never closed, and may miss newer ones, as that of the active segment.
    """
    times = _read_times(segment, storage)
    if times is None:
        return None
    is_closed = segment.side_files[Kind.TIME_INDEX].size == (
        times.timestamp.size * TIME_INDEX_ENTRY.itemsize
    )
    return int(times.timestamp[-1]) if is_closed else None


def find_timestamp(partition: Partition, timestamp: int, storage: StorageOptions) -> int | None:
    """The first offset whose record is not older (UnifiedLog.fetchOffsetByTimestamp)."""
    last = len(partition.segments) - 1
    for number, segment in enumerate(partition.segments):
        times = _read_times(segment, storage)
        # Rolling forces an entry for the newest record; the active segment may have newer ones.
        if times is not None and number < last and int(times.timestamp[-1]) < timestamp:
            continue
        found = _find_in_segment(segment, times, timestamp, storage)
        if found is not None:
            return found
    return None


def _find_in_segment(
    segment: Segment, times: TimeIndex | None, timestamp: int, storage: StorageOptions
) -> int | None:
    with open_remaining(segment.log, storage) as file:
        start = 0
        if times is not None:
            _, offset = lookup_timestamp(times, timestamp - 1)
            start = _position_before(file, read_index(segment, storage), offset)
        index = segment.side_files.get(Kind.OFFSET_INDEX)
        find_next = entries_of(file, index, segment.base_offset, storage)
        for window in read_windows(file, start=start, find_next=find_next):
            rows = np.flatnonzero(window.batches.max_timestamp >= timestamp)
            for row in rows.tolist():
                decoder = Decoder(Wanted.OFFSETS)
                one = take_batches(window.batches, slice(row, row + 1))
                pieces = decoder.decode(window.region, one)
                chunks = [*(piece.chunk for piece in pieces), decoder.flush()]
                found = _first_not_older(chunks, timestamp)
                if found is not None:
                    return found
    return None


def _first_not_older(chunks: list[Chunk | None], timestamp: int) -> int | None:
    for chunk in filter(None, chunks):
        rows = np.flatnonzero(chunk.buffers.timestamp[: chunk.count] >= timestamp)
        if rows.size:
            return int(chunk.buffers.offset[rows[0]])
    return None
