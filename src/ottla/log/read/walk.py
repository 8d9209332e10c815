"""Walk the headers of a segment without reading its records."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from ottla.kernels import status
from ottla.kernels.search.walk import walk
from ottla.kernels.tables import Batches, allocate_batches, take_batches
from ottla.region import PADDING, Bytes, read_only
from ottla.storage.files import File
from ottla.storage.paths import is_remote

TABLE_ROWS: Final = 1 << 14
_LEAST_BATCH: Final = 26  # bytes, of magic 0: a small file needs no large table


class Stride(NamedTuple):
    """How to read: `block` bytes on, or `hop` bytes at each batch where batches are `large`."""

    block: int
    hop: int
    large: int


_LOCAL: Final = Stride(block=256 << 10, hop=4096, large=64 << 10)
_REMOTE: Final = Stride(block=8 << 20, hop=64 << 10, large=4 << 20)  # a request costs milliseconds


Step = Callable[[Bytes, int, int, int, Batches, int], tuple[int, int, int, int]]


class Walk(NamedTuple):
    """Headers in order, where the walk stopped and why (a status of `kernels.status`)."""

    batches: Batches
    stop: int
    status: int


def walk_file(
    file: File,
    *,
    start: int = 0,
    end: int | None = None,
    step: Step = walk,
) -> Iterator[Walk]:
    """Headers from `start` on, in tables of bounded size; only the last one stops early.

    `step` is `kernels.search.walk.walk`, or one that also looks into what happens to be held.
    """
    stop = file.size if end is None else min(end, file.size)
    stride = _REMOTE if is_remote(file.path) else _LOCAL
    most = min(TABLE_ROWS, max(0, stop - start) // _LEAST_BATCH + 1)
    table, rows = allocate_batches(most), 0
    buffer = np.zeros(min(stride.block, max(0, stop - start)) + PADDING, dtype=np.uint8)
    origin, seen, held, wanted = start, 0, 0, stride.block
    outcome = status.MORE
    while True:
        before = rows
        if outcome == status.MORE:
            seen, held = 0, file.read_into(buffer, origin, min(wanted, max(0, stop - origin)))
        rows, at, outcome, _ = step(
            read_only(buffer[seen:]), held - seen, origin + seen, stop, table, rows
        )
        seen += at
        if outcome == status.MORE and seen > 0:
            passed = rows - before
            wanted = stride.hop if passed and at // passed > stride.large else stride.block
            origin += seen
            continue
        # A fixed part that is not there although the file was long enough: the file shrank.
        reason = status.END if outcome == status.MORE else outcome
        yield Walk(take_batches(table, slice(0, rows)), origin + seen, reason)
        if outcome != status.TABLE_FULL:
            return
        table, rows = allocate_batches(TABLE_ROWS), 0
