"""The logs that options choose, and the offsets between which each is to be read."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.catalog.missing import no_topic
from ottla.catalog.positions import find_log_end, find_timestamp
from ottla.catalog.stable import Stable, find_stable
from ottla.errors import CorruptLogError, DataLossError, OptionError, Term
from ottla.format.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    UNNAMED,
    DirectoryState,
    TopicPartition,
)
from ottla.internal.records import INTERNAL_TOPICS
from ottla.log.files.checkpoints import read_offset_checkpoint
from ottla.log.files.partition import LogDirectory, Partition, read_log_directories
from ottla.log.read.bounds import Bounds
from ottla.options.offsets import Edge, Limit, Offsets, Subscription, Timestamp, Timestamps
from ottla.options.read import Isolation, NoMatch, ReadOptions, UpTo
from ottla.storage.files import read_bytes

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Log:
    """One partition to read.

    `log_start` is None where no checkpoint names it; `high_watermark` also where nobody asks.
    """

    partition: Partition
    log_start: int | None = None
    high_watermark: int | None = None

    @property
    def name(self) -> TopicPartition:
        return self.partition.name

    @property
    def earliest(self) -> int:
        """The first offset that a reader may see."""
        bases = [segment.base_offset for segment in self.partition.segments]
        return max(self.log_start or 0, bases[0] if bases else 0)


def report_loss(message: str, options: ReadOptions) -> None:
    """Raise, or go on with a warning (KafkaSourceProvider.FAIL_ON_DATA_LOSS_OPTION_KEY)."""
    if options.fail_on_data_loss:
        told = f"{message}. To read what is left, set "
        raise DataLossError(told, Term.FAIL_ON_DATA_LOSS, " to false")
    _LOGGER.warning("%s; going on with what is left, as the options say", message)


def find_logs(options: ReadOptions) -> list[Log]:
    """The partitions below the paths that the subscription chooses, each from one directory."""
    directories = read_log_directories(options.paths, options.storage)
    logs = [log for directory in directories for log in _logs_of(directory, options)]
    _refuse_replicas(logs)
    return logs


def require_topics(logs: Sequence[Log], options: ReadOptions) -> None:
    """Refuse a subscription to a topic that is not there, as a broker does."""
    chosen = options.subscription
    named = chosen.topics or frozenset(one.topic for one in chosen.assigned or ())
    missing = named - _topics(logs)
    if missing:  # an assignment may name only partitions that are not there of a topic that is
        missing -= _topics(find_logs(replace(options, subscription=Subscription(topics=missing))))
    if missing:
        there = _topics(find_logs(replace(options, subscription=Subscription())))
        raise no_topic(missing, there, options.paths)


def _topics(logs: Sequence[Log]) -> set[str]:
    return {log.name.topic for log in logs if log.name != UNNAMED}


def _logs_of(directory: LogDirectory, options: ReadOptions) -> list[Log]:
    starts = _log_starts(directory, options)
    # A broken file of watermarks must not stop a reader whom they do not limit.
    limited = options.up_to is UpTo.HIGH_WATERMARK
    watermarks = _checkpoint(directory, HIGH_WATERMARK_CHECKPOINT, options) if limited else {}
    logs = []
    for partition in directory.partitions:
        name = partition.name
        if name == UNNAMED:
            if partition.segments and options.subscription.takes_all:
                logs.append(Log(partition))
        elif partition.state is DirectoryState.LIVE and _is_wanted(name, options):
            logs.append(Log(partition, starts.get(name), watermarks.get(name)))
    return logs


def _is_wanted(name: TopicPartition, options: ReadOptions) -> bool:
    subscription = options.subscription
    if name.topic in INTERNAL_TOPICS and not subscription.names(name.topic):
        return False
    return subscription.selects(name)


def _log_starts(directory: LogDirectory, options: ReadOptions) -> Mapping[TopicPartition, int]:
    """Where the file is broken logs begin with their first segment (LogManager.loadLogs)."""
    try:
        return _checkpoint(directory, LOG_START_CHECKPOINT, options)
    except CorruptLogError as error:
        _LOGGER.warning("%s; logs are read from their first segment on", error)
        return {}


def _checkpoint(
    directory: LogDirectory, name: str, options: ReadOptions
) -> Mapping[TopicPartition, int]:
    entry = directory.files.get(name)
    if entry is None:
        return {}
    return read_offset_checkpoint(read_bytes(entry, options.storage), entry.path)


def _refuse_replicas(logs: Sequence[Log]) -> None:
    seen: dict[TopicPartition, str] = {}
    for log in logs:
        if log.name in seen:
            raise OptionError(
                f"{log.name} is in {seen[log.name]} and in {log.partition.path}: "
                "two replicas would give each record twice; load only one of them"
            )
        if log.name != UNNAMED:
            seen[log.name] = log.partition.path


def find_latest(log: Log, options: ReadOptions) -> int:
    """The end of what a reader may see: log end, high watermark, or last stable offset."""
    if options.isolation is Isolation.READ_COMMITTED:
        return find_stable(
            log.partition, watermark(log, options), options.storage
        ).last_stable_offset
    end = find_log_end(log.partition, options.storage)
    limit = watermark(log, options)
    return end if limit is None else min(end, limit)


def watermark(log: Log, options: ReadOptions) -> int | None:
    """The high watermark, if it is to limit the reading."""
    if options.up_to is UpTo.LOG_END:
        return None
    # A broker that has not written the checkpoint yet has replicated nothing it vouches for.
    return log.high_watermark if log.high_watermark is not None else log.earliest


def resolve_bounds(
    logs: Sequence[Log], options: ReadOptions
) -> tuple[list[Bounds], list[Stable | None]]:
    """From where to where each log is read, and what is stable of it if that matters.

    A limit that nobody set stays None: bytes are then read to their end whatever their offsets say.
    """
    check_named(logs, options.starting, "starting")
    check_named(logs, options.ending, "ending")
    bounds, stables = [], []
    for log in logs:
        stable = None
        limit = watermark(log, options)
        if options.isolation is Isolation.READ_COMMITTED:
            stable = find_stable(log.partition, limit, options.storage)
            limit = stable.last_stable_offset
        start = _resolve_start(log, options)
        stop = _resolve_stop(log, options)
        if stop is None or (limit is not None and limit < stop):
            stop = limit
        if start is not None and stop is not None and start > stop and limit != stop:
            name = log.partition.title
            raise OptionError(f"{name} would start at {start}, after its end at {stop}")
        bounds.append(Bounds(start, stop))
        stables.append(stable)
    return bounds, stables


def check_named(logs: Sequence[Log], limit: Limit | None, which: str) -> None:
    """A limit in JSON names exactly the partitions that are read, as the connector demands."""
    if not isinstance(limit, Offsets | Timestamps):
        return
    found = {log.name for log in logs} - {UNNAMED}
    odd = found ^ limit.by_partition.keys()
    if odd:
        raise OptionError(
            f"{which} offsets must name exactly the partitions that are read; the difference is "
            + ", ".join(sorted(map(str, odd)))
        )


def _resolve_start(log: Log, options: ReadOptions) -> int | None:
    limit = options.starting
    if isinstance(limit, Timestamp | Timestamps):
        found = resolve_timestamp(log, limit, options)
        return find_latest(log, options) if found is None else found
    if isinstance(limit, Offsets) and log.name != UNNAMED:
        wanted = limit.by_partition[log.name]
        if wanted >= 0:
            return _checked_start(log, wanted, options)
    return log.log_start


def resolve_timestamp(log: Log, limit: Timestamp | Timestamps, options: ReadOptions) -> int | None:
    """The first offset not older than the limit; None is the latest, if the strategy says so."""
    timestamp = _timestamp_of(log, limit)
    found = find_timestamp(log.partition, timestamp, options.storage)
    if found is not None:
        return max(found, log.earliest)
    if options.starting_no_match is NoMatch.ERROR:
        raise OptionError(
            f"no offset matched the starting timestamp {timestamp} in {log.partition.title}; ",
            Term.NO_MATCH,
            "=latest would start at its end",
        )
    return None


def _timestamp_of(log: Log, limit: Timestamp | Timestamps) -> int:
    if isinstance(limit, Timestamps) and log.name != UNNAMED:
        return limit.by_partition[log.name]
    if isinstance(limit, Timestamp):
        return limit.timestamp
    raise OptionError(f"no timestamp can name {log.partition.path}: it is no partition directory")


def _checked_start(log: Log, wanted: int, options: ReadOptions) -> int:
    name = log.partition.title
    if wanted < log.earliest:
        report_loss(f"{name} begins at offset {log.earliest}, after {wanted}", options)
        return log.earliest
    if log.partition.segments and wanted > log.partition.segments[-1].base_offset:
        end = find_log_end(log.partition, options.storage)
        if wanted > end:
            report_loss(f"{name} ends at offset {end}, before {wanted}", options)
    return wanted


def _resolve_stop(log: Log, options: ReadOptions) -> int | None:
    limit = options.ending
    if limit is None or isinstance(limit, Edge):
        return None
    if isinstance(limit, Timestamp | Timestamps):
        return find_timestamp(log.partition, _timestamp_of(log, limit), options.storage)
    if log.name == UNNAMED or limit.by_partition[log.name] < 0:
        return None
    wanted = limit.by_partition[log.name]
    if log.partition.segments and wanted > log.partition.segments[-1].base_offset:
        end = find_log_end(log.partition, options.storage)
        if wanted > end:
            report_loss(f"{log.name} ends at offset {end}, before {wanted}", options)
    return wanted
