"""The compressed payloads of a window, one row per batch, and where what they hold ends up."""

from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np

from ottla.codec.arena import Arena
from ottla.kernels.tables import Int64s
from ottla.region import Bytes

ENOUGH: Final = 64 << 20  # a window that has expanded to this much is handed back


class Rows:
    """Row r is data[starts[r]:stops[r]]; found[0] and found[1] get where it is in the arena."""

    def __init__(
        self, data: Bytes, codecs: Int64s, magics: Int64s, starts: Int64s, stops: Int64s
    ) -> None:
        self.data = data
        self.columns = (codecs, magics, starts, stops)
        self.found = np.zeros((2, codecs.size), dtype=np.int64)

    @cached_property
    def spans(self) -> list[tuple[int, int, int]]:
        """Codec, start and stop of each row, as Python's own numbers."""
        codecs, _, starts, stops = self.columns
        return list(zip(codecs.tolist(), starts.tolist(), stops.tolist(), strict=True))


def decompress_together(
    rows: Rows,
    first: int,
    arena: Arena,
    limit: int,
    step: int,
    open_frames: Callable[..., tuple[int, int, int]],
    *decoder: int,
) -> int:
    """Let a kernel open rows from `first` on, in an arena that grows; return the first not done.

    It returns the first row not done, where its output ends, and whether it lacked room, of which
    it asks for `step` at once.
    """
    row, lacking = first, 1
    while lacking and arena.at < ENOUGH:
        arena.room(step)
        row, arena.at, lacking = open_frames(
            *decoder, rows.data, rows.columns, row, limit, arena.data, arena.at, rows.found
        )
        if lacking and arena.data.size > ENOUGH:
            break  # one batch larger than that is measured before it is stored
        if lacking:
            arena.room(2 * arena.data.size)
    return row
