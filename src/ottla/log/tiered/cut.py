"""A segment between two offsets: for those that begin or end with what another has."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ottla.errors import CorruptLogError
from ottla.format.names import Kind
from ottla.format.sentinels import INT64_MAX, NO_OFFSET
from ottla.log.files.offset_index import OffsetIndex, write_offset_index
from ottla.log.files.small_files import read_preallocated, read_small
from ottla.log.files.time_index import (
    TimeIndex,
    check_time_index,
    read_time_index,
    write_time_index,
)
from ottla.log.files.transaction_index import (
    check_transaction_index,
    read_transaction_index,
    write_transaction_index,
)
from ottla.log.read.index_entries import points_at_batch, read_index_file
from ottla.log.read.walk import walk_file
from ottla.storage.files import File, open_remaining
from ottla.storage.kept.views import literal_entry, part_of
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions


class CutSegment(NamedTuple):
    """Batches between two offsets, and the indexes of them, as if they were a segment.

    `left_out` are offsets before the end that a batch has which reaches over it.
    """

    log: Entry
    sides: dict[Kind, Entry]
    left_out: range = range(0)


def cut_segment(
    base: int,
    log: Entry,
    sides: Mapping[Kind, Entry],
    bounds: tuple[int, int | None],
    options: StorageOptions,
) -> CutSegment:
    """The batches that reach the first offset, up to the first one that reaches the last."""
    start, stop = bounds
    index = read_index_file(sides.get(Kind.OFFSET_INDEX), base, options)
    begin, end, left_out = 0, log.size, range(0)
    with open_remaining(log, options) as file:
        if start > base:
            begin = _find_batch(file, index, start)[0]
        if stop is not None:
            end, first = _find_batch(file, index, stop)
            left_out = range(stop if first is None else first, stop)
            if first is None:
                end = log.size  # what can not be read up to there stays, and readers say so
    begin = min(begin, end)
    kept: dict[Kind, Entry] = {}
    span = range(start, INT64_MAX if stop is None else stop)
    if index is not None:
        kept[Kind.OFFSET_INDEX] = _cut_offset_index(
            index, span, range(begin, end), sides[Kind.OFFSET_INDEX]
        )
    for kind, read, cut in (
        (Kind.TIME_INDEX, read_preallocated, _cut_time),
        (Kind.TRANSACTION_INDEX, read_small, _cut_transactions),
    ):
        entry = sides.get(kind)
        if entry is None:
            continue
        try:
            data = cut(read(entry, options), base, span)
        except CorruptLogError:
            kept[kind] = entry  # too large to be held: it stays as it is, and verify says so
            continue
        if data is not None:
            kept[kind] = literal_entry(entry.path, data, entry.modified_ns)
    return CutSegment(part_of(log, begin, end), kept, left_out)


def _find_batch(file: File, index: OffsetIndex | None, offset: int) -> tuple[int, int | None]:
    """Where the first batch begins that reaches an offset, and the first offset of it.

    Where there is none that is the end of the last one, and None.
    """
    start = 0
    if index is not None:
        row = int(np.searchsorted(index.offset, offset)) - 1
        if row >= 0 and points_at_batch(file, index, row):
            start = int(index.position[row])
    reached = start
    for headers in walk_file(file, start=start):
        reaching = np.flatnonzero(headers.batches.last_offset >= offset)
        if reaching.size:
            first = int(headers.batches.base_offset[reaching[0]])
            known = offset if first == NO_OFFSET else min(first, offset)
            return int(headers.batches.position[reaching[0]]), known
        reached = headers.stop
    return min(reached, file.size), None


def _cut_offset_index(index: OffsetIndex, span: range, bytes_: range, entry: Entry) -> Entry:
    rows = (index.position >= bytes_.start) & (index.position < bytes_.stop)
    rows &= index.offset >= span.start
    cut = OffsetIndex(span.start, index.offset[rows], index.position[rows] - bytes_.start)
    return literal_entry(entry.path, write_offset_index(cut), entry.modified_ns)


def _cut_time(data: bytes, base: int, span: range) -> bytes | None:
    """None where the index is broken: then a segment is better off without."""
    if next(check_time_index(data, base, ""), None) is not None:
        return None
    index = read_time_index(data, base)
    rows = (index.offset >= span.start) & (index.offset < span.stop)
    return write_time_index(TimeIndex(span.start, index.timestamp[rows], index.offset[rows]))


def _cut_transactions(data: bytes, base: int, span: range) -> bytes | None:
    """None where nothing is left: a broker makes no empty file. A broken one stays broken."""
    if next(check_transaction_index(data, base, ""), None) is not None:
        return data
    entries = read_transaction_index(data)
    last = entries["last_offset"]
    inside = (last >= span.start) & (last < span.stop)
    return write_transaction_index(entries[inside]) or None
