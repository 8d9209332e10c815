"""Which logs a job is about, and from where to where: the flags that all commands share."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ottla.catalog.logs import Log, find_logs
from ottla.catalog.missing import listed, no_logs, no_topic
from ottla.catalog.positions import find_log_end, find_timestamp
from ottla.catalog.slices import Slice, cut_tasks
from ottla.catalog.stable import Stable
from ottla.errors import OptionError
from ottla.format.names import UNNAMED, DirectoryState
from ottla.internal.records import INTERNAL_TOPICS
from ottla.log.files.partition import Partition, find_partitions
from ottla.log.read.bounds import Bounds
from ottla.options.offsets import Subscription
from ottla.options.read import ReadOptions
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions

_NUMBER: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in every log: an offset, or the first record that is not older than a timestamp."""

    offset: int | None = None
    timestamp: int | None = None

    def __str__(self) -> str:
        return str(self.offset) if self.timestamp is None else f"@{self.timestamp}"


def parse_moment(text: str) -> Moment:
    """
    >>> parse_moment("120"), parse_moment("@1700000000000")
    (Moment(offset=120, timestamp=None), Moment(offset=None, timestamp=1700000000000))
    >>> parse_moment("@2023-11-14T22:13:20Z")
    Moment(offset=None, timestamp=1700000000000)
    """
    if _NUMBER.fullmatch(text):
        return Moment(offset=int(text))
    if text.startswith("@") and _NUMBER.fullmatch(text[1:]):
        return Moment(timestamp=int(text[1:]))
    try:
        time = datetime.fromisoformat(text.removeprefix("@"))
    except ValueError:
        time = None
    if time is None or not text.startswith("@"):
        raise OptionError(
            f"{text!r} is no offset, and no @ with milliseconds or a time such as"
            " @2025-10-09T08:53:20Z"
        )
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return Moment(timestamp=round(time.timestamp() * 1000))


@dataclass(frozen=True, slots=True)
class Selection:
    """Empty tuples choose everything."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    start: Moment | None = None
    stop: Moment | None = None
    storage: StorageOptions = DEFAULT_OPTIONS

    def chooses(self, partition: Partition) -> bool:
        """Whether a partition is asked for; one without a name is, when nothing else is named."""
        if partition.name == UNNAMED:
            return not self.topics and not self.partitions
        return (not self.topics or partition.name.topic in self.topics) and (
            not self.partitions or partition.name.partition in self.partitions
        )


def choose_partitions(selection: Selection) -> list[Partition]:
    """The partitions that are asked for, in any state; at least one."""
    found = find_partitions(selection.paths, selection.storage)
    require_chosen(selection, found)
    return [partition for partition in found if selection.chooses(partition)]


def require_chosen(selection: Selection, found: Sequence[Partition]) -> None:
    """Refuse a selection of nothing, or of a topic that is not there."""
    if not found:
        raise no_logs(selection.paths, selection.storage)
    names = {partition.name for partition in found} - {UNNAMED}
    topics = {name.topic for name in names}
    if missing := set(selection.topics) - topics:
        raise no_topic(missing, topics, selection.paths)
    if not any(selection.chooses(partition) for partition in found):
        raise OptionError(
            f"no such partition in {', '.join(selection.paths)};"
            f" there are {listed({str(name) for name in names})}"
        )


def choose_logs(selection: Selection, *, with_internal: bool = True) -> list[Log]:
    """The live logs that are asked for, each from one directory that names its partition."""
    names = frozenset(
        partition.name
        for partition in choose_partitions(selection)
        if partition.name != UNNAMED and partition.state is DirectoryState.LIVE
    )
    if not with_internal:
        named = frozenset(selection.topics)
        names = frozenset(each for each in names if each.topic not in INTERNAL_TOPICS - named)
    if not names:
        raise OptionError(
            f"{', '.join(selection.paths)}: no directory here is named topic-partition, so that"
            " nothing tells whose records these are; name the partition's folder or its log"
            " directory, or put the files into a folder such as orders-0"
        )
    return find_logs(
        ReadOptions(
            selection.paths,
            subscription=Subscription(assigned=names),
            storage=selection.storage,
        )
    )


def resolve_selection(log: Log, selection: Selection) -> Bounds:
    """The offsets of a log that are asked for; what was deleted below its start stays deleted."""
    start = log.log_start
    if selection.start is not None:
        start = max(_resolve_start(log, selection.start, selection.storage), start or 0)
    stop = None
    if selection.stop is not None:
        stop = selection.stop.offset
        if selection.stop.timestamp is not None:
            stop = find_timestamp(log.partition, selection.stop.timestamp, selection.storage)
    return Bounds(start, stop)


def _resolve_start(log: Log, moment: Moment, storage: StorageOptions) -> int:
    if moment.timestamp is None:
        return moment.offset or 0
    found = find_timestamp(log.partition, moment.timestamp, storage)
    return find_log_end(log.partition, storage) if found is None else found


def cut_log(
    log: Log,
    bounds: Bounds,
    split_bytes: int,
    storage: StorageOptions,
    stable: Stable | None = None,
) -> Iterator[Slice]:
    """The slices of a log within bounds, each of at most about `split_bytes`."""
    options = ReadOptions((), split_bytes=split_bytes, storage=storage)
    for task in cut_tasks([log], [bounds], [stable], options):
        yield from task


def parse_pairs(texts: Sequence[str], form: str) -> dict[str, str]:
    """
    >>> parse_pairs(["orders=orders-copy"], "TOPIC=NEW")
    {'orders': 'orders-copy'}
    """
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise OptionError(f"{text!r} is not {form}")
        pairs[name] = value
    return pairs
