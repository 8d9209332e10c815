"""Internal topics on disk: their partitions, read as the views of `ottla.internal` want them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.arrow.to_arrow import wanted_flags
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.catalog.catalog import Catalog
from ottla.catalog.logs import find_logs, live_logs
from ottla.catalog.missing import no_logs
from ottla.connector import EXPECTED_TIMESTAMP, times_fit
from ottla.errors import OptionError, Rule, Violation, require_sound
from ottla.format.names import UNNAMED, DirectoryState, FileName, FileState, Kind
from ottla.internal.records import REMOTE_LOG_METADATA
from ottla.internal.views import RECORD_COLUMNS, InternalView, time_columns
from ottla.kernels.tables import Wanted
from ottla.log.files.partition import Partition, topic_id_of
from ottla.log.read.bounds import Bounds
from ottla.log.read.index_entries import entries_of
from ottla.log.read.records import (
    Mode,
    Reading,
    RecordRequest,
    choose_batches,
    name_violations,
    obey,
    read_records,
    to_batches,
)
from ottla.log.read.windows import Ending, read_windows
from ottla.log.tiered.states import Ranges, find_ranges
from ottla.log.write.extent import remote_offsets
from ottla.options.choice import Choice
from ottla.options.read import ReadOptions
from ottla.storage.files import open_remaining
from ottla.storage.listing import Entry, list_files
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions

_WANTED: Final = wanted_flags(RECORD_COLUMNS) | Wanted.CONTROL


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """The partitions of an internal topic."""

    topic: str
    partitions: tuple[Partition, ...]
    storage: StorageOptions


@dataclass(frozen=True, slots=True)
class _TopicFile:
    """A file of records: a segment with its index, or a metadata snapshot, which has none."""

    entry: Entry
    storage: StorageOptions
    ending: Ending = Ending.SEGMENT
    index: Entry | None = None
    base_offset: int = 0


class Contents(NamedTuple):
    """The rows of a view, and the text of each violation that was met on the way."""

    rows: pa.Table
    broken: list[str]


def read_current(topic: InternalTopic, view: InternalView) -> Contents:
    """What the records of all partitions add up to; broken batches are left out."""
    broken: list[str] = []
    tables = [
        view.current(_sound(_read(partition, topic.storage), broken))
        for partition in topic.partitions
    ]
    return Contents(pa.concat_tables([view.schema.empty_table(), *tables]), broken)


def read_view(partition: Partition, view: InternalView, options: ReadOptions) -> Iterator[Contents]:
    """The rows that one partition adds to a view, without those whose times do not fit.

    FAILFAST raises the first violation; only PERMISSIVE hands over what was broken, at the end.
    """
    broken: list[str] = []
    readings = obey(options.mode, _read(partition, options.storage, options.max_batch_bytes))
    batches = _sound(readings, broken)
    for rows in view.history(batches) if options.history else [view.current(batches)]:
        fits = times_fit(rows, time_columns(rows.schema))
        unfit = _describe_times(rows.filter(pc.invert(fits)), partition)
        if options.mode is Mode.FAILFAST:
            require_sound(unfit)
        broken += map(str, unfit)
        yield Contents(rows.filter(fits), [])
    if options.mode is Mode.PERMISSIVE:
        yield Contents(view.schema.empty_table(), broken)


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
            expected=EXPECTED_TIMESTAMP,
        )
        for row in times.to_pylist()
    ]


def _sound(readings: Iterable[Reading], broken: list[str]) -> Iterator[pa.RecordBatch]:
    """The records; what was left out of them is added to `broken`."""
    for reading in readings:
        broken += map(str, reading.violations)
        records = reading.to_arrow(RECORD_COLUMNS)
        if records is not None:
            yield records


def find_internal_topic(catalog: Catalog, topic: str) -> InternalTopic:
    """The partitions of a topic, or files that are taken to be its records."""
    found = catalog.partitions
    if not found:
        raise no_logs(catalog.paths, catalog.storage)
    partitions = [log.partition for log in find_logs(catalog, Choice(topics=(topic,)))]
    if not partitions:
        partitions = [one for one in found if one.name == UNNAMED and (one.segments or one.named)]
    if not partitions:
        raise OptionError(
            f"there is no partition of {topic} in {', '.join(catalog.paths)}: name the log"
            " directory of a broker or controller that holds some, or a file of its records"
        )
    return InternalTopic(topic, tuple(partitions), catalog.storage)


def remote_ranges(catalog: Catalog) -> Ranges:
    """The first and the last offset that remote storage has, by topic id and partition.

    As its own metadata says; else a log that starts before its first segment has the rest there.
    """
    found: Ranges = {}
    for log in live_logs(catalog):
        remote = remote_offsets(log.partition, log.log_start)
        topic_id = topic_id_of(log.partition, catalog.storage) if remote else None
        if topic_id is not None:
            found[topic_id, log.name.partition] = remote.start, remote.stop - 1
    return found | ranges_of_metadata(catalog)


def ranges_of_metadata(catalog: Catalog) -> Ranges:
    """What the metadata of remote storage says, where it is among the logs."""
    found = (each for each in catalog.partitions if each.state is DirectoryState.LIVE)
    metadata = [each for each in found if each.name.topic == REMOTE_LOG_METADATA]
    return find_ranges(metadata, catalog.storage)


def read_partition(
    partition: Partition,
    storage: StorageOptions = DEFAULT_OPTIONS,
    mode: Mode = Mode.PERMISSIVE,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """All records in order, control records too, and broken batches (`_corrupt`) as `mode` says.

    Where there is a metadata snapshot the newest comes first, and of the log what follows it.
    """
    return to_batches(_read(partition, storage, max_batch_bytes), RECORD_COLUMNS, mode)


def _read(
    partition: Partition,
    storage: StorageOptions,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[Reading]:
    wanted = RecordRequest(_WANTED, name=partition.name, max_batch_bytes=max_batch_bytes)
    snapshot = newest_snapshot(partition)
    if snapshot is not None:
        yield from _read_file(_TopicFile(snapshot[1], storage), wanted)
        wanted = replace(wanted, bounds=Bounds(start=snapshot[0].offset))
    for number, segment in enumerate(partition.segments):
        following = partition.next_base_offset(number)
        if following is not None and following <= (wanted.bounds.start or 0):
            continue
        ending = Ending.LOG if following is None else Ending.SEGMENT
        index = segment.side_files.get(Kind.OFFSET_INDEX)
        source = _TopicFile(segment.log, storage, ending, index, segment.base_offset)
        yield from _read_file(source, wanted)


def newest_snapshot(partition: Partition) -> tuple[FileName, Entry] | None:
    """The metadata snapshot with the highest end offset and epoch that was finished."""
    finished = [
        (name, entry)
        for name, entry in partition.named
        if name.kind is Kind.METADATA_SNAPSHOT and name.state is FileState.LIVE
    ]
    return max(finished, key=lambda pair: (pair[0].offset, pair[0].epoch or 0), default=None)


def _read_file(source: _TopicFile, wanted: RecordRequest) -> Iterator[Reading]:
    with open_remaining(source.entry, source.storage) as file:
        find_next = entries_of(file, source.index, source.base_offset, source.storage)
        windows = read_windows(
            file,
            ending=source.ending,
            find_next=find_next,
            max_batch_bytes=wanted.max_batch_bytes,
        )
        yield from read_records(choose_batches(windows, wanted.bounds, None), wanted)
    cut = _find_cut(source.entry, source.storage)
    if cut is not None:
        yield Reading(violations=name_violations([cut], wanted.name))


def _find_cut(entry: Entry, storage: StorageOptions) -> Violation | None:
    """A broker that truncates a log takes records away that the listing promised."""
    if entry.kept is not None:
        return None  # its size is not that of the object; what is lost of it was said
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
