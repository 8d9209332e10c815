"""The offset index (`.index`): last offset of an appended set of batches -> its position."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ottla.errors import Rule, Violation
from ottla.format.layout import INDEX_ENTRY
from ottla.kernels.tables import Int64s
from ottla.log.files.index_file import (
    Landmarks,
    check_entries,
    read_entries,
    rows_that_do_not_rise,
    without_tail,
)


class OffsetIndex(NamedTuple):
    """Entries of one segment, offsets absolute."""

    base_offset: int
    offset: Int64s
    position: Int64s


def read_offset_index(data: bytes, base_offset: int) -> OffsetIndex:
    """Entries up to the preallocated tail."""
    entries = without_tail(read_entries(data, INDEX_ENTRY))
    return OffsetIndex(
        base_offset,
        entries["relative_offset"].astype(np.int64) + base_offset,
        entries["position"].astype(np.int64),
    )


def write_offset_index(index: OffsetIndex) -> bytes:
    """The bytes of an index that was trimmed, as on roll and close."""
    entries = np.empty(index.offset.size, dtype=INDEX_ENTRY)
    entries["relative_offset"] = index.offset - index.base_offset
    entries["position"] = index.position
    return entries.tobytes()


def check_offset_index(data: bytes, base_offset: int, file: str) -> Iterator[Violation]:
    """What is wrong with an index whatever its log says."""
    yield from check_entries(data, INDEX_ENTRY, file)
    index = read_offset_index(data, base_offset)
    for row in np.flatnonzero(index.offset < base_offset):
        yield _broken(index, int(row), file, Rule.INDEX_OFFSET_RANGE, "an offset below the base")
    for row in rows_that_do_not_rise(index.offset):
        yield _broken(index, int(row), file, Rule.INDEX_ORDER, "an offset not above the one before")
    for row in rows_that_do_not_rise(index.position):
        yield _broken(
            index, int(row), file, Rule.INDEX_ORDER, "a position not above the one before"
        )


def check_offset_index_against(
    index: OffsetIndex, batches: Landmarks, log_size: int, file: str
) -> Iterator[Violation]:
    """What an index says of batches that are not so; `batches` are the log's, in order of position.

    A follower appends many batches at once: its entry is the last offset of the last batch and the
    start of the first. So only an entry that makes a lookup start too late is an error.
    """
    row = np.searchsorted(batches.position, index.position)
    inside = row < batches.position.size
    at = np.minimum(row, max(batches.position.size - 1, 0))
    starts = inside & (batches.position[at] == index.position) if batches.position.size else inside
    for entry in np.flatnonzero(~starts):
        beyond = index.position[entry] >= log_size
        detail = "a position past the log" if beyond else "no batch begins at the position"
        yield _broken(index, int(entry), file, Rule.INDEX_POSITION, detail)
    reached = np.maximum.accumulate(batches.last_offset) if batches.last_offset.size else row
    skips = starts & (row > 0)
    skips[skips] = reached[row[skips] - 1] >= index.offset[skips]
    for entry in np.flatnonzero(skips):
        detail = f"offset {reached[row[entry] - 1]} lies before the position"
        yield _broken(index, int(entry), file, Rule.INDEX_SKIPS, detail)
    named = np.isin(index.offset, batches.last_offset)
    for entry in np.flatnonzero(starts & ~skips & ~named):
        yield _broken(index, int(entry), file, Rule.INDEX_OFFSET, "no batch ends with this offset")


def _broken(index: OffsetIndex, row: int, file: str, rule: Rule, detail: str) -> Violation:
    return Violation(
        rule,
        detail,
        file,
        position=row * INDEX_ENTRY.itemsize,
        size=INDEX_ENTRY.itemsize,
        offset=int(index.offset[row]),
        found=f"offset {index.offset[row]} at position {index.position[row]}",
    )
