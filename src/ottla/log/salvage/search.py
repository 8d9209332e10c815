"""The first reading of a segment: every batch whose CRC matches, wherever it lies.

Records are decoded too, to see that they hold. No byte is read twice.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from ottla.batch.decode import Decoder
from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.errors import Stage, Violation
from ottla.format.arrays import Int64s
from ottla.kernels import status
from ottla.kernels.search import salvage
from ottla.kernels.search.salvage import Intact
from ottla.kernels.tables import Batches, Wanted, allocate_batches, take_batches
from ottla.log.check.order import have_no_end
from ottla.log.read.buffer import WINDOW_BYTES, Buffer
from ottla.log.salvage.found import (
    BACKWARDS,
    EMBEDDED,
    OUTSIDE,
    UNREADABLE,
    USABLE,
    FoundPiece,
)
from ottla.region import Region
from ottla.storage.files import File, shrunk

_TABLE_ROWS: Final = 1 << 14


def find_intact(file: File, base_offset: int, max_batch_bytes: int) -> Iterator[FoundPiece]:
    """The intact batches of a file, some at a time."""
    decoder = Decoder(Wanted.OFFSETS, max_batch_bytes=max_batch_bytes)
    most = min(max_batch_bytes, file.size)
    for region, batches, kinds in _search(file, most, salvage.begin_search(most)):
        broken: dict[int, Violation] = {}
        for _, left_out in decoder.decode(region, batches):
            # A single bad message inside a wrapper does not cost the others.
            whole = (bad for bad in left_out if bad.violation.rule.stage is not Stage.RECORD)
            broken |= {bad.row: bad.violation for bad in whole}
        decoder.flush()
        yield _piece(batches, kinds, base_offset, broken)


def _piece(
    batches: Batches, kinds: Int64s, base_offset: int, broken: dict[int, Violation]
) -> FoundPiece:
    outside = (batches.last_offset < base_offset) | have_no_end(batches)
    verdicts = np.where(outside, OUTSIDE, USABLE).astype(np.uint8)
    # No CRC covers the offset of a wrapper: with one that was lost, batches behind it may fall.
    falls = (batches.magic < CURRENT_MAGIC) & (batches.base_offset > batches.last_offset)
    verdicts[falls] = BACKWARDS
    verdicts[list(broken)] = UNREADABLE
    verdicts[kinds == salvage.EMBEDDED] = EMBEDDED
    rows = Intact(
        batches.position.copy(),
        batches.size.astype(np.int32),
        batches.base_offset.copy(),
        batches.last_offset.copy(),
        batches.magic.astype(np.uint8),
        verdicts,
    )
    return FoundPiece(
        rows, [broken[row] for row in np.flatnonzero(verdicts == UNREADABLE).tolist()]
    )


def _search(
    file: File, max_batch_bytes: int, search: salvage.SearchState
) -> Iterator[tuple[Region, Batches, Int64s]]:
    """Windows of the file with the intact batches in them."""
    state = search.state
    table = allocate_batches(_TABLE_ROWS)
    kinds = np.zeros(_TABLE_ROWS, dtype=np.int64)
    with Buffer(file, 0, file.size) as buffer:
        outcome, needed = status.MORE, WINDOW_BYTES
        while outcome != status.END:
            at = int(state[salvage.AT])
            history = min(at, salvage.HISTORY)
            if outcome == status.MORE:
                buffer.advance(at - history, _to_hold(needed, max_batch_bytes) + history)
            if buffer.end < file.size:
                raise shrunk(file.path, buffer.end, file.size)
            rows, outcome = salvage.find_batches(
                buffer.data,
                buffer.size,
                buffer.position,
                buffer.end,
                max_batch_bytes,
                search,
                table,
                kinds,
            )
            needed = int(state[salvage.NEEDED])
            if rows:
                yield buffer.region(), take_batches(table, slice(0, rows)), kinds[:rows]


def _to_hold(needed: int, max_batch_bytes: int) -> int:
    """How much to hold: what is held is copied when more is needed, so that must be seldom."""
    if needed <= WINDOW_BYTES:
        return WINDOW_BYTES
    return needed + min(needed, max_batch_bytes // 4)
