"""Walk the headers of a segment without reading its records."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from ottla.kernels import status
from ottla.kernels.tables import Batches, allocate_batches, concat_batches, take_batches
from ottla.kernels.walk import MORE, walk
from ottla.region import PADDING
from ottla.storage import File

_TABLE_ROWS: Final = 1 << 14
_BLOCK: Final = 256 << 10  # small batches: read on without a hop
_HOP: Final = 4096  # large ones: one page for each
_LARGE: Final = 16 << 10


class Walk(NamedTuple):
    """Headers in order, where the walk stopped and why (a status of `kernels.status`)."""

    batches: Batches
    stop: int
    status: int


def walk_file(file: File, *, start: int = 0, end: int | None = None) -> Iterator[Walk]:
    """Headers from `start` on, in tables of bounded size; only the last one stops early."""
    stop = file.size if end is None else min(end, file.size)
    table = allocate_batches(_TABLE_ROWS)
    block = np.zeros(_BLOCK + PADDING, dtype=np.uint8)
    position, rows, wanted = start, 0, _BLOCK
    while True:
        before = rows
        held = file.read_into(block, position, min(wanted, max(0, stop - position)))
        rows, at, outcome, _ = walk(block, held, position, stop, table, rows)
        if outcome == MORE and at == 0 and rows == before:
            outcome = status.END  # the file shrank under us
        position += at
        if outcome == MORE:
            passed = rows - before
            wanted = _HOP if passed and at // passed > _LARGE else _BLOCK
            continue
        yield Walk(take_batches(table, slice(0, rows)), position, outcome)
        if outcome != status.TABLE_FULL:
            return
        table, rows = allocate_batches(_TABLE_ROWS), 0


def walk_segment(file: File) -> Walk:
    """All headers of a segment."""
    parts = list(walk_file(file))
    return Walk(concat_batches([part.batches for part in parts]), parts[-1].stop, parts[-1].status)
