"""Append sealed batches to new segments: roll, index and stage them as a broker would."""

import posixpath
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from ottla.errors import PublishError
from ottla.format.names import Kind, file_name
from ottla.format.sentinels import INT32_MAX, NO_OFFSET
from ottla.kernels.producers.state import Markers
from ottla.kernels.tables import Batches, take_batches
from ottla.log.check.order import have_no_end
from ottla.log.files.checkpoints import EpochStart
from ottla.log.files.offset_index import write_offset_index
from ottla.log.files.time_index import write_time_index
from ottla.log.write.extent import Extent, Staged, stage_extent
from ottla.log.write.index_builder import IndexBuilder, SegmentConfig
from ottla.log.write.side_files import SideFiles, stage_file
from ottla.publish.checked import StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import new_staged_name, staged_path
from ottla.region import Region
from ottla.rules.producers.producer import ProducerState
from ottla.rules.producers.transactions import read_markers
from ottla.storage.paths import join
from ottla.storage.writing import open_output


class LogWriter:
    """Logs with the indexes that each has by itself: what several tasks can write of a partition.

    `files` is what was staged, `next_offset` follows the last batch.
    """

    def __init__(self, job: Job, directory: str, base_offset: int, config: SegmentConfig) -> None:
        self.job = job
        self.directory = directory
        self.config = config
        self.files: list[StagedFile] = []
        self.next_offset = base_offset
        self._indexes = IndexBuilder(base_offset, config)
        self._log: tuple[str, Any] | None = None
        self._open = ExitStack()

    def append(self, region: Region, batches: Batches) -> None:
        """Append batches whose bytes lie in the region."""
        row = 0
        while row < batches.position.size:
            stop = self._append_to_segment(region, batches, row)
            row = stop
            if row < batches.position.size:
                self.roll(first_offset(batches, row))

    def _append_to_segment(self, region: Region, batches: Batches, row: int) -> int:
        """Append rows from `row` on, and return the one that needs another segment."""
        self._refuse_no_end(batches)
        if self._indexes.size == 0:
            self._start_where_it_fits(batches, row)
        stop = self._indexes.append(batches, row)
        if stop == row:  # what was appended before fills the segment
            self.roll(first_offset(batches, row))
            return self._append_to_segment(region, batches, row)
        if self._log is None:
            self._log = self._open_log()
        for begin, end in contiguous(batches, slice(row, stop)):
            self._log[1].write(region.data[begin - region.position : end - region.position].data)
        self.next_offset = int(batches.last_offset[stop - 1]) + 1
        return stop

    def _refuse_no_end(self, batches: Batches) -> None:
        if have_no_end(batches).any():
            raise PublishError(
                f"{self.directory}: there are no offsets left for the log end: a batch comes to"
                " 2^63-1 or past it"
            )

    def _start_where_it_fits(self, batches: Batches, row: int) -> None:
        """An empty segment whose base no index can reach from is rolled (LogSegment.shouldRoll)."""
        relative = int(batches.last_offset[row]) - self._indexes.base_offset
        if not 0 <= relative <= INT32_MAX:
            self.roll(first_offset(batches, row))

    def roll(self, base_offset: int) -> int | None:
        """Finish the segment, if it holds anything, and begin one at `base_offset` or later.

        The base of the new one, when there was something to finish.
        """
        begun = self._log is not None
        self._finish_segment()
        base = max(base_offset, self.next_offset) if begun or self.files else base_offset
        self._indexes = IndexBuilder(base, self.config)
        return base if begun else None

    def close(self) -> list[StagedFile]:
        """Finish the last segment; everything that was staged."""
        self._finish_segment()
        return self.files

    def _open_log(self) -> tuple[str, Any]:
        staged = new_staged_name(file_name(self._indexes.base_offset, Kind.LOG))
        output = open_output(staged_path(self.job, staged), self.job.storage)
        return staged, self._open.enter_context(output)

    def _finish_segment(self) -> int | None:
        """Stage the indexes of the segment; its base, if there was one."""
        if self._log is None:
            return None
        base = self._indexes.base_offset
        staged = self._log[0]
        self._open.close()
        self._log = None
        target = join(self.directory, file_name(base, Kind.LOG))
        self.files.append(StagedFile(staged, target, self._indexes.size))
        offset_index, time_index = self._indexes.finish()
        for kind, data in (
            (Kind.OFFSET_INDEX, write_offset_index(offset_index)),
            (Kind.TIME_INDEX, write_time_index(time_index)),
        ):
            self.files.append(stage_file(self.job, self.directory, file_name(base, kind), data))
        return base


class SegmentWriter(LogWriter):
    """The segments of one partition directory, one after another, with all that lies beside them.

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
        super().__init__(job, directory, base_offset, config)
        self._beside = SideFiles(job, directory, producers)
        self._beside.files = self.files

    @property
    def notes(self) -> list[str]:
        """What a user should know of the log."""
        return self._beside.notes

    @property
    def epochs(self) -> list[EpochStart]:
        """Where leaders began."""
        return self._beside.epochs

    @property
    def producers(self) -> ProducerState:
        """What is known of producers after the last batch."""
        return self._beside.producers

    def append(self, region: Region, batches: Batches) -> None:
        """Append batches whose bytes lie in the region."""
        markers = read_markers(region, batches)
        row = 0
        while row < batches.position.size:
            stop = self._append_to_segment(region, batches, row)
            rows = slice(row, stop)
            its_markers = Markers(*(column[rows] for column in markers))
            self._beside.follow(take_batches(batches, rows), its_markers)
            row = stop
            if row < batches.position.size:
                self.roll(first_offset(batches, row))

    def roll(self, base_offset: int) -> int | None:
        """Finish the segment, if it holds anything, and begin one at `base_offset` or later."""
        base = super().roll(base_offset)
        if base is not None:
            self._beside.stage_snapshot(base)
        return base

    def close(self) -> list[StagedFile]:
        """Finish the last segment and what is known at the end; everything that was staged."""
        if self._finish_segment() is not None:
            self._beside.stage_snapshot(self.next_offset)
        self._beside.stage_leader_epochs()
        return self.files

    def close_as(self, extent: Extent) -> list[StagedFile]:
        """Finish a log that begins, ends and has the epochs as something else says."""
        self._finish_segment()
        logs = [file.target for file in self.files if file.target.endswith(Kind.LOG)]
        base = int(posixpath.basename(logs[0]).removesuffix(Kind.LOG)) if logs else None
        next_offset = self.next_offset if logs else extent.base_offset
        stage_extent(self._beside, extent, Staged(base, next_offset))
        if extent.log_end > extent.base_offset:
            self._beside.stage_snapshot(extent.log_end)
        return self.files

    def stage(self, name: str, data: bytes) -> None:
        """Stage a small file of the directory."""
        self._beside.stage(name, data)

    def _finish_segment(self) -> int | None:
        base = super()._finish_segment()
        if base is not None:
            self._beside.finish_segment(base)
        return base


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
