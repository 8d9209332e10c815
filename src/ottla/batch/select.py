"""A few records of many chunks as one chunk: what follows costs as much for few as for many."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from ottla.batch.decode import CHUNK_BYTES, CHUNK_HEADERS, Chunk, allocate_chunk
from ottla.format.arrays import PADDING
from ottla.kernels.records import gather
from ottla.kernels.records.select import append_rows
from ottla.kernels.tables import (
    Allocate,
    Batches,
    Int64s,
    RecordBuffers,
    Wanted,
    allocate_bytes,
    concat_batches,
    take_batches,
)

_FEW: Final = 4  # one record in four: of more, Arrow takes the rows
_MOST_CHUNKS: Final = 16  # who waits for the first rows shall not wait for long


class Selected:
    """Collects chosen records, in order, with the batches that they came from."""

    def __init__(self, wanted: Wanted, allocate: Allocate = allocate_bytes) -> None:
        self.wanted = wanted
        self.allocate = allocate
        self.cursor = np.zeros(gather.CURSOR_SIZE, dtype=np.int64)
        self._begin()

    def _begin(self) -> None:
        self.cursor[:] = 0
        self.buffers: RecordBuffers | None = None
        self.pieces: list[tuple[Batches, Int64s]] = []
        self.rows: list[Int64s] = []
        self.seen = 0  # records of the chunks, chosen or not
        self.chunks = 0

    def takes(self, chunk: Chunk, rows: Int64s) -> bool:
        """Whether these rows are few, and each of them has room in an empty chunk."""
        of = chunk.buffers
        columns = of.key_bytes, of.value_bytes, of.header_key_bytes, of.header_value_bytes
        usual = all(column.size <= CHUNK_BYTES + PADDING for column in columns)
        few_headers = of.header_key_bounds.size <= CHUNK_HEADERS + 1
        return usual and few_headers and rows.size * _FEW <= chunk.count

    def add(self, chunk: Chunk, rows: Int64s) -> Iterator[Chunk]:
        """Collect some rows of a chunk; gives what is full."""
        self.chunks += 1
        while rows.size:
            if self.buffers is None:
                self.buffers = allocate_chunk(self.wanted, 0, self.allocate)
            count = append_rows(chunk.buffers, rows, int(self.wanted), self.buffers, self.cursor)
            if count:
                self.pieces += chunk.pieces
                self.rows.append(rows[:count] + self.seen)
                self.seen += chunk.count
                rows = rows[count:]
            if rows.size:
                yield from self.flush()
        if self.chunks >= _MOST_CHUNKS:
            yield from self.flush()

    def flush(self) -> Iterator[Chunk]:
        """What was collected, if anything."""
        if self.buffers is not None and self.rows:
            rows = np.concatenate(self.rows)
            batches = concat_batches([batches for batches, _ in self.pieces])
            stops = np.cumsum(np.concatenate([counts for _, counts in self.pieces]))
            counts = np.bincount(np.searchsorted(stops, rows, side="right"))
            owners = np.flatnonzero(counts)
            yield Chunk(
                self.buffers,
                int(self.cursor[gather.RECORDS]),
                int(self.cursor[gather.HEADER]),
                not self.cursor[gather.NOT_ASCII],
                [(take_batches(batches, owners), counts[owners])],
            )
        self._begin()
