"""Append sealed batches to new segments: roll, index and stage them as a broker would."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from ottla.format.sentinels import INT32_MAX, NO_OFFSET
from ottla.kernels.producers import Completed, Markers
from ottla.kernels.tables import Batches, take_batches
from ottla.log.checkpoints import EpochStart, write_leader_epochs
from ottla.log.index_builder import IndexBuilder, SegmentConfig
from ottla.log.names import LEADER_EPOCH_CHECKPOINT, Kind, file_name
from ottla.log.offset_index import write_offset_index
from ottla.log.producer_snapshot import write_producer_snapshot
from ottla.log.publish import Job, StagedFile, new_staged_name, staged_path
from ottla.log.time_index import write_time_index
from ottla.log.transaction_index import write_transaction_index
from ottla.region import Region
from ottla.rules.producer import (
    Origin,
    ProducerState,
    append_all,
    concat_completed,
    empty_state,
)
from ottla.rules.snapshots import to_snapshot
from ottla.rules.transactions import aborted_transactions, read_markers
from ottla.storage import join, open_output, write_file


class SegmentWriter:
    """The segments of one partition directory, one after another; `files` is what was staged.

    What lies beside a log follows from its batches: indexes, leader epochs, aborted transactions,
    and a producer snapshot at every base but the first and at the end. `producers` is what was
    known before the first batch, where segments are appended to others.
    """

    def __init__(
        self,
        job: Job,
        directory: str,
        base_offset: int,
        config: SegmentConfig,
        producers: ProducerState | None = None,
    ) -> None:
        self.job = job
        self.directory = directory
        self.config = config
        self.files: list[StagedFile] = []
        self.epochs: list[EpochStart] = []
        self.next_offset = base_offset
        self.producers = producers if producers is not None else empty_state()
        self._completed: list[Completed] = []
        self._indexes = IndexBuilder(base_offset, config)
        self._log: tuple[str, Any] | None = None
        self._open = ExitStack()

    def append(self, region: Region, batches: Batches) -> None:
        """Append batches whose bytes lie in the region."""
        markers = read_markers(region, batches)
        row = 0
        while row < batches.position.size:
            if self._indexes.size == 0:
                self._start_where_it_fits(batches, row)
            stop = self._indexes.append(batches, row)
            self._write(region, batches, slice(row, stop))
            self._follow(batches, markers, slice(row, stop))
            row = stop
            if row < batches.position.size:
                self.roll(first_offset(batches, row))

    def _start_where_it_fits(self, batches: Batches, row: int) -> None:
        """An empty segment whose base no index can reach from is rolled (LogSegment.shouldRoll)."""
        relative = int(batches.last_offset[row]) - self._indexes.base_offset
        if not 0 <= relative <= INT32_MAX:
            self.roll(first_offset(batches, row))

    def _write(self, region: Region, batches: Batches, rows: slice) -> None:
        if self._log is None:
            self._log = self._open_log()
        for begin, end in contiguous(batches, rows):
            self._log[1].write(region.data[begin - region.position : end - region.position].data)

    def _follow(self, batches: Batches, markers: Markers, rows: slice) -> None:
        """Learn from batches what the files beside the log will say."""
        its_markers = Markers(*(column[rows] for column in markers))
        part = take_batches(batches, rows)
        completed, _ = append_all(self.producers, part, its_markers, Origin.REPLICATION)
        self._completed.append(completed)
        self.next_offset = int(part.last_offset[-1]) + 1
        for epoch, start in epoch_changes(part):
            if not self.epochs or epoch > self.epochs[-1].epoch:
                self.epochs.append(EpochStart(epoch, start))

    def roll(self, base_offset: int) -> None:
        """Finish the segment, if it holds anything, and begin one at `base_offset` or later."""
        begun = self._log is not None
        self._finish_segment()
        base = max(base_offset, self.next_offset) if begun or self.files else base_offset
        self._indexes = IndexBuilder(base, self.config)
        if begun:
            self._stage_snapshot(base)

    def close(self) -> list[StagedFile]:
        """Finish the last segment and what is known at the end; everything that was staged."""
        begun = self._log is not None
        self._finish_segment()
        if begun:
            self._stage_snapshot(self.next_offset)
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
        aborted = aborted_transactions(concat_completed(self._completed))
        self._completed = []
        if aborted.size:
            self.stage(file_name(base, Kind.TRANSACTION_INDEX), write_transaction_index(aborted))

    def _stage_snapshot(self, offset: int) -> None:
        data = write_producer_snapshot(to_snapshot(self.producers))
        self.stage(file_name(offset, Kind.PRODUCER_SNAPSHOT), data)


def first_offset(batches: Batches, row: int) -> int:
    """The base of a segment that begins with a batch (UnifiedLog.maybeRoll).

    A compressed v0 or v1 message does not say where it begins: its last offset must be in reach.
    """
    known = int(batches.base_offset[row])
    return int(batches.last_offset[row]) - INT32_MAX if known == NO_OFFSET else known


def contiguous(batches: Batches, rows: slice) -> Iterator[tuple[int, int]]:
    """Spans of the file, begin and end, in which the rows lie one after another."""
    positions = batches.position[rows]
    ends = positions + batches.size[rows]
    begin = int(positions[0])
    for index in (positions[1:] != ends[:-1]).nonzero()[0].tolist():
        yield begin, int(ends[index])
        begin = int(positions[index + 1])
    yield begin, int(ends[-1])


def epoch_changes(batches: Batches) -> Iterator[tuple[int, int]]:
    """Batches with another leader epoch than the one before: (epoch, base offset)."""
    epochs = batches.partition_leader_epoch
    changes = [0, *((epochs[1:] != epochs[:-1]).nonzero()[0] + 1).tolist()]
    for index in changes:
        if epochs[index] >= 0:
            yield int(epochs[index]), int(batches.base_offset[index])
