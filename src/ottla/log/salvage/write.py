"""Write what salvage keeps as a clean partition directory, and the rest to the quarantine.

This is the second reading of the input: what is copied must still be what the first one found.
"""

import json
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ottla.batch.count import count_records
from ottla.errors import Violation
from ottla.format.sentinels import INT32_MAX
from ottla.kernels.search.salvage import Intact, view_again
from ottla.kernels.tables import Batches, allocate_batches
from ottla.log.check.order import first_offsets
from ottla.log.files.partition import Partition
from ottla.log.salvage.found import starts_of, take_rows
from ottla.log.salvage.plan import SegmentPlan
from ottla.log.write.extent import Extent, find_extent, read_lineage
from ottla.log.write.index_builder import SegmentConfig
from ottla.log.write.segment_writer import SegmentWriter
from ottla.publish.checked import FinishedPartition
from ottla.publish.job import Job
from ottla.region import PADDING, Region
from ottla.storage.files import File, open_file
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import open_output

_COPY_BYTES: Final = 8 << 20

# Segments stay what they were: nothing is rolled that was not.
_AS_IT_WAS: Final = SegmentConfig(segment_bytes=INT32_MAX, segment_ms=2**62)


def write_salvage(
    partition: Partition,
    plans: Sequence[SegmentPlan],
    job: Job,
    options: StorageOptions,
    log_start: int | None,
) -> FinishedPartition:
    """Stage the kept batches under the partition's own name; `options` are the input's."""
    lineage = read_lineage(partition, log_start, options)
    extent = find_extent(partition, log_start, _log_end(plans), lineage, options)
    directory = partition.directory
    writer = SegmentWriter(job, directory, extent.base_offset, _AS_IT_WAS)
    written = _Written(max(extent.log_start, extent.base_offset))
    for plan in plans:
        _write_segment(plan, writer, written, options)
    files = writer.close_as(extent)
    account = _account(partition, written, extent)
    return FinishedPartition(files, account | {"notes": writer.notes})


def _write_segment(
    plan: SegmentPlan, writer: SegmentWriter, written: "_Written", options: StorageOptions
) -> None:
    with (
        open_file(plan.segment.log, options) as file,
        _Quarantine(writer.job, writer.directory, file) as quarantine,
    ):
        written.read_bytes += plan.segment.log.size
        rolled = False
        for kept, left_out in plan.pieces():
            if kept.position.size and not rolled:
                first = int(starts_of(kept)[0])
                writer.roll(min(max(plan.segment.base_offset, 0), first))
                rolled = True
            for region, batches in _read_kept(file, kept):
                writer.append(region, batches)
                written.add(region, batches)
            quarantine.take(left_out)
            written.leave_out(left_out)


def _log_end(plans: Sequence[SegmentPlan]) -> int:
    """Behind the last batch that is kept, or where a later segment begins: so far the log went."""
    bases = [plan.segment.base_offset for plan in plans]
    ends = [plan.last_kept + 1 for plan in plans if plan.last_kept is not None]
    return max([0, *bases, *ends])


def _read_kept(file: File, kept: Intact) -> Iterator[tuple[Region, Batches]]:
    """The kept batches with their bytes, some megabytes at a time."""
    ends = kept.position + kept.size
    row = 0
    while row < kept.position.size:
        begin = int(kept.position[row])
        stop = max(row + 1, int(np.searchsorted(ends, begin + _COPY_BYTES, side="right")))
        yield _read_again(file, take_rows(kept, slice(row, stop)))
        row = stop


def _read_again(file: File, found: Intact) -> tuple[Region, Batches]:
    """Batches that lie close together, if each is what it was."""
    begin = int(found.position[0])
    size = int(found.position[-1]) + int(found.size[-1]) - begin
    data = np.zeros(size + PADDING, dtype=np.uint8)
    file.fill(data, begin, size)
    batches = allocate_batches(found.position.size)
    changed = view_again(data, size, begin, found, batches)
    if changed >= 0:
        raise OSError(
            f"{file.path} changed while it was salvaged: the batch at position"
            f" {found.position[changed]} is not the one that was found there; nothing was"
            " published, run this again when nobody writes to it"
        )
    return Region(data, size, file.path, begin), batches


