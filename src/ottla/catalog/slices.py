"""Slices: whole batches of one segment, and tasks made of them by bytes or by offsets."""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import pyarrow as pa

from ottla.catalog.catalog import Catalog, list_catalog
from ottla.catalog.limits import resolve_bounds
from ottla.catalog.logs import Log, find_logs, require_live_topics
from ottla.catalog.positions import (
    find_batch_starts,
    find_log_end,
    find_newest_timestamp,
    find_start,
    find_stop,
)
from ottla.catalog.ranges import OffsetRange, split_ranges
from ottla.catalog.stable import Stable
from ottla.format.names import Kind, TopicPartition
from ottla.log.files.partition import Segment
from ottla.log.files.transaction_index import write_transaction_index
from ottla.log.read.bounds import EVERYTHING, Bounds
from ottla.log.read.windows import Ending
from ottla.options.read import ReadOptions
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions
from ottla.where.prune import asks_timestamp, may_hold_newest, narrow
from ottla.where.tree import Predicate, Where


@dataclass(frozen=True, slots=True)
class Slice:
    """The batches of a segment that begin in [start, stop), and which of their records to give.

    `aborted` holds transaction index entries: what a read_committed reader leaves out. The offset
    index is asked where the bytes are damaged. Only the last segment may end in half a batch.
    """

    log: Entry
    name: TopicPartition
    start: int
    stop: int
    bounds: Bounds = EVERYTHING
    aborted: bytes = b""
    index: Entry | None = None
    base_offset: int = 0
    is_last: bool = True

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def ending(self) -> Ending:
        """What may stand where the slice ends."""
        if self.stop < self.log.size:
            return Ending.CUT
        return Ending.LOG if self.is_last else Ending.SEGMENT


Task = tuple[Slice, ...]


class Cutting(NamedTuple):
    """How large tasks are: in bytes, or as the connector has it if their number or size is given.

    What surely holds no record that is as `where` says is in no task.
    """

    split_bytes: int
    min_partitions: int | None = None
    max_records: int | None = None
    where: Where | None = None


def cutting_of(options: ReadOptions) -> Cutting:
    """How a query wants its tasks."""
    most = options.max_records_per_partition
    return Cutting(options.split_bytes, options.min_partitions, most, options.where)


# What opening a file costs, in bytes that could be read instead (spark.sql.files.openCostInBytes,
# which is four times that): a small segment takes 0.7 ms, and 64 of them what a task costs Spark.
_OPEN_COST: Final = 1 << 20
_PACKING: Final = pa.Codec("zstd", 1)


def plan_tasks(options: ReadOptions) -> Iterator[Task]:
    """What a batch query reads, cut into tasks, one after another: all at once are gigabytes."""
    catalog = list_catalog(options.paths, options.storage)
    logs = choose_logs(catalog, options)
    bounds, stables = resolve_bounds(logs, options)
    yield from cut_tasks(logs, bounds, stables, cutting_of(options), options.storage)


class PackedTask(NamedTuple):
    """A task on its way to a worker: paths of segments say much the same, and are many."""

    size: int
    data: bytes


def pack_task(task: Task) -> PackedTask:
    """The task in as few bytes as may be."""
    data = pickle.dumps(task)
    return PackedTask(len(data), _PACKING.compress(data, asbytes=True))


def unpack_task(packed: PackedTask | None) -> Task:
    """The task that a planner packed; Spark makes one of None when there is nothing to read."""
    if packed is None:
        return ()
    data = _PACKING.decompress(packed.data, packed.size, asbytes=True)
    task: Task = pickle.loads(data)  # noqa: S301  of this query, from no file
    return task


def choose_logs(catalog: Catalog, options: ReadOptions) -> list[Log]:
    """The logs that a query reads; a topic that it names must be there."""
    require_live_topics(catalog, options.choice)
    return find_logs(catalog, options.choice, options.up_to)


def plan_slices(catalog: Catalog, options: ReadOptions) -> Iterator[Slice]:
    """The same in slices, in the order of logs and offsets; each log is asked when its turn comes.

    Who takes only the first rows does not wait for the rest.
    """
    for log in choose_logs(catalog, options):
        (bounds,), (stable,) = resolve_bounds([log], options)
        yield from cut_log(log, bounds, cutting_of(options), options.storage, stable)


def cut_tasks(
    logs: Sequence[Log],
    bounds: Sequence[Bounds],
    stables: Sequence[Stable | None],
    cutting: Cutting,
    storage: StorageOptions,
) -> Iterator[Task]:
    """Logs within their bounds as tasks: by bytes, or by offsets when their number is asked for."""
    if cutting.min_partitions is not None or cutting.max_records is not None:
        return _cut_by_offsets(logs, bounds, stables, cutting, storage)
    slices = (
        part
        for log, its_bounds, stable in zip(logs, bounds, stables, strict=True)
        for part in cut_log(log, its_bounds, cutting, storage, stable)
    )
    return _pack(slices, cutting.split_bytes)


def cut_log(
    log: Log,
    bounds: Bounds,
    cutting: Cutting,
    storage: StorageOptions,
    stable: Stable | None = None,
) -> Iterator[Slice]:
    """The slices of a log within bounds, each of at most about `split_bytes`."""
    every = cutting.split_bytes
    for segment, whole in _find_wanted(log, bounds, stable, cutting.where, storage):
        cuts = find_batch_starts(segment, every, storage) if whole.size > every else []
        yield from _cut(whole, cuts)


