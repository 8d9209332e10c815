"""Write partitions anew, batch by batch: parts of segments in parallel, then what lies beside them.

What a rewriting does with the batches of a window is a `Change`; all else is the same for all.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from ottla.batch.count import count_records
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.catalog.logs import Log
from ottla.catalog.positions import find_log_end
from ottla.catalog.slices import Cutting, Slice, cut_log
from ottla.catalog.stable import Stable
from ottla.errors import CorruptLogError, Rule, Violation, require_sound
from ottla.format.names import PARTITION_METADATA, Kind, TopicPartition
from ottla.format.sentinels import NO_OFFSET, NO_PRODUCER_ID
from ottla.jobs.output import OutputJob
from ottla.jobs.rewrite.trim import trim
from ottla.jobs.verify.transactions import walk_markers
from ottla.kernels.tables import Batches, Wanted, take_batches
from ottla.log.check.order import check_ends, first_offsets
from ottla.log.files.checkpoints import EpochStart, follow_leader_epochs
from ottla.log.files.small_files import read_small
from ottla.log.read.bounds import Bounds
from ottla.log.read.windows import Window, read_windows, require_sound_windows
from ottla.log.write.extent import (
    Extent,
    Staged,
    find_extent,
    join_lineage,
    read_lineage,
    stage_extent,
)
from ottla.log.write.index_builder import SegmentConfig
from ottla.log.write.segment_writer import LogWriter
from ottla.log.write.side_files import SideFiles
from ottla.publish.account import account_row
from ottla.publish.checked import FinishedPartition, StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import staged_path
from ottla.region import Region
from ottla.storage.files import File, open_file
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions

DEFAULT_SPLIT_BYTES: Final = 1 << 30  # a part becomes a segment, so this is Kafka's segment.bytes


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
    """A slice to be written as segments of `directory`.

    The first is at `base_offset` if the slice begins a segment, else where its batches begin.
    """

    directory: str
    slice: Slice
    base_offset: int
    begins_segment: bool
    change: Change
    config: SegmentConfig
    storage: StorageOptions
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES

    @property
    def size(self) -> int:
        return self.slice.size


@dataclass(frozen=True, slots=True)
class RewrittenLog:
    """A partition whose logs are staged, and what is asked of the one that was read.

    `epochs` are those of all batches that were read, also of such as were left out. From
    `undecided_from` on nothing was taken, though nobody asked for that; `lost` are offsets that the
    input has elsewhere.
    """

    directory: str
    topic: str
    partition: int
    logs: tuple[StagedFile, ...]
    epochs: tuple[EpochStart, ...]
    source: Log
    bounds: Bounds
    metadata: bytes | None
    magic: int | None
    undecided_from: int | None
    lost: int
    storage: StorageOptions

    @property
    def size(self) -> int:
        return sum(file.size for file in self.logs)


class Rewriting(NamedTuple):
    """What to do with one log; without `magic` its batches keep theirs.

    Only what is `stable` is taken, but the log ends where it did. Of a topic that becomes another
    one `lost` offsets stay behind in remote storage. `home` is the folder of OUT that the log is
    for, where OUT is not a log directory itself.
    """

    log: Log
    bounds: Bounds
    stable: Stable | None
    name: TopicPartition
    change: Change
    metadata: bytes | None
    magic: int | None = None
    lost: int = 0
    home: str = ""

    @property
    def directory(self) -> str:
        return posixpath.join(self.home, str(self.name))


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
        keys[str(each.name)] = []
        for part in _cut_parts(each, split_bytes, config, storage):
            key = f"{each.name}.{part.base_offset:020d}.{part.slice.start}"
            keys[str(each.name)].append(key)
            parts[key] = part

    def closing(finished: Mapping[str, FinishedPartition]) -> dict[str, RewrittenLog]:
        return {
            str(each.name): _closing(each, finished, keys[str(each.name)], storage)
            for each in rewritings
        }

    log_starts = {each.name: _log_start(each) for each in rewritings}
    return OutputJob(
        title=title,
        out=out,
        logs=[each.log for each in rewritings],
        options=dict(options) | {"logStarts": sorted(log_starts.items())},
        storage=storage,
        parts=parts,
        stage=rewrite_part,
        closing=closing,
        close=close_log,
        log_starts=log_starts,
    )


def _log_start(each: Rewriting) -> int | None:
    """What a checkpoint must say: a broker with remote storage takes 0 where it says nothing."""
    return None if each.log.log_start is None else each.bounds.start


def _cut_parts(
    each: Rewriting, split_bytes: int, config: SegmentConfig, storage: StorageOptions
) -> Iterator[RewritePart]:
    bounds, stable = each.bounds, each.stable
    if stable is not None:
        stop = stable.last_stable_offset
        bounds = replace(bounds, stop=stop if bounds.stop is None else min(stop, bounds.stop))
    segment = None
    for part in cut_log(each.log, bounds, Cutting(split_bytes), storage, stable):
        yield RewritePart(
            each.directory,
            part,
            _base_offset(part),
            part.log != segment,
            each.change,
            config,
            storage,
        )
        segment = part.log


def _base_offset(part: Slice) -> int:
    """Where the segment begins that the slice is of, as far as it is kept."""
    base = max(part.base_offset, 0)
    return base if part.bounds.start is None else max(base, part.bounds.start)


def _closing(
    each: Rewriting,
    finished: Mapping[str, FinishedPartition],
    keys: Sequence[str],
    storage: StorageOptions,
) -> RewrittenLog:
    logs = [file for key in keys for file in finished[key].files if file.target.endswith(Kind.LOG)]
    return RewrittenLog(
        each.directory,
        each.log.name.topic,
        each.log.name.partition,
        tuple(sorted(logs, key=lambda file: file.target)),
        tuple(EpochStart(*epoch) for key in keys for epoch in finished[key].account["epochs"]),
        each.log,
        each.bounds,
        each.metadata,
        each.magic,
        None if each.stable is None else each.stable.last_stable_offset,
        each.lost + _lost_in_gaps(each),
        storage,
    )


def _lost_in_gaps(each: Rewriting) -> int:
    """Offsets within the bounds that remote storage should have, and has not."""
    lost = 0
    for found in each.log.partition.findings:
        if found.rule is Rule.REMOTE_GAP and None not in (found.offset, found.last_offset):
            start, stop = each.bounds.start, each.bounds.stop
            gap = range(found.offset or 0, (found.last_offset or 0) + 1)
            first = gap.start if start is None else max(gap.start, start)
            lost += max(0, (gap.stop if stop is None else min(gap.stop, stop)) - first)
    return lost


def rewrite_part(job: Job, part: RewritePart) -> FinishedPartition:
    """Stage the logs of one part with their indexes."""
    writer: LogWriter | None = None
    counts = dict.fromkeys(("readBatches", "readRecords", "writtenRecords", "writtenBatches"), 0)
    counts |= dict.fromkeys(("copiedBatches", "skippedBatches", "violations"), 0)
    first = last = None
    epochs: list[EpochStart] = []
    producer_id = NO_PRODUCER_ID  # the highest: whoever gives out new ones must begin above it
    for changed in _changes(part, counts, epochs):
        producer_id = max(producer_id, int(changed.batches.producer_id.max(initial=producer_id)))
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
    return FinishedPartition(files, row | {"epochs": epochs, "producerId": producer_id})


def _changes(
    part: RewritePart, counts: dict[str, int], epochs: list[EpochStart]
) -> Iterator[Changed]:
    """What is to be written for each window; counts what was read."""
    kept = part.change.begin(part.max_batch_bytes)
    with open_file(part.slice.log, part.storage) as file:
        for window in sound_windows(file, part.slice, part.max_batch_bytes):
            counts["violations"] += window.violation is not None
            counts["readBatches"] += window.batches.position.size
            bounds, limit = part.slice.bounds, part.max_batch_bytes
            counts["readRecords"] += count_records(window.region, window.batches, limit)
            follow_leader_epochs(epochs, window.batches)
            counts["skippedBatches"] += window.batches.position.size
            for region, batches, are_copies in trim(window.region, window.batches, bounds, limit):
                counts["skippedBatches"] -= batches.position.size
                for changed in part.change.apply(kept, region, batches, part.slice):
                    yield changed if are_copies else changed._replace(copied=0)


def _first_base(part: RewritePart, changed: Changed) -> int:
    """Where the part's first segment begins: as the one it copies, else with its first batch."""
    if part.begins_segment:
        return part.base_offset
    first = take_batches(changed.batches, slice(0, 1))
    if first.base_offset[0] == NO_OFFSET:
        # Only its messages know where it begins.
        for _ in Decoder(Wanted.OFFSETS).decode(changed.region, first):
            continue
    return int(first_offsets(first)[0])


