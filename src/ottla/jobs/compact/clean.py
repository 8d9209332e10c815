"""The second pass of compaction, in tasks: write what stays of segments, or count it."""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.decode import Decoder
from ottla.batch.records import Reused, decode_sound_groups
from ottla.catalog.slices import Slice
from ottla.errors import Row
from ottla.format.names import Kind, TopicPartition, file_name
from ottla.format.sentinels import INT32_MAX, INT64_MAX
from ottla.jobs.compact.survey import Facts, read_facts
from ottla.jobs.rewrite.plan import sound_windows
from ottla.jobs.rewrite.trim import scanned
from ottla.jobs.verify.transactions import walk_markers
from ottla.kernels.tables import Batches, Wanted, take_batches
from ottla.log.check.order import first_offsets
from ottla.log.files.partition import Segment
from ottla.log.files.transaction_index import write_transaction_index
from ottla.log.read.windows import Window
from ottla.log.write.extent import Extent, Staged, stage_extent
from ottla.log.write.index_builder import SegmentConfig
from ottla.log.write.segment_writer import LogWriter
from ottla.log.write.side_files import SideFiles, stage_segment
from ottla.publish.account import account_row
from ottla.publish.checked import FinishedPartition, StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import staged_path
from ottla.region import Region
from ottla.rules.cleaner.cleaning import UNCLEANABLE, clean_window, make_decoder
from ottla.rules.cleaner.compaction import Cleaner, InTransaction, Outcome, Round
from ottla.rules.cleaner.survivors import unpack_offsets
from ottla.rules.producers.transactions import read_markers
from ottla.storage.files import open_file, read_bytes
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import set_modified

# A group is one segment, whatever its size and its times: the cleaner does not roll.
_ONE_SEGMENT: Final = SegmentConfig(
    segment_bytes=INT32_MAX, segment_ms=2**62, segment_index_bytes=INT32_MAX
)


class Cleaning(NamedTuple):
    """How to clean a group; `survivors` and `facts` are files under `staging`."""

    round: Round
    began: InTransaction
    survivors: str | None
    facts: str
    legacy_horizon: int


@dataclass(frozen=True, slots=True)
class CompactPart:
    """Segments that become one; without `cleaning` it is one segment, copied as it is.

    Batches that end below `log_start` were deleted and stay so. Only the last segment of a log may
    end in half a batch.
    """

    directory: str
    name: TopicPartition
    segments: tuple[Segment, ...]
    has_last: bool
    log_start: int
    cleaning: Cleaning | None
    storage: StorageOptions
    max_batch_bytes: int

    @property
    def base_offset(self) -> int:
        return self.segments[0].base_offset

    @property
    def size(self) -> int:
        return sum(segment.log.size for segment in self.segments)


class CleanedWindow(NamedTuple):
    """What stays of a window, and what became of the rest."""

    region: Region
    batches: Batches
    read_batches: int
    copied: int
    skipped: int
    read_records: int
    written_records: int
    without_key: int
    tombstones: int


def clean_windows(job: Job, part: CompactPart) -> Iterator[CleanedWindow]:
    """What stays of each window of a part; each must be used before the next is asked for."""
    if part.cleaning is None:
        decoder = Decoder(Wanted.CONTROL, max_batch_bytes=part.max_batch_bytes, allocate=Reused())
        for _, window in _whole_windows(part):
            yield _copied(decoder, window, part.log_start)
        return
    cleaner = _cleaner(job, part.cleaning)
    decoder = make_decoder(part.max_batch_bytes)
    for segment, window in _whole_windows(part):
        yield _cleaned(cleaner, decoder, window, part.cleaning, segment)


def _whole_windows(part: CompactPart) -> Iterator[tuple[Segment, Window]]:
    for segment in part.segments:
        is_last = part.has_last and segment is part.segments[-1]
        whole = Slice(segment.log, part.name, 0, segment.log.size, is_last=is_last)
        with open_file(segment.log, part.storage) as file:
            for window in sound_windows(file, whole, part.max_batch_bytes):
                yield segment, window


def _copied(decoder: Decoder, window: Window, log_start: int) -> CleanedWindow:
    groups = decode_sound_groups(decoder, window.region, window.batches)
    rows = np.concatenate([decoded.rows for _, decoded in groups])
    kept = window.batches.last_offset >= log_start
    count, read, written = kept.size, int(rows.sum()), int(rows[kept].sum())
    copied = int(kept.sum())
    batches = take_batches(window.batches, kept)
    return CleanedWindow(window.region, batches, count, copied, count - copied, read, written, 0, 0)


def _cleaner(job: Job, told: Cleaning) -> Cleaner:
    facts = _read_facts(job, told.facts)
    packed = b""
    if told.survivors is not None:
        packed = read_bytes(staged_path(job, told.survivors), job.storage)
    return Cleaner(told.round, unpack_offsets(packed), facts.aborted, facts.producers, told.began)


def _read_facts(job: Job, name: str) -> Facts:
    return read_facts(read_bytes(staged_path(job, name), job.storage))


