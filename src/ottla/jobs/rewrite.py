"""Write partitions anew, batch by batch: parts of segments in parallel, then what lies beside them.

What a rewriting does with the batches of a window is a `Change`; all else is the same for all.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.errors import CorruptLogError, Rule, Severity, Violation
from ottla.format.sentinels import NO_OFFSET
from ottla.jobs.account import account_row
from ottla.jobs.logs import Bounds, Log
from ottla.jobs.output import OutputJob
from ottla.jobs.selection import cut_log
from ottla.jobs.slices import Slice
from ottla.jobs.stable import Stable
from ottla.jobs.transactions import walk_markers
from ottla.kernels.scan import scan
from ottla.kernels.tables import Batches, allocate_batches, take_batches
from ottla.log.index_builder import SegmentConfig
from ottla.log.names import PARTITION_METADATA, Kind, file_name, parse_file_name
from ottla.log.order import first_offsets
from ottla.log.publish import FinishedPartition, Job, StagedFile, staged_path
from ottla.log.segment import Window, read_windows
from ottla.log.segment_writer import LogWriter
from ottla.log.side_files import SideFiles
from ottla.object_store import StorageOptions
from ottla.region import Region, padded
from ottla.storage import Entry, File, open_file, read_bytes

DEFAULT_SPLIT_BYTES: Final = 1 << 30  # a part becomes a segment, so this is Kafka's segment.bytes
_SMALLEST_BATCH: Final = 26


class Changed(NamedTuple):
    """Batches as they shall be written, and what became of those that they come from."""

    region: Region
    batches: Batches
    copied: int
    skipped: int
    written_records: int


class Change(Protocol):
    """What is done to the batches of each window of a part; travels to tasks."""

    def begin(self, max_batch_bytes: int) -> Any:
        """What is kept from window to window, such as a decoder."""

    def apply(self, kept: Any, region: Region, batches: Batches, part: Slice) -> Iterator[Changed]:
        """The window as it shall be written, piece by piece; a broken batch raises."""


@dataclass(frozen=True, slots=True)
class RewritePart:
    """A slice to be written as segments of `directory`, the first at `base_offset`."""

    directory: str
    slice: Slice
    base_offset: int
    change: Change
    config: SegmentConfig
    storage: StorageOptions
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES

    @property
    def size(self) -> int:
        return self.slice.size


@dataclass(frozen=True, slots=True)
class RewrittenLog:
    """A partition whose logs are staged. `end_offset` is where it went on without a batch."""

    directory: str
    topic: str
    partition: int
    logs: tuple[StagedFile, ...]
    metadata: bytes | None
    end_offset: int | None

    @property
    def size(self) -> int:
        return sum(file.size for file in self.logs)


class Rewriting(NamedTuple):
    """What to do with one log."""

    log: Log
    bounds: Bounds
    stable: Stable | None
    directory: str
    change: Change
    metadata: bytes | None


def plan_rewriting(
    title: str,
    out: str,
    rewritings: Sequence[Rewriting],
    options: Mapping[str, Any],
    *,
    split_bytes: int,
    config: SegmentConfig,
    storage: StorageOptions,
) -> OutputJob:
    """A job that writes logs anew; `options` are what names it beside its input."""
    parts: dict[str, RewritePart] = {}
    keys: dict[str, list[str]] = {}
    for each in rewritings:
        keys[each.directory] = []
        for part in cut_log(each.log, each.bounds, split_bytes, storage, each.stable):
            base = _base_offset(part)
            key = f"{each.directory}.{base:020d}.{part.start}"
            keys[each.directory].append(key)
            parts[key] = RewritePart(each.directory, part, base, each.change, config, storage)

    def closing(finished: Mapping[str, FinishedPartition]) -> dict[str, RewrittenLog]:
        return {
            each.directory: _closing(each, finished, keys[each.directory]) for each in rewritings
        }

    return OutputJob(
        title=title,
        out=out,
        inputs=[entry for each in rewritings for entry in each.log.partition.entries],
        options=dict(options),
        storage=storage,
        parts=parts,
        stage=rewrite_part,
        closing=closing,
        close=close_log,
    )


def _base_offset(part: Slice) -> int:
    """Where a segment that holds the slice begins; known only later where the slice cuts one."""
    parsed = parse_file_name(posixpath.basename(part.log.path))
    base = parsed.offset if parsed else 0
    if part.bounds.start is not None:
        base = max(base, part.bounds.start)
    return base


def _closing(
    each: Rewriting, finished: Mapping[str, FinishedPartition], keys: Sequence[str]
) -> RewrittenLog:
    logs = [file for key in keys for file in finished[key].files if file.target.endswith(Kind.LOG)]
    assert each.log.name is not None
    segments = each.log.partition.segments
    # An empty last segment says how far the log went, though no batch does.
    end = segments[-1].base_offset if segments and not segments[-1].log.size else None
    return RewrittenLog(
        each.directory,
        each.log.name.topic,
        each.log.name.partition,
        tuple(sorted(logs, key=lambda file: file.target)),
        each.metadata,
        end if each.bounds.stop is None else None,
    )


def rewrite_part(job: Job, part: RewritePart) -> FinishedPartition:
    """Stage the logs of one part with their indexes."""
    assert part.slice.name is not None
    writer: LogWriter | None = None
    counts = dict.fromkeys(("readBatches", "readRecords", "writtenRecords", "writtenBatches"), 0)
    counts |= dict.fromkeys(("copiedBatches", "skippedBatches", "violations"), 0)
    first = last = None
    for changed in _changes(part, counts):
        counts["copiedBatches"] += changed.copied
        counts["skippedBatches"] += changed.skipped
        counts["writtenRecords"] += changed.written_records
        counts["writtenBatches"] += changed.batches.position.size
        if not changed.batches.position.size:
            continue
        if writer is None:
            base = _first_base(part, changed)
            writer = LogWriter(job, part.directory, base, part.config)
            first = int(first_offsets(changed.batches)[0])
        writer.append(changed.region, changed.batches)
        last = int(changed.batches.last_offset[-1])
    files = [] if writer is None else writer.close()
    row = account_row(
        part.slice.name.topic,
        part.slice.name.partition,
        readBytes=part.slice.size,
        writtenBytes=sum(file.size for file in files if file.target.endswith(Kind.LOG)),
        firstOffset=first,
        lastOffset=last,
        **counts,
    )
    return FinishedPartition(files, row)


def _changes(part: RewritePart, counts: dict[str, int]) -> Iterator[Changed]:
    """What is to be written for each window; counts what was read."""
    kept = part.change.begin(part.max_batch_bytes)
    with open_file(part.slice.log, part.storage) as file:
        for window in sound_windows(file, part.slice, part.max_batch_bytes):
            counts["violations"] += window.violation is not None
            counts["readBatches"] += window.batches.position.size
            counts["readRecords"] += count_records(window.batches)
            yield from part.change.apply(kept, window.region, window.batches, part.slice)


def _first_base(part: RewritePart, changed: Changed) -> int:
    """Where the part's first segment begins: as the one it copies, else with its first batch."""
    first = take_batches(changed.batches, slice(0, 1))
    if first.base_offset[0] == NO_OFFSET and part.slice.start:
        for _ in Decoder(0).decode(changed.region, first):  # only its messages know where it begins
            continue
    known = int(first_offsets(first)[0])
    return part.base_offset if part.slice.start == 0 or known < part.base_offset else known


