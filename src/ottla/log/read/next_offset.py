"""Where a segment ends, as a broker finds it: from the last entry of its index on."""

import numpy as np

from ottla.log.files.offset_index import OffsetIndex
from ottla.log.read.index_entries import points_at_batch, read_index_file
from ottla.log.read.walk import walk_file
from ottla.storage.files import File, open_remaining
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions


def read_next_offset(
    log: Entry, index: Entry | None, base_offset: int, options: StorageOptions
) -> int:
    """The offset after the last batch; the base if there is none (LogSegment.readNextOffset).

    Like a broker's it looks at no CRC, and does not see what is broken before the last entry.
    """
    return _find_end(log, index, base_offset, options)[0]


def read_whole_end(
    log: Entry, index: Entry | None, base_offset: int, options: StorageOptions
) -> int | None:
    """As `read_next_offset`; None of a log that does not end with a batch."""
    following, is_whole = _find_end(log, index, base_offset, options)
    return following if is_whole else None


def _find_end(
    log: Entry, index: Entry | None, base_offset: int, options: StorageOptions
) -> tuple[int, bool]:
    """The offset after the last batch, and whether that is where the bytes end."""
    known = read_index_file(index, base_offset, options)
    with open_remaining(log, options) as file:
        last, stop = base_offset - 1, 0
        for headers in walk_file(file, start=last_known_batch(file, known)):
            stop = headers.stop
            if headers.batches.position.size:
                last = int(headers.batches.last_offset[-1])
        return last + 1, stop == file.size


def last_known_batch(file: File, index: OffsetIndex | None) -> int:
    """Where the last batch begins that an index leads to; 0 if it leads to none."""
    if index is None:
        return 0
    inside = np.flatnonzero(index.position < file.size)
    row = int(inside[-1]) if inside.size else -1
    return int(index.position[row]) if row >= 0 and points_at_batch(file, index, row) else 0
