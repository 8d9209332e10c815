"""Which files to dump, and which part of each: files as they are named, or what lies below them."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.catalog.catalog import list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.catalog.positions import find_start, find_stop
from ottla.errors import OptionError, Term
from ottla.format.names import parse_file_name
from ottla.log.files.partition import Partition
from ottla.log.read.bounds import EVERYTHING, Bounds
from ottla.log.read.windows import Ending
from ottla.options.choice import EVERY_PARTITION, Choice
from ottla.options.offsets import NO_LIMITS, LimitPair
from ottla.storage.files import is_remote, local_path
from ottla.storage.object_store import StorageOptions


class DumpSource(NamedTuple):
    """A file; the bytes that hold the wanted offsets, to its end if `stop` is None."""

    path: str
    bounds: Bounds = EVERYTHING
    start: int = 0
    stop: int | None = None
    is_last: bool = True

    def ending(self, size: int) -> Ending:
        """What may stand where reading the file, of so many bytes, ends."""
        if self.stop is not None and self.stop < size:
            return Ending.CUT
        return Ending.LOG if self.is_last else Ending.SEGMENT


def find_sources(
    paths: Sequence[str], choice: Choice, limits: LimitPair, storage: StorageOptions
) -> Iterator[DumpSource]:
    """The files in order. One that is named by itself is not looked at before its turn."""
    if choice != EVERY_PARTITION or limits != NO_LIMITS:
        _refuse_snapshots(paths)
        yield from _chosen(ChosenLogs(list_catalog(paths, storage), choice, limits))
        return
    for path in paths:
        if _is_directory(path):
            yield from _chosen(ChosenLogs(list_catalog([path], storage)))
        else:
            yield DumpSource(path)


def _chosen(chosen: ChosenLogs) -> Iterator[DumpSource]:
    for partition in chosen.partitions:
        bounds = chosen.bounds_of(Log(partition))
        yield from _segments(partition, bounds, chosen.storage)


def _refuse_snapshots(paths: Iterable[str]) -> None:
    """The records of a KRaft snapshot have offsets of their own, and it is of no partition."""
    for path in paths:
        if path.endswith(".checkpoint"):
            raise OptionError(
                f"{path} is a snapshot: dump it without ",
                *(Term.TOPICS, ", ", Term.PARTITIONS, ", ", Term.START, " and ", Term.STOP),
            )


def _is_directory(path: str) -> bool:
    if is_remote(path):
        return parse_file_name(path.rpartition("/")[2]) is None
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
            yield DumpSource(segment.log.path, bounds, start, stop, is_last)