def sound_windows(file: File, part: Slice, max_batch_bytes: int) -> Iterator[Window]:
    """The windows of a slice; bytes that are no batch raise, but for the end of an unclean log."""
    reached, stop = part.start, min(part.stop, file.size)
    may_end = part.stop == part.log.size
    for window in read_windows(file, start=part.start, end=stop, max_batch_bytes=max_batch_bytes):
        found, reached = window.violation, window.stop
        if found is not None and found.rule is Rule.ZERO_TAIL:
            if not may_end:
                detail = "nothing but zeros to the end of the part, and batches after it"
                found = replace(found, rule=Rule.BATCH_SIZE_MINIMUM, detail=detail)
                raise CorruptLogError(found)
            reached = stop
        elif found is not None and found.rule.severity is Severity.ERROR:
            raise CorruptLogError(found)
        yield window
    # A broker cuts half a batch off the last segment alone.
    may_be_cut = may_end and part.is_last and file.size >= part.stop
    if reached < part.stop and not may_be_cut:
        detail = "a planned part of the file does not end with a batch: it was truncated or changed"
        raise CorruptLogError(Violation(Rule.SLICE_COMPLETE, detail, file.path, reached))


def scanned(data: bytes | memoryview, path: str) -> tuple[Region, Batches]:
    """Encoded batches as a region with their table."""
    held = padded(data)
    table = allocate_batches(len(data) // _SMALLEST_BATCH)
    rows, _, _, _ = scan(held, 0, len(data), 0, table)
    return Region(held, len(data), path, 0), take_batches(table, slice(0, rows))


def close_log(job: Job, log: RewrittenLog) -> FinishedPartition:
    """Stage what lies beside the logs of a partition, from their headers."""
    beside = SideFiles(job, log.directory)
    next_offset: int | None = None
    for staged in log.logs:
        base = int(posixpath.basename(staged.target).removesuffix(Kind.LOG))
        if next_offset is not None:
            beside.stage_snapshot(base)
        with open_file(staged_path(job, staged.staged), job.storage) as file:
            for walked, markers in walk_markers(file):
                beside.follow(walked.batches, markers)
                if walked.batches.position.size:
                    next_offset = int(walked.batches.last_offset[-1]) + 1
        beside.finish_segment(base)
    end = log.end_offset
    if end is not None and (next_offset is None or next_offset <= end):
        beside.stage(file_name(end, Kind.LOG), b"")
        next_offset = end
    if next_offset is not None:
        beside.stage_snapshot(next_offset)
    beside.stage_leader_epochs()
    if log.metadata is not None:
        beside.stage(PARTITION_METADATA, log.metadata)
    return FinishedPartition(beside.files, account_row(log.topic, log.partition))


def read_metadata(log: Log, storage: StorageOptions) -> bytes | None:
    """The partition.metadata of a log, as it is."""
    entry: Entry | None = log.partition.others.get(PARTITION_METADATA)
    return None if entry is None else read_bytes(entry, storage)


def count_records(batches: Batches) -> int:
    """The records that batches say they hold; those of wrappers are not known."""
    return int(np.maximum(batches.count, 0).sum())
