"""A partition at a glance: what its batch headers say, without reading records or CRCs."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ottla.batch.attributes import codec_ids
from ottla.errors import Rule, Violation
from ottla.format.attributes import CODEC_NAMES
from ottla.format.sentinels import NO_OFFSET
from ottla.kernels import status
from ottla.kernels.tables import Batches
from ottla.log.check.order import (
    LogState,
    SegmentRange,
    check_leader_epochs,
    check_offsets,
)
from ottla.log.check.side_files import (
    check_file_names,
    check_orphans,
    check_partition_metadata,
    check_swaps,
)
from ottla.log.files.partition import Partition, Segment
from ottla.log.read.walk import walk_file
from ottla.storage.files import File, open_remaining
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions


@dataclass(slots=True)
class Summary:
    """What was seen of a segment, or of all segments of a partition.

    `records` leaves out v0 and v1, which do not store how many a batch holds; nor does a compressed
    one say where it begins: then `first_offset` is None. Timestamps are the batches' greatest.
    """

    size: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    magics: set[int] = field(default_factory=set)
    codecs: set[str] = field(default_factory=set)
    problems: list[Violation] = field(default_factory=list)

    def see(self, batches: Batches) -> None:
        """Take more batches into account."""
        if not batches.position.size:
            return
        if self.batches == 0 and batches.base_offset[0] != NO_OFFSET:
            self.first_offset = int(batches.base_offset[0])
        self.batches += batches.position.size
        self.records += int(batches.count[batches.magic == 2].sum())
        self.last_offset = int(batches.last_offset[-1])
        self._see_times(batches)
        self.magics.update(np.unique(batches.magic).tolist())
        ids = np.unique(codec_ids(batches)).tolist()
        self.codecs.update(CODEC_NAMES.get(number, f"unknown-{number}") for number in ids)

    def _see_times(self, batches: Batches) -> None:
        known = batches.max_timestamp[batches.max_timestamp >= 0]
        if not known.size:
            return
        low, high = int(known.min()), int(known.max())
        self.first_timestamp = min(
            low, low if self.first_timestamp is None else self.first_timestamp
        )
        self.last_timestamp = max(
            high, high if self.last_timestamp is None else self.last_timestamp
        )


def summarize(
    partition: Partition, options: StorageOptions = DEFAULT_OPTIONS
) -> Iterator[tuple[Segment, Summary]]:
    """Each segment with its summary, in order."""
    state = LogState()
    for index, segment in enumerate(partition.segments):
        summary = Summary(size=segment.log.size)
        span = SegmentRange(
            segment.log.path, segment.base_offset, partition.next_base_offset(index)
        )
        with open_remaining(segment.log, options) as file:
            _walk(file, summary, state, span)
        yield segment, summary


def problems_beside(
    partition: Partition, options: StorageOptions = DEFAULT_OPTIONS
) -> Iterator[Violation]:
    """What is wrong with the files beside the logs, as far as they tell by themselves."""
    yield from check_file_names(partition)
    yield from check_swaps(partition)
    yield from check_orphans(partition, LogState(), 0, options)
    yield from check_partition_metadata(partition, options)


def _walk(file: File, summary: Summary, state: LogState, span: SegmentRange) -> None:
    for part in walk_file(file):
        summary.see(part.batches)
        summary.problems += check_offsets(state, part.batches, span)
        summary.problems += check_leader_epochs(state, part.batches, span.file)
        if part.status == status.TABLE_FULL or part.stop == file.size:
            continue
        cut = part.status == status.END
        detail = "the file ends inside a batch" if cut else "no valid batch begins here"
        rule = Rule.LOG_TAIL if cut else Rule.BYTES_ARE_BATCHES
        size = file.size - part.stop
        summary.problems.append(Violation(rule, detail, file.path, part.stop, size=size))


def combine(summaries: list[Summary]) -> Summary:
    """The summary of a partition from those of its segments, in order."""
    whole = Summary()
    for one in summaries:
        whole.size += one.size
        whole.batches += one.batches
        whole.records += one.records
        whole.magics |= one.magics
        whole.codecs |= one.codecs
        whole.problems += one.problems
    filled = [one for one in summaries if one.batches]
    if filled:
        whole.first_offset, whole.last_offset = filled[0].first_offset, filled[-1].last_offset
    lows = [one.first_timestamp for one in summaries if one.first_timestamp is not None]
    highs = [one.last_timestamp for one in summaries if one.last_timestamp is not None]
    whole.first_timestamp, whole.last_timestamp = min(lows, default=None), max(highs, default=None)
    return whole
