"""Append sealed batches to new segments: roll, index and stage them as a broker would."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from ottla.format.sentinels import INT32_MAX, NO_OFFSET
from ottla.kernels.tables import Batches
from ottla.log.checkpoints import EpochStart, write_leader_epochs
from ottla.log.index_builder import IndexBuilder, SegmentConfig
from ottla.log.names import LEADER_EPOCH_CHECKPOINT, Kind, file_name
from ottla.log.offset_index import write_offset_index
from ottla.log.publish import Job, StagedFile, new_staged_name, staged_path
from ottla.log.time_index import write_time_index
from ottla.region import Bytes
from ottla.storage import join, open_output, write_file


class SegmentWriter:
    """The segments of one partition directory, one after another; `files` is what was staged."""

    def __init__(self, job: Job, directory: str, base_offset: int, config: SegmentConfig) -> None:
        self.job = job
        self.directory = directory
        self.config = config
        self.files: list[StagedFile] = []
        self.epochs: list[EpochStart] = []
        self.next_offset = base_offset
        self._indexes = IndexBuilder(base_offset, config)
        self._log: tuple[str, Any] | None = None
        self._open = ExitStack()

    def append(self, data: Bytes, batches: Batches, *, origin: int) -> None:
        """Append batches that lie in `data`, whose first byte has the position `origin`."""
        row = 0
        while row < batches.position.size:
            if self._indexes.size == 0:
                self._start_where_it_fits(batches, row)
            stop = self._indexes.append(batches, row)
            self._write(data, batches, row, stop, origin)
            row = stop
            if row < batches.position.size:
                self.roll(first_offset(batches, row))

    def _start_where_it_fits(self, batches: Batches, row: int) -> None:
        """An empty segment whose base no index can reach from is rolled (LogSegment.shouldRoll)."""
        relative = int(batches.last_offset[row]) - self._indexes.base_offset
        if not 0 <= relative <= INT32_MAX:
            self.roll(first_offset(batches, row))

    def _write(self, data: Bytes, batches: Batches, row: int, stop: int, origin: int) -> None:
        if self._log is None:
            self._log = self._open_log()
        for begin, end in contiguous(batches, row, stop):
            self._log[1].write(data[begin - origin : end - origin].data)
        self.next_offset = int(batches.last_offset[stop - 1]) + 1
        for epoch, start in rising_epochs(batches, row, stop):
            if not self.epochs or epoch > self.epochs[-1].epoch:
                self.epochs.append(EpochStart(epoch, start))

    def roll(self, base_offset: int) -> None:
        """Finish the segment, if it holds anything, and begin one at `base_offset` or later."""
        self._finish_segment()
        self._indexes = IndexBuilder(max(base_offset, self.next_offset), self.config)

    def close(self) -> list[StagedFile]:
        """Finish the last segment and write the leader epochs; everything that was staged."""
        self._finish_segment()
        self.stage(LEADER_EPOCH_CHECKPOINT, write_leader_epochs(self.epochs))
        return self.files

    def stage(self, name: str, data: bytes) -> None:
        """Stage a small file of the directory."""
        staged = new_staged_name(name)
        write_file(staged_path(self.job, staged), data, self.job.storage)
        self.files.append(StagedFile(staged, join(self.directory, name), len(data)))

    def _open_log(self) -> tuple[str, Any]:
        staged = new_staged_name(file_name(self._indexes.base_offset, Kind.LOG))
        output = open_output(staged_path(self.job, staged), self.job.storage)
        return staged, self._open.enter_context(output)

    def _finish_segment(self) -> None:
        if self._log is None:
            return
        base = self._indexes.base_offset
        staged = self._log[0]
        self._open.close()
        self._log = None
        target = join(self.directory, file_name(base, Kind.LOG))
        self.files.append(StagedFile(staged, target, self._indexes.size))
        offset_index, time_index = self._indexes.finish()
        self.stage(file_name(base, Kind.OFFSET_INDEX), write_offset_index(offset_index))
        self.stage(file_name(base, Kind.TIME_INDEX), write_time_index(time_index))


def first_offset(batches: Batches, row: int) -> int:
    """The base of a segment that begins with a batch (UnifiedLog.maybeRoll).

    A compressed v0 or v1 message does not say where it begins: its last offset must be in reach.
    """
    known = int(batches.base_offset[row])
    return int(batches.last_offset[row]) - INT32_MAX if known == NO_OFFSET else known


def contiguous(batches: Batches, row: int, stop: int) -> Iterator[tuple[int, int]]:
    """Spans of bytes in which the batches row to stop lie one after another."""
    begin = int(batches.position[row])
    ends = batches.position[row:stop] + batches.size[row:stop]
    for index in (batches.position[row + 1 : stop] != ends[:-1]).nonzero()[0]:
        yield begin, int(ends[index])
        begin = int(batches.position[row + index + 1])
    yield begin, int(ends[-1])


def rising_epochs(batches: Batches, row: int, stop: int) -> Iterator[tuple[int, int]]:
    """Batches with another leader epoch than the one before: (epoch, base offset)."""
    epochs = batches.partition_leader_epoch[row:stop]
    changes = [0, *((epochs[1:] != epochs[:-1]).nonzero()[0] + 1).tolist()]
    for index in changes:
        if epochs[index] >= 0:
            yield int(epochs[index]), int(batches.base_offset[row + index])