class _Quarantine:
    """The bytes of a segment that were left out, one span after another, and a line for each.

    There are no files where nothing was left out.
    """

    def __init__(self, job: Job, directory: str, file: File) -> None:
        self.job = job
        self.file = file
        self._path = job.path("quarantine", directory, posixpath.basename(file.path))
        self._open = ExitStack()
        self._streams: tuple[Any, Any] | None = None

    def __enter__(self) -> "_Quarantine":
        return self

    def __exit__(self, *raised: Any) -> None:
        self._open.__exit__(*raised)

    def take(self, violations: Sequence[Violation]) -> None:
        """Copy the spans that violations name."""
        if not violations:
            return
        if self._streams is None:
            self._streams = (self._begin(self._path), self._begin(f"{self._path}.jsonl"))
        spans, lines = self._streams
        for piece in _read_spans(self.file, violations):
            spans.write(piece)
        for violation in violations:
            lines.write(json.dumps(violation.as_row()).encode() + b"\n")

    def _begin(self, path: str) -> Any:
        return self._open.enter_context(open_output(path, self.job.storage))


def _read_spans(file: File, violations: Sequence[Violation]) -> Iterator[memoryview]:
    """The bytes that violations name, in order; those that lie close together are read at once."""
    begin = stop = 0
    block = np.empty(0, dtype=np.uint8)
    last = violations[-1].position + (violations[-1].size or 0)
    for violation in violations:
        at, end = violation.position, violation.position + (violation.size or 0)
        while at < end:
            if not begin <= at < stop:
                begin, stop = at, min(at + _COPY_BYTES, last)
                block = np.empty(stop - begin, dtype=np.uint8)
                file.fill(block, begin, block.size)
            piece = block[at - begin : min(end, stop) - begin]
            yield piece.data
            at += piece.size


@dataclass(slots=True)
class _Written:
    """What was written and what was not, so far; offsets below `start` can not be lost."""

    start: int
    read_bytes: int = 0
    size: int = 0
    batches: int = 0
    records: int = 0
    lost_offsets: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    left_out: int = 0
    violations: int = 0

    def add(self, region: Region, batches: Batches) -> None:
        firsts = first_offsets(batches)
        before = np.append(self._next_offset(), batches.last_offset[:-1] + 1)
        gaps = np.maximum(firsts, self.start) - np.maximum(before, self.start)
        self.lost_offsets += int(gaps.sum())
        if self.first_offset is None:
            self.first_offset = int(firsts[0])
        self.last_offset = int(batches.last_offset[-1])
        self.size += int(batches.size.sum())
        self.batches += batches.position.size
        # They were opened before, however large.
        self.records += count_records(region, batches, INT32_MAX)

    def leave_out(self, violations: Sequence[Violation]) -> None:
        self.left_out += sum(violation.size or 0 for violation in violations)
        self.violations += len(violations)

    def lost_up_to(self, log_end: int) -> int:
        """Offsets of the log's own segments that are in no batch, those that were deleted apart."""
        behind = max(log_end, self.start) - max(self._next_offset(), self.start)
        return self.lost_offsets + behind

    def _next_offset(self) -> int:
        return self.start if self.last_offset is None else self.last_offset + 1


def _account(partition: Partition, written: _Written, extent: Extent) -> dict[str, Any]:
    """The partition's row of the job's account."""
    return {
        "topic": partition.name.topic,
        "partition": partition.name.partition,
        "readBytes": written.read_bytes,
        "readRecords": written.records,
        "writtenBytes": written.size,
        "writtenBatches": written.batches,
        "writtenRecords": written.records,
        "copiedBatches": written.batches,
        "quarantinedBytes": written.left_out,
        "lostOffsets": written.lost_up_to(extent.log_end),
        "firstOffset": written.first_offset,
        "lastOffset": written.last_offset,
        "violations": written.violations,
    }
