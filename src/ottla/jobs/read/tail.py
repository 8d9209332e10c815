"""Follow logs that grow: where a stream begins, how far it may go, and what lies between.

The same two positions always mean the same records: everything is read from the files again, and
an end that was once given out is checked before it is believed.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.catalog.catalog import list_catalog
from ottla.catalog.limits import (
    check_named,
    find_latest,
    find_place,
    find_time,
    report_loss,
    watermark,
)
from ottla.catalog.logs import Log, find_logs
from ottla.catalog.positions import find_log_end, find_offset_past
from ottla.catalog.ranges import OffsetRange, share_limit
from ottla.catalog.slices import Task, cut_tasks, cutting_of, find_slices
from ottla.catalog.stable import Stable, find_stable
from ottla.format.names import UNNAMED, TopicPartition
from ottla.log.read.bounds import Bounds
from ottla.log.read.mode import Isolation
from ottla.options.offsets import Edge, Offset, Timestamp
from ottla.options.read import ReadOptions
from ottla.storage.object_store import StorageOptions

Positions = dict[TopicPartition, int]
Logs = Mapping[TopicPartition, Log]

# A query that starts at the latest records must not resolve that twice: after a crash in its first
# batch the second answer would skip records. So it begins with a batch from LATEST to the end that
# was found, which is empty by definition.
LATEST: Final = Edge.LATEST.value


def list_logs(options: ReadOptions) -> dict[TopicPartition, Log]:
    """What is there now of what a query reads: its files, listed once for each of its questions."""
    catalog = list_catalog(options.paths, options.storage)
    logs = find_logs(catalog, options.choice, options.up_to)
    return {log.name: log for log in logs if log.name != UNNAMED}


def first_positions(logs: Logs, options: ReadOptions) -> Positions:
    """Where a new query begins: offsets, or LATEST."""
    check_named(list(logs.values()), options.starting, "starting")
    return {name: _first_position(log, options) for name, log in logs.items()}


def _first_position(log: Log, options: ReadOptions) -> int:
    place = find_place(log, options.starting)
    if isinstance(place, Timestamp):
        found = find_time(log, place, options.storage, options)
        return LATEST if found is None else found
    if isinstance(place, Offset):
        return place.offset
    return log.earliest if place is Edge.EARLIEST else LATEST


def last_positions(logs: Logs, options: ReadOptions) -> Positions:
    """Where each log ends now."""
    return {name: find_latest(log, options) for name, log in logs.items()}


def missing_ranges(
    logs: Logs, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """What lies between; a partition that is new begins at its first offset."""
    ranges = []
    for name, stop in end.items():
        first = start.get(name)
        if first is None:
            first = logs[name].earliest if name in logs else 0
        ranges.append(OffsetRange(name, stop if first == LATEST else first, stop))
    return ranges


def limit_offsets(ranges: Sequence[OffsetRange], limit: int) -> Positions:
    """The ends of the first `limit` offsets of the ranges."""
    return {part.name: part.stop for part in share_limit(ranges, limit)}


def limit_bytes(
    logs: Logs, ranges: Sequence[OffsetRange], limit: int, storage: StorageOptions
) -> Positions:
    """The ends of about the first `limit` bytes; every partition gives at least one batch."""
    sizes = {part.name: _bytes_of(logs.get(part.name), part, storage) for part in ranges}
    total = sum(sizes.values())
    if total <= limit:
        return {part.name: part.stop for part in ranges}
    ends = {}
    for part in ranges:
        share = limit * sizes[part.name] // total
        log = logs.get(part.name)
        ends[part.name] = part.stop if log is None else _end_after(log, part, share, storage)
    return ends


def _bytes_of(log: Log | None, part: OffsetRange, storage: StorageOptions) -> int:
    if log is None or part.span <= 0:
        return 0
    bounds = Bounds(part.start, part.stop)
    return sum(whole.size for _, whole in find_slices(log, bounds, None, storage))


def _end_after(log: Log, part: OffsetRange, size: int, storage: StorageOptions) -> int:
    bounds = Bounds(part.start, part.stop)
    for segment, whole in find_slices(log, bounds, None, storage):
        if size <= whole.size:
            end = find_offset_past(segment, whole.start, whole.start + size, storage)
            return part.stop if end is None else min(max(end, part.start), part.stop)
        size -= whole.size
    return part.stop


def plan_between(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], options: ReadOptions
) -> list[Task]:
    """The tasks that read from one position to another."""
    for name in sorted(start.keys() - end.keys()):
        report_loss(f"{name} was read before and is gone", options)
    found = list_logs(options)
    logs, bounds, stables = [], [], []
    for name in sorted(end):
        log = found.get(name)
        if log is None:
            report_loss(f"{name} is gone, and with it what was to be read", options)
            continue
        checked = _check_range(log, start.get(name), end[name], options)
        if checked is not None:
            logs.append(log)
            bounds.append(checked)
            stables.append(_stable(log, options))
    return [*cut_tasks(logs, bounds, stables, cutting_of(options), options.storage)]


def _check_range(log: Log, first: int | None, stop: int, options: ReadOptions) -> Bounds | None:
    """The bounds to read, after what has happened to the log since they were given out."""
    name = log.partition.title
    if first == LATEST:
        return None
    if first is None:
        first = log.earliest
        if first > 0:
            report_loss(f"{name} is new and begins at offset {first}, not at 0", options)
    if stop < first:
        report_loss(f"{name} ends at offset {stop} and was read up to {first} before", options)
        return None
    if first == stop:
        return None
    if first < log.earliest:
        report_loss(f"{name} begins at offset {log.earliest}, after {first}", options)
        first = min(log.earliest, stop)
    end = find_log_end(log.partition, options.storage)
    if end < stop:
        report_loss(f"{name} was truncated to offset {end}, before {stop}", options)
    return Bounds(first, stop)


def _stable(log: Log, options: ReadOptions) -> Stable | None:
    if options.isolation is not Isolation.READ_COMMITTED:
        return None
    return find_stable(log.partition, watermark(log, options), options.storage)
