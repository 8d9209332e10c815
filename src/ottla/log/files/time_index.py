"""The time index (`.timeindex`): greatest timestamp so far -> last offset of its batch."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ottla.errors import Rule, Violation
from ottla.format.layout import TIME_INDEX_ENTRY
from ottla.format.sentinels import NO_TIMESTAMP
from ottla.kernels.tables import Int64s
from ottla.log.files.index_file import (
    Landmarks,
    check_entries,
    read_entries,
    rows_that_do_not_rise,
    without_tail,
)


class TimeIndex(NamedTuple):
    """Entries of one segment, offsets absolute."""

    base_offset: int
    timestamp: Int64s
    offset: Int64s


def read_time_index(data: bytes, base_offset: int) -> TimeIndex:
    """Entries up to the preallocated tail."""
    entries = without_tail(read_entries(data, TIME_INDEX_ENTRY))
    return TimeIndex(
        base_offset,
        entries["timestamp"].astype(np.int64),
        entries["relative_offset"].astype(np.int64) + base_offset,
    )


def write_time_index(index: TimeIndex) -> bytes:
    """The bytes of an index that was trimmed, as on roll and close."""
    entries = np.empty(index.offset.size, dtype=TIME_INDEX_ENTRY)
    entries["timestamp"] = index.timestamp
    entries["relative_offset"] = index.offset - index.base_offset
    return entries.tobytes()


def lookup_timestamp(index: TimeIndex, timestamp: int) -> tuple[int, int]:
    """The greatest entry at or below `timestamp`, as (timestamp, offset) (TimeIndex.lookup)."""
    row = int(np.searchsorted(index.timestamp, timestamp, side="right")) - 1
    if row < 0:
        return NO_TIMESTAMP, index.base_offset
    return int(index.timestamp[row]), int(index.offset[row])


def check_time_index(data: bytes, base_offset: int, file: str) -> Iterator[Violation]:
    """What is wrong with an index whatever its log says."""
    yield from check_entries(data, TIME_INDEX_ENTRY, file)
    index = read_time_index(data, base_offset)
    for row in np.flatnonzero(index.offset < base_offset):
        yield _broken(index, int(row), file, Rule.INDEX_OFFSET_RANGE, "an offset below the base")
    for row in rows_that_do_not_rise(index.timestamp):
        yield _broken(
            index, int(row), file, Rule.TIME_INDEX_ORDER, "a timestamp not above the last"
        )
    for row in np.flatnonzero(index.offset[1:] < index.offset[:-1]) + 1:
        yield _broken(index, int(row), file, Rule.TIME_INDEX_ORDER, "an offset below the last")


def check_time_index_against(
    index: TimeIndex, batches: Landmarks, file: str
) -> Iterator[Violation]:
    """What an index says of batches that is not so; `batches` are the log's, in order of position.

    Older brokers wrote the offset of the record and not of its batch: an offset inside the batch is
    right too. A timestamp is wrong when a lookup by it passes over a batch that has it.
    """
    if not index.offset.size:
        return
    row = np.searchsorted(batches.last_offset, index.offset)
    known = row < batches.last_offset.size
    for entry in np.flatnonzero(~known):
        yield _broken(index, int(entry), file, Rule.TIME_INDEX_OFFSET, "an offset past the log")
    reached = np.maximum.accumulate(batches.max_timestamp) if batches.position.size else row
    for entry in np.flatnonzero(known):
        at = int(row[entry])
        expected = int(reached[at])
        earlier = at > 0 and int(reached[at - 1]) >= index.timestamp[entry]
        if expected != index.timestamp[entry] or earlier:
            detail = f"the greatest timestamp up to there is {expected}"
            if expected == index.timestamp[entry]:
                detail = "an earlier batch has this timestamp"
            yield _broken(index, int(entry), file, Rule.TIME_INDEX_TIMESTAMP, detail)


def _broken(index: TimeIndex, row: int, file: str, rule: Rule, detail: str) -> Violation:
    return Violation(
        rule,
        detail,
        file,
        position=row * TIME_INDEX_ENTRY.itemsize,
        size=TIME_INDEX_ENTRY.itemsize,
        offset=int(index.offset[row]),
        found=f"timestamp {index.timestamp[row]} at offset {index.offset[row]}",
    )