def _cleaned(
    cleaner: Cleaner, decoder: Decoder, window: Window, told: Cleaning, segment: Segment
) -> CleanedWindow:
    written, retention = clean_window(
        cleaner,
        decoder,
        window.region,
        window.batches,
        read_markers(window.region, window.batches),
        keeps_legacy_tombstones=segment.log.modified_ns // 1_000_000 > told.legacy_horizon,
    )
    region, batches = scanned(written.data, window.region.path)
    return CleanedWindow(
        region,
        batches,
        retention.outcome.size,
        int(np.count_nonzero(retention.outcome == Outcome.COPIED)),
        int(np.count_nonzero(retention.outcome == Outcome.DROPPED)),
        retention.keep.size,
        int(retention.kept.sum()),
        retention.without_key,
        retention.tombstones,
    )


def write_part(job: Job, part: CompactPart) -> FinishedPartition:
    """Stage the segment that a part becomes; it may be empty, as the cleaner's may.

    An empty last one is left to who knows where the log ends.
    """
    writer = LogWriter(job, part.directory, part.base_offset, _ONE_SEGMENT)
    counts = dict.fromkeys(("readBatches", "readRecords", "writtenBatches", "writtenRecords"), 0)
    counts |= dict.fromkeys(("copiedBatches", "skippedBatches"), 0)
    first = last = None
    for remains in clean_windows(job, part):
        counts["readBatches"] += remains.read_batches
        counts["readRecords"] += remains.read_records
        counts["writtenRecords"] += remains.written_records
        counts["writtenBatches"] += remains.batches.position.size
        counts["copiedBatches"] += remains.copied
        counts["skippedBatches"] += remains.skipped
        if remains.batches.position.size:
            first = int(first_offsets(remains.batches)[0]) if first is None else first
            last = int(remains.batches.last_offset[-1])
            writer.append(remains.region, remains.batches)
    files = writer.close()
    if not files and not part.has_last:
        files = stage_segment(job, part.directory, part.base_offset, b"")
    # Cleaner.cleanSegments: the time of the last segment, for retention and for old tombstones.
    modified_ms = part.segments[-1].log.modified_ns // 1_000_000
    for file in files:
        set_modified(staged_path(job, file.staged), modified_ms)
    row = account_row(
        part.name.topic,
        part.name.partition,
        readBytes=part.size,
        writtenBytes=sum(file.size for file in files if file.target.endswith(Kind.LOG)),
        firstOffset=first,
        lastOffset=last,
        **counts,
    )
    return FinishedPartition(files, row)


def count_part(job: Job, part: CompactPart) -> FinishedPartition:
    """Count what would stay of a part, and write nothing; or say what stops a cleaner in it."""
    row: Row = dict.fromkeys(
        ("readRecords", "keptRecords", "unkeyed", "tombstones", "keptBytes"), 0
    )
    row["stoppedBy"] = None
    try:
        for remains in clean_windows(job, part):
            row["readRecords"] += remains.read_records
            row["keptRecords"] += remains.written_records
            row["unkeyed"] += remains.without_key
            row["tombstones"] += remains.tombstones
            row["keptBytes"] += int(remains.batches.size.sum())
    except UNCLEANABLE as error:
        row["stoppedBy"] = str(error)
    return FinishedPartition([], row)


@dataclass(frozen=True, slots=True)
class CompactedLog:
    """A partition whose logs are staged; `facts` is a file under `staging`.

    `last_base` is that of its last segment, which is not there if nothing is left of it.
    """

    directory: str
    name: TopicPartition
    logs: tuple[StagedFile, ...]
    last_base: int
    extent: Extent
    facts: str

    @property
    def size(self) -> int:
        return sum(file.size for file in self.logs)


def close_log(job: Job, log: CompactedLog) -> FinishedPartition:
    """Stage what lies beside the logs of a partition.

    What the log ended with is as it was before: markers that said so may be gone.
    """
    facts = _read_facts(job, log.facts)
    beside = SideFiles(job, log.directory)
    bases = [int(posixpath.basename(file.target).removesuffix(Kind.LOG)) for file in log.logs]
    markers = facts.retained["last_offset"]
    next_offset, log_end = log.last_base, log.extent.log_end
    ends = [*bases[1:], INT64_MAX]
    for base, following, staged in zip(bases, ends[: len(bases)], log.logs, strict=True):
        if base != bases[0] and base != log_end:
            beside.stage_snapshot(base)
        with open_file(staged_path(job, staged.staged), job.storage) as file:
            for walked, its_markers in walk_markers(file):
                beside.follow(walked.batches, its_markers)
                if walked.batches.position.size:
                    next_offset = max(next_offset, int(walked.batches.last_offset[-1]) + 1)
        entries = facts.retained[(markers >= base) & (markers < following)]
        if entries.size:
            name = file_name(base, Kind.TRANSACTION_INDEX)
            beside.stage(name, write_transaction_index(entries))
    if log.last_base == log_end and log.last_base not in bases:  # the active segment was empty
        beside.files += stage_segment(job, log.directory, log_end, b"")
        bases.append(log_end)
    stage_extent(beside, log.extent, Staged(bases[0] if bases else None, next_offset))
    beside.stage(file_name(log_end, Kind.PRODUCER_SNAPSHOT), facts.snapshot)
    row = account_row(log.name.topic, log.name.partition)
    return FinishedPartition(beside.files, row | {"notes": beside.notes})