def sound_windows(file: File, part: Slice, max_batch_bytes: int) -> Iterator[Window]:
    """The windows of a slice; bytes that are no batch raise, but for the end of an unclean log."""
    stop = min(part.stop, file.size)
    windows = read_windows(
        file, start=part.start, end=stop, ending=part.ending, max_batch_bytes=max_batch_bytes
    )
    for window in require_sound_windows(windows):
        require_sound(check_ends(window.batches, file.path))
        yield window
    if stop < part.stop:
        detail = f"the file shrank to {stop} bytes after it was listed"
        raise CorruptLogError(Violation(Rule.SLICE_COMPLETE, detail, file.path, stop))


def close_log(job: Job, log: RewrittenLog) -> FinishedPartition:
    """Stage what lies beside the logs of a partition, from their headers."""
    beside = SideFiles(job, log.directory)
    extent = extent_of(log)
    next_offset, bases = extent.base_offset, []
    for staged in log.logs:
        base = int(posixpath.basename(staged.target).removesuffix(Kind.LOG))
        if base > extent.base_offset:
            beside.stage_snapshot(base)
        with open_file(staged_path(job, staged.staged), job.storage) as file:
            for walked, markers in walk_markers(file):
                beside.follow(walked.batches, markers)
                if walked.batches.position.size:
                    next_offset = int(walked.batches.last_offset[-1]) + 1
        beside.finish_segment(base)
        bases.append(base)
    stage_extent(beside, extent, Staged(bases[0] if bases else None, next_offset))
    if extent.log_end > extent.base_offset:
        beside.stage_snapshot(extent.log_end)
    lost = log.lost
    if log.undecided_from is not None:
        lost += max(0, extent.log_end - max(log.undecided_from, extent.base_offset))
    row = account_row(log.topic, log.partition, lostOffsets=lost)
    return FinishedPartition(beside.files, row | {"notes": beside.notes})


def extent_of(log: RewrittenLog) -> Extent:
    """That of the log that was read, within the bounds that were asked for."""
    end = find_log_end(log.source.partition, log.storage)
    partition, start = log.source.partition, log.bounds.start
    lineage = read_lineage(partition, start, log.storage)
    whole = find_extent(partition, start, end, lineage, log.storage)
    extent = whole.within(log.bounds.start, log.bounds.stop)
    magic = extent.magic if log.magic is None else log.magic
    epochs = join_lineage(extent.epochs, log.epochs)
    return replace(extent, epochs=epochs, metadata=log.metadata, magic=magic)


def read_metadata(log: Log, storage: StorageOptions) -> bytes | None:
    """The partition.metadata of a log, as it is."""
    entry: Entry | None = log.partition.find(PARTITION_METADATA)
    return None if entry is None else read_small(entry, storage)
