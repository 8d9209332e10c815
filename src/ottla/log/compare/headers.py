"""The batches of a partition one after another, from their headers alone."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.arrow.to_arrow import records_to_arrow
from ottla.batch.decode import Chunk, Decoder
from ottla.batch.records import decode_whole
from ottla.format.sentinels import NO_OFFSET
from ottla.kernels import status
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.tables import Batches, Int64s, Wanted, allocate_batches, take_batches
from ottla.log.files.partition import Partition, Segment
from ottla.log.read.walk import Walk, walk_file
from ottla.region import PADDING, Region
from ottla.storage.files import open_remaining
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions

_ALL: Final = Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS
_COLUMNS: Final = ("timestamp", "key", "value", "rawHeaders")


class HeaderTable(NamedTuple):
    """Some headers of one file, in order."""

    log: Entry
    batches: Batches


class BatchCursor:
    """A place among the batches of a replica; `problems` is what was met that is no batch."""

    def __init__(self, partition: Partition, storage: StorageOptions) -> None:
        self.partition = partition
        self.storage = storage
        self.problems: list[str] = []
        self._tables = self._walk()
        self._table: HeaderTable | None = None
        self._row = 0
        self._before = 0
        self._fill()

    @property
    def at_end(self) -> bool:
        return self._table is None

    def rows(self) -> Batches:
        """Headers from the place on, as many as are held; at least one, unless at the end."""
        assert self._table is not None
        return take_batches(self._table.batches, slice(self._row, None))

    def advance(self, count: int) -> None:
        """Move behind some of them."""
        assert self._table is not None
        self._row += count
        if self._row == self._table.batches.position.size:
            self._before = int(self._table.batches.last_offset[-1]) + 1
            self._fill()

    def _fill(self) -> None:
        self._table, self._row = next(self._tables, None), 0

    def _walk(self) -> Iterator[HeaderTable]:
        for segment in self.partition.segments:
            with open_remaining(segment.log, self.storage) as file:
                for walk in walk_file(file):
                    if walk.batches.position.size:
                        yield HeaderTable(segment.log, self._with_bases(walk.batches))
                    self._note_stop(segment, walk, file.size)

    def _note_stop(self, segment: Segment, walk: Walk, size: int) -> None:
        """Half a batch at the end of a log is being written, or was when power failed."""
        is_torn = walk.status == status.END and segment == self.partition.segments[-1]
        if walk.status != status.TABLE_FULL and walk.stop < size and not is_torn:
            self.problems.append(
                f"{segment.log.path} @ {walk.stop}: no batch begins here, and the rest of the"
                " segment was not compared"
            )

    def _with_bases(self, batches: Batches) -> Batches:
        """A compressed v0 or v1 message says only where it ends: it begins after the last one."""
        before = np.concatenate([[self._before], batches.last_offset[:-1] + 1])
        known = np.where(batches.base_offset == NO_OFFSET, before, batches.base_offset)
        return batches._replace(base_offset=known)

    def read(self) -> "BatchRecords":
        """The records of the batch at the place; of a broken one none, and a problem."""
        assert self._table is not None
        one = take_batches(self._table.batches, slice(self._row, self._row + 1))
        position, size = int(one.position[0]), int(one.size[0])
        data = np.zeros(size + PADDING, dtype=np.uint8)
        with open_remaining(self._table.log, self.storage) as file:
            file.fill(data, position, size)
        table = _scanned(one)
        region = Region(data, size, self._table.log.path, position)
        compute_crcs(region.data, position, table)
        decoder = Decoder(_ALL | Wanted.CONTROL)
        _, (records, _), broken = decode_whole(decoder, region, table)
        self.problems += [str(each.violation) for each in broken]
        count = records.offset.size
        chunk = Chunk(records, count, records.header_key_bounds.size - 1)
        return BatchRecords(records.offset.copy(), records_to_arrow(chunk, _COLUMNS), one)


class BatchRecords(NamedTuple):
    """What a batch holds: offsets, and the columns that make a record what it is."""

    offsets: Int64s
    columns: pa.RecordBatch
    header: Batches

    @property
    def epoch(self) -> int:
        return int(self.header.partition_leader_epoch[0])

    @property
    def last_offset(self) -> int:
        return int(self.header.last_offset[0])


def _scanned(one: Batches) -> Batches:
    """A row that may be written to."""
    table = allocate_batches(1)
    for column, value in zip(table, one, strict=True):
        column[:] = value
    return table
