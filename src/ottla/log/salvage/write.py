"""Write what salvage keeps as a clean partition directory, and the rest to the quarantine."""

import json
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from ottla.format.sentinels import INT32_MAX
from ottla.kernels.tables import Batches, Int64s, concat_batches, take_batches
from ottla.log.check.order import first_offsets
from ottla.log.files.partition import Partition
from ottla.log.salvage.plan import SegmentPlan
from ottla.log.write.extent import Extent, find_extent
from ottla.log.write.index_builder import SegmentConfig
from ottla.log.write.segment_writer import SegmentWriter, contiguous
from ottla.publish.journal import FinishedPartition, Job
from ottla.region import PADDING, Region
from ottla.storage.files import File, open_file, open_output, write_file
from ottla.storage.object_store import StorageOptions

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
    extent = find_extent(partition, log_start, _log_end(plans), options)
    directory = posixpath.basename(partition.path)
    writer = SegmentWriter(job, directory, extent.base_offset, _AS_IT_WAS)
    for plan in plans:
        with open_file(plan.segment.log, options) as file:
            if plan.kept.position.size:
                first = int(first_offsets(plan.kept)[0])
                writer.roll(min(max(plan.segment.base_offset, 0), first))
                for region, batches in _read_kept(file, plan.kept):
                    writer.append(region, batches)
            _quarantine(job, directory, file, plan)
    return FinishedPartition(writer.close_as(extent), _account(partition, plans, extent))


def _log_end(plans: Sequence[SegmentPlan]) -> int:
    """Behind the last batch that is kept, or where a later segment begins: so far the log went."""
    bases = [plan.segment.base_offset for plan in plans]
    lasts = [int(plan.kept.last_offset[-1]) for plan in plans if plan.kept.position.size]
    return max([0, *bases, *(last + 1 for last in lasts)])


def _read_kept(file: File, kept: Batches) -> Iterator[tuple[Region, Batches]]:
    """The kept batches with their bytes, some megabytes at a time."""
    ends = kept.position + kept.size
    row = 0
    while row < kept.position.size:
        begin = int(kept.position[row])
        stop = max(row + 1, int(np.searchsorted(ends, begin + _COPY_BYTES, side="right")))
        size = int(ends[stop - 1]) - begin
        data = np.zeros(size + PADDING, dtype=np.uint8)
        part = take_batches(kept, slice(row, stop))
        for start, end in contiguous(part, slice(0, stop - row)):
            file.read_into(data[start - begin :], start, end - start)
        yield Region(data, size, file.path, begin), part
        row = stop


def _quarantine(job: Job, directory: str, file: File, plan: SegmentPlan) -> None:
    """The bytes that were left out, one span after another, and a line for each span."""
    if not plan.quarantined:
        return
    name = posixpath.basename(file.path)
    with open_output(job.path("quarantine", directory, name), job.storage) as stream:
        for violation in plan.quarantined:
            position, left = violation.position, violation.size or 0
            while left:
                block = np.empty(min(left, _COPY_BYTES), dtype=np.uint8)
                count = file.read_into(block, position, block.size)
                stream.write(block[:count].data)
                position, left = position + block.size, left - block.size
    lines = [json.dumps(violation.as_row()) for violation in plan.quarantined]
    rows = "".join(f"{line}\n" for line in lines).encode()
    write_file(job.path("quarantine", directory, f"{name}.jsonl"), rows, job.storage)


def _account(partition: Partition, plans: Sequence[SegmentPlan], extent: Extent) -> dict[str, Any]:
    """The partition's row of the job's account."""
    kept = [plan.kept for plan in plans if plan.kept.position.size]
    left_out = [violation for plan in plans for violation in plan.quarantined]
    lasts = concat_batches(kept).last_offset
    firsts = first_offsets(concat_batches(kept))
    written = int(sum(table.size.sum() for table in kept))
    count = int(sum(table.size.size for table in kept))
    return {
        "topic": partition.name.topic if partition.name else None,
        "partition": partition.name.partition if partition.name else None,
        "readBytes": sum(plan.segment.log.size for plan in plans),
        "writtenBytes": written,
        "writtenBatches": count,
        "copiedBatches": count,
        "quarantinedBytes": sum(violation.size or 0 for violation in left_out),
        "lostOffsets": _count_lost(firsts, lasts, extent),
        "firstOffset": int(firsts[0]) if firsts.size else None,
        "lastOffset": int(lasts[-1]) if lasts.size else None,
        "violations": len(left_out),
    }


def _count_lost(firsts: Int64s, lasts: Int64s, extent: Extent) -> int:
    """Offsets of the log's own segments that are in no batch, those that were deleted apart."""
    start = max(extent.log_start, extent.base_offset)
    before = np.maximum(np.append(start, lasts + 1), start)
    after = np.maximum(np.append(firsts, extent.log_end), start)
    return int((after - before).sum())
