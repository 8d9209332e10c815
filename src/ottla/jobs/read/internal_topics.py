"""Internal topics on disk: their partitions, read as the views of `ottla.internal` want them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.arrow.to_arrow import wanted_flags
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.catalog.logs import find_logs
from ottla.catalog.missing import no_logs
from ottla.errors import CorruptLogError, OptionError, Rule, Violation
from ottla.format.names import FileName, FileState, Kind
from ottla.internal.views import RECORD_COLUMNS, InternalView, time_columns
from ottla.jobs.read.records import MAX_TIMESTAMP
from ottla.kernels.tables import Wanted
from ottla.log.files.partition import Partition, find_partitions
from ottla.log.read.segment import Mode, corrupt_rows, read_records
from ottla.options.offsets import parse_subscribe
from ottla.options.read import ReadOptions
from ottla.storage.files import Entry, list_files, open_file
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """The partitions of an internal topic."""

    topic: str
    partitions: tuple[Partition, ...]
    storage: StorageOptions


class Contents(NamedTuple):
    """The rows of a view, and the text of each violation that was met on the way."""

    rows: pa.Table
    broken: list[str]


def read_current(topic: InternalTopic, view: InternalView) -> Contents:
    """What the records of all partitions add up to; broken batches are left out."""
    broken: list[str] = []
    tables = [
        view.current(_intact(read_partition(partition, topic.storage), broken))
        for partition in topic.partitions
    ]
    return Contents(pa.concat_tables([view.schema.empty_table(), *tables]), broken)


def read_view(partition: Partition, view: InternalView, options: ReadOptions) -> Iterator[Contents]:
    """The rows that one partition adds to a view, without those whose times do not fit.

    FAILFAST raises the first violation; only PERMISSIVE hands over what was broken, at the end.
    """
    broken: list[str] = []
    batches = read_partition(partition, options.storage, options.mode, options.max_batch_bytes)
    if options.mode is Mode.PERMISSIVE:
        batches = _intact(batches, broken)
    for rows in view.history(batches) if options.history else [view.current(batches)]:
        fits = _times_fit(rows)
        unfit = _describe_times(rows.filter(pc.invert(fits)), partition)
        if unfit and options.mode is Mode.FAILFAST:
            raise CorruptLogError(unfit[0])
        broken += map(str, unfit)
        yield Contents(rows.filter(fits), [])
    if options.mode is Mode.PERMISSIVE:
        yield Contents(view.schema.empty_table(), broken)


def _times_fit(rows: pa.Table) -> pa.ChunkedArray:
    """Which rows have no time that is too far from 1970 for microseconds."""
    fits = pa.chunked_array([pa.repeat(True, rows.num_rows)])
    for name in time_columns(rows.schema):
        for near in (
            pc.less_equal(rows[name], MAX_TIMESTAMP),
            pc.greater_equal(rows[name], -MAX_TIMESTAMP),
        ):
            fits = pc.and_(fits, pc.fill_null(near, True))
    return fits


def _describe_times(rows: pa.Table, partition: Partition) -> list[Violation]:
    """A violation for each row; its record's offset is all that is known of where it came from."""
    times = rows.select(["logOffset", *time_columns(rows.schema)])
    return [
        Violation(
            Rule.TIMESTAMP_RANGE,
            "a timestamp does not fit into microseconds",
            partition.path,
            position=0,
            offset=row.pop("logOffset"),
            found=", ".join(f"{name} {time}" for name, time in row.items()),
            expected=f"within {MAX_TIMESTAMP} ms of 1970",
        )
        for row in times.to_pylist()
    ]


def _intact(batches: Iterable[pa.RecordBatch], broken: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        corrupt = batch["_corrupt"]
        if corrupt.null_count == len(batch):
            yield batch
        else:
            broken.extend(corrupt.drop_null().to_pylist())
            yield batch.filter(pc.is_null(corrupt))


def find_internal_topic(
    paths: Sequence[str], topic: str, storage: StorageOptions = DEFAULT_OPTIONS
) -> InternalTopic:
    """The partitions of a topic below the paths, or files that are taken to be its records."""
    options = ReadOptions(tuple(paths), subscription=parse_subscribe(topic), storage=storage)
    partitions = [log.partition for log in find_logs(options)]
    if not partitions:
        found = find_partitions(paths, storage)
        partitions = [one for one in found if one.name is None and (one.segments or one.named)]
    if not find_partitions(paths, storage):
        raise no_logs(paths, storage)
    if not partitions:
        raise OptionError(
            f"there is no partition of {topic} in {', '.join(paths)}: name the log directory of a"
            " broker or controller that holds some, or a file of its records"
        )
    return InternalTopic(topic, tuple(partitions), storage)


def read_partition(
    partition: Partition,
    storage: StorageOptions = DEFAULT_OPTIONS,
    mode: Mode = Mode.PERMISSIVE,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """All records in order, control records too, and broken batches (`_corrupt`) as `mode` says.

    Where there is a metadata snapshot the newest comes first, and of the log what follows it.
    """
    snapshot = newest_snapshot(partition)
    first = 0
    if snapshot is not None:
        first = snapshot[0].offset
        yield from _read_file(snapshot[1], storage, mode, max_batch_bytes)
    for number, segment in enumerate(partition.segments):
        following = partition.next_base_offset(number)
        if following is not None and following <= first:
            continue
        for batch in _read_file(segment.log, storage, mode, max_batch_bytes):
            if first == 0 or batch.num_rows == 0:
                yield batch
            else:
                wanted = pc.fill_null(pc.greater_equal(batch["offset"], first), True)
                yield batch.filter(wanted)


def newest_snapshot(partition: Partition) -> tuple[FileName, Entry] | None:
    """The metadata snapshot with the highest end offset and epoch that was finished."""
    finished = [
        (name, entry)
        for name, entry in partition.named
        if name.kind is Kind.METADATA_SNAPSHOT and name.state is FileState.LIVE
    ]
    return max(finished, key=lambda pair: (pair[0].offset, pair[0].epoch or 0), default=None)


def _read_file(
    entry: Entry, storage: StorageOptions, mode: Mode, max_batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    wanted = wanted_flags(RECORD_COLUMNS) | Wanted.CONTROL
    with open_file(entry, storage) as file:
        yield from read_records(file, RECORD_COLUMNS, wanted, mode, max_batch_bytes)
    cut = _find_cut(entry, storage)
    if cut is not None and mode is Mode.FAILFAST:
        raise CorruptLogError(cut)
    if cut is not None and mode is Mode.PERMISSIVE:
        yield corrupt_rows([cut], RECORD_COLUMNS)


def _find_cut(entry: Entry, storage: StorageOptions) -> Violation | None:
    """A broker that truncates a log takes records away that the listing promised."""
    try:
        (now,) = list_files(entry.path, storage)
    except FileNotFoundError:
        return None  # deleted after it was read
    if now.size >= entry.size:
        return None
    return Violation(
        Rule.SLICE_COMPLETE,
        "the file shrank after it was listed",
        entry.path,
        now.size,
        found=f"{now.size} bytes",
        expected=f"{entry.size} bytes",
    )