def _find_wanted(
    log: Log,
    bounds: Bounds,
    stable: Stable | None,
    where: Where | None,
    storage: StorageOptions,
) -> Iterator[tuple[Segment, Slice]]:
    """As `find_slices`, without what surely holds no record that is as `where` says."""
    narrowed = narrow(where, log.name, bounds)
    if narrowed is None:
        return
    for segment, whole in find_slices(log, narrowed, stable, storage):
        if isinstance(where, Predicate) and asks_timestamp(where) and not whole.is_last:
            newest = find_newest_timestamp(segment, storage)
            if newest is not None and not may_hold_newest(where, newest):
                continue
        yield segment, whole


def _pack(slices: Iterable[Slice], split_bytes: int) -> Iterator[Task]:
    """Tasks of about `split_bytes`: a task costs Spark more than a small segment costs to read."""
    cost = min(_OPEN_COST, split_bytes // 64)
    task: list[Slice] = []
    room = split_bytes + cost
    for part in slices:
        needed = part.size + cost
        if task and needed > room:
            yield tuple(task)
            task, room = [], split_bytes + cost
        task.append(part)
        room -= needed
    if task:
        yield tuple(task)


def find_slices(
    log: Log, bounds: Bounds, stable: Stable | None, storage: StorageOptions
) -> Iterator[tuple[Segment, Slice]]:
    """The part of each segment that can hold records within the bounds."""
    for number, segment in enumerate(log.partition.segments):
        following = log.partition.next_base_offset(number)
        start, stop = 0, segment.log.size
        if bounds.start is not None:
            if following is not None and following <= bounds.start:
                continue
            start = find_start(segment, bounds.start, storage)
        if bounds.stop is not None and (following is None or bounds.stop < following):
            if segment.base_offset >= bounds.stop:
                continue
            stop = find_stop(segment, bounds.stop, storage)
        if start < stop:
            aborted = b"" if stable is None else _touching(stable, segment, following)
            index = segment.side_files.get(Kind.OFFSET_INDEX)
            yield (
                segment,
                Slice(
                    segment.log,
                    log.name,
                    start,
                    stop,
                    bounds,
                    aborted,
                    index,
                    segment.base_offset,
                    is_last=following is None,
                ),
            )


def _touching(stable: Stable, segment: Segment, following: int | None) -> bytes:
    """The aborted transactions that have records in a segment."""
    touches = stable.aborted["last_offset"] >= segment.base_offset
    if following is not None:
        touches &= stable.aborted["first_offset"] < following
    return write_transaction_index(stable.aborted[touches])


def _cut(whole: Slice, positions: Sequence[int]) -> Iterator[Slice]:
    inside = [position for position in positions if whole.start < position < whole.stop]
    if not inside:
        yield whole
        return
    for start, stop in zip([whole.start, *inside], [*inside, whole.stop], strict=True):
        yield replace(whole, start=start, stop=stop)


def _cut_by_offsets(
    logs: Sequence[Log],
    bounds: Sequence[Bounds],
    stables: Sequence[Stable | None],
    cutting: Cutting,
    storage: StorageOptions,
) -> Iterator[Task]:
    """Tasks by the connector's rule on offset ranges, each moved to the next batch boundary.

    A task never mixes partitions; it may hold one batch more than `maxRecordsPerPartition` allows.
    """
    keys = [TopicPartition(log.partition.path, 0) for log in logs]  # every directory has one
    ranges = [
        _range(key, log, its_bounds, cutting.where, storage)
        for key, log, its_bounds in zip(keys, logs, bounds, strict=True)
    ]
    pieces = split_ranges(
        ranges, min_partitions=cutting.min_partitions, max_records=cutting.max_records
    )
    starts: dict[TopicPartition, list[int]] = {key: [] for key in keys}
    for piece in pieces:
        starts[piece.name].append(piece.start)
    for key, log, its_bounds, stable in zip(keys, logs, bounds, stables, strict=True):
        edges = starts[key][1:]
        yield from _cut_at(log, its_bounds, stable, cutting.where, edges, storage)


def _range(
    key: TopicPartition, log: Log, bounds: Bounds, where: Where | None, storage: StorageOptions
) -> OffsetRange:
    start = log.earliest if bounds.start is None else bounds.start
    stop = find_log_end(log.partition, storage) if bounds.stop is None else bounds.stop
    narrowed = narrow(where, log.name, Bounds(start, stop))
    if narrowed is None:
        return OffsetRange(key, start, start)
    stop = stop if narrowed.stop is None else narrowed.stop
    return OffsetRange(key, narrowed.start or start, stop)


def _cut_at(
    log: Log,
    bounds: Bounds,
    stable: Stable | None,
    where: Where | None,
    edges: Sequence[int],
    storage: StorageOptions,
) -> Iterator[Task]:
    task: list[Slice] = []
    segments = list(_find_wanted(log, bounds, stable, where, storage))
    for number, (segment, whole) in enumerate(segments):
        following = segments[number + 1][0].base_offset if number + 1 < len(segments) else None
        inside = [
            edge
            for edge in edges
            if edge >= segment.base_offset and (following is None or edge < following)
        ]
        positions = [find_start(segment, edge, storage) for edge in inside]
        if task and whole.start in positions:
            yield tuple(task)
            task = []
        parts = list(_cut(whole, sorted(set(positions))))
        for part in parts[:-1]:
            yield (*task, part)
            task = []
        task.append(parts[-1])
        if whole.stop in positions:
            yield tuple(task)
            task = []
    if task:
        yield tuple(task)
