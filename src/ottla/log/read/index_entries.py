"""What the offset index knows of a segment: places at which batches begin.

An entry is believed when the index passes Kafka's sanity checks and a batch whose offsets fit
begins where the entry points. An index that is missing or broken knows nothing.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from ottla.errors import CorruptLogError
from ottla.format.layout import BATCH_OVERHEAD
from ottla.format.names import Kind, parse_file_name
from ottla.kernels.search.walk import walk
from ottla.kernels.tables import allocate_batches
from ottla.log.files.offset_index import OffsetIndex, check_offset_index, read_offset_index
from ottla.log.files.small_files import read_preallocated
from ottla.region import PADDING, read_only
from ottla.storage.files import File
from ottla.storage.listing import Entry
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage.paths import Path

# Finds the first batch that the index knows after one position and before another.
FindEntry = Callable[[int, int], int | None]


def know_nothing(after: int, before: int) -> int | None:  # noqa: ARG001
    """For a reader that has no index."""
    return None


def entries_of(
    file: File,
    index: Path | Entry | None,
    base_offset: int,
    storage: StorageOptions = DEFAULT_OPTIONS,
) -> FindEntry:
    """Finds what the index of an open segment knows; it is read when first asked."""
    if index is None:
        return know_nothing

    @cache
    def read() -> OffsetIndex | None:
        try:
            return read_index_file(index, base_offset, storage)
        except FileNotFoundError:
            return None

    return lambda after, before: find_entry(file, read(), after, before)


def entries_beside(file: File, storage: StorageOptions = DEFAULT_OPTIONS) -> FindEntry:
    """As `entries_of`, with the index that lies beside a segment and is named like it."""
    folder, slash, name = file.path.rpartition("/")
    parsed = parse_file_name(name)
    if parsed is None or parsed.kind is not Kind.LOG:
        return know_nothing
    stem = name.removesuffix(f"{parsed.kind}{parsed.state}")
    index = f"{folder}{slash}{stem}{Kind.OFFSET_INDEX}{parsed.state}"
    return entries_of(file, index, parsed.offset, storage)


def read_index_file(
    source: Path | Entry | None, base_offset: int, storage: StorageOptions
) -> OffsetIndex | None:
    """The offset index, unless there is none or it is broken."""
    if source is None:
        return None
    try:
        data = read_preallocated(source, storage)
    except CorruptLogError:
        return None
    path = source.path if isinstance(source, Entry) else str(source)
    if next(check_offset_index(data, base_offset, path), None) is not None:
        return None
    return read_offset_index(data, base_offset)


def points_at_batch(file: File, index: OffsetIndex, row: int) -> bool:
    """Whether a batch begins where an entry points, with offsets that the entry allows."""
    position = int(index.position[row])
    head = np.zeros(BATCH_OVERHEAD + PADDING, dtype=np.uint8)
    held = file.peek_into(head, position, BATCH_OVERHEAD)
    batch = allocate_batches(1)
    if walk(read_only(head), held, position, file.size, batch, 0)[0] == 0:
        return False
    before = int(index.offset[row - 1]) if row else index.base_offset - 1
    return before < int(batch.last_offset[0]) <= int(index.offset[row])


def find_entry(file: File, index: OffsetIndex | None, after: int, before: int) -> int | None:
    """Where the first batch begins, between two positions, that the index knows of."""
    if index is None:
        return None
    first = int(np.searchsorted(index.position, after, side="right"))
    end = int(np.searchsorted(index.position, min(before, file.size)))
    rows = (row for row in range(first, end) if points_at_batch(file, index, row))
    return next((int(index.position[row]) for row in rows), None)
