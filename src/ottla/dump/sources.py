"""Which files to dump, and which part of each: files as they are named, or what lies below them."""

import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.catalog.catalog import Catalog, list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.catalog.positions import find_start, find_stop
from ottla.errors import OptionError, Term
from ottla.format.names import UNNAMED, Kind, TopicPartition, parse_file_name
from ottla.log.files.foreign import side_file
from ottla.log.files.partition import Partition, Segment
from ottla.log.read.bounds import EVERYTHING, Bounds
from ottla.log.read.windows import Ending
from ottla.log.tiered.names import is_remote_log
from ottla.options.choice import EVERY_PARTITION, Choice
from ottla.options.offsets import NO_LIMITS, LimitPair
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import is_remote, local_path
from ottla.where.tree import Predicate

STDIN: Final = "-"


class DumpSource(NamedTuple):
    """A file; the bytes that hold the wanted offsets, to its end if `stop` is None.

    Of remote storage it is a `segment`, which the name of the file does not tell.
    """

    path: str
    bounds: Bounds = EVERYTHING
    start: int = 0
    stop: int | None = None
    is_last: bool = True
    segment: Segment | None = None
    name: TopicPartition = UNNAMED

    def ending(self, size: int) -> Ending:
        """What may stand where reading the file, of so many bytes, ends."""
        if self.stop is not None and self.stop < size:
            return Ending.CUT
        return Ending.LOG if self.is_last else Ending.SEGMENT


def find_sources(
    paths: Sequence[str],
    choice: Choice,
    limits: LimitPair,
    storage: StorageOptions,
    where: Predicate | None = None,
    catalog: Catalog | None = None,
) -> Iterator[DumpSource]:
    """The files in order. One that is named by itself is not looked at before its turn.

    Of directories, what surely holds no record that is as `where` says is left out. Who has listed
    the paths already gives the `catalog`.
    """
    if catalog is not None or choice != EVERY_PARTITION or limits != NO_LIMITS:
        _refuse_others(paths)
        listed = list_catalog(paths, storage) if catalog is None else catalog
        yield from _chosen(ChosenLogs(listed, choice, limits), where)
        return
    for path in paths:
        if path != STDIN and (_is_directory(path) or is_remote_log(path)):
            yield from _chosen(ChosenLogs(list_catalog([path], storage)), where)
        else:
            yield DumpSource(path)


def _chosen(chosen: ChosenLogs, where: Predicate | None) -> Iterator[DumpSource]:
    for partition in chosen.partitions:
        bounds: Bounds | None = chosen.bounds_of(Log(partition))
        if where is not None and bounds is not None:
            from ottla.where.prune import narrow  # as in `lines.py`

            bounds = narrow(where, partition.name, bounds)
        if bounds is not None:
            yield from _segments(partition, bounds, chosen.storage)


def _refuse_others(paths: Iterable[str]) -> None:
    """What is no segment has no range of offsets; records of a KRaft snapshot count their own."""
    for path in paths:
        what = "stdin" if path == STDIN else side_file(posixpath.basename(path))
        if what is None and path.endswith(Kind.METADATA_SNAPSHOT):
            what = "a snapshot"
        if what is not None:
            raise OptionError(
                f"{path} is {what}: dump it without ",
                *(Term.TOPICS, ", ", Term.PARTITIONS, ", ", Term.START, " and ", Term.STOP),
            )


def _is_directory(path: str) -> bool:
    if is_remote(path):
        name = posixpath.basename(path)
        return parse_file_name(name) is None and side_file(name) is None
    return os.path.isdir(local_path(path))


def _segments(
    partition: Partition, bounds: Bounds, storage: StorageOptions
) -> Iterator[DumpSource]:
    for number, segment in enumerate(partition.segments):
        is_last = partition.next_base_offset(number) is None
        start, stop = 0, None
        if bounds.start is not None:
            start = find_start(segment, bounds.start, storage)
        if bounds.stop is not None:
            stop = find_stop(segment, bounds.stop, storage)
        if start < (segment.log.size if stop is None else stop) or bounds == EVERYTHING:
            source = DumpSource(segment.log.path, bounds, start, stop, is_last)
            if segment.log.kept is not None or is_remote_log(segment.log.path):
                source = source._replace(segment=segment, name=partition.name)
            yield source
