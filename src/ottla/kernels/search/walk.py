"""Walk from batch to batch by their sizes: only the fixed parts are looked at."""

from ottla.format.arrays import Bytes
from ottla.format.layout import BATCH_OVERHEAD
from ottla.kernels._jit import inlined, kernel
from ottla.kernels.records.scan import fill_row, frame_at
from ottla.kernels.status import MORE, OK, TABLE_FULL
from ottla.kernels.tables import Batches


@inlined
def view_at(
    data: Bytes, held: int, origin: int, end: int, at: int, batches: Batches, row: int
) -> tuple[int, int]:
    """Fill a row with the batch at data[at]; return (status, size), MORE if it is not held."""
    left = end - origin - at
    if at + min(BATCH_OVERHEAD, left) > held:
        return MORE, 0
    size, status = frame_at(data, at, left)
    if status != OK:
        return status, size
    fill_row(data, at, size, origin, batches, row)
    return OK, size


@kernel
def walk(
    data: Bytes, held: int, origin: int, end: int, batches: Batches, first: int
) -> tuple[int, int, int, int]:
    """Fill rows from `first` on; return (rows, where it stopped, status, size seen there).

    data[:held] are the file's bytes from `origin` on. A batch counts when it ends before the file
    does, at `end`, whether its records are held or not; the place may so be past what is held.
    """
    at = 0
    row = first
    while row < batches.position.size:
        status, size = view_at(data, held, origin, end, at, batches, row)
        if status != OK:
            return row, at, status, size
        at += size
        row += 1
    return row, at, TABLE_FULL, 0
