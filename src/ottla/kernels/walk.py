"""Walk from batch to batch by their sizes: only the fixed parts are looked at."""

from ottla.format.layout import BATCH_OVERHEAD
from ottla.kernels._jit import Bytes, inlined, kernel
from ottla.kernels.ints import read_i8, read_i64
from ottla.kernels.scan import frame_at, view_legacy, view_v2
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
    batches.position[row] = origin + at
    batches.size[row] = size
    batches.base_offset[row] = read_i64(data, at)
    batches.magic[row] = read_i8(data, at + 16)
    batches.computed_crc[row] = -1
    if batches.magic[row] == 2:
        view_v2(data, at, size, row, batches)
    else:
        view_legacy(data, at, row, batches)
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
