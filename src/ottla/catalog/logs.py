"""Logs: partitions with what the checkpoints of their log directory say of them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.catalog.catalog import Catalog
from ottla.catalog.missing import require_topics
from ottla.errors import CorruptLogError, OptionError
from ottla.format.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    UNNAMED,
    DirectoryState,
    TopicPartition,
)
from ottla.log.files.partition import LogDirectory, Partition, read_checkpoint
from ottla.options.choice import Choice
from ottla.options.read import UpTo
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Log:
    """One partition to read.

    `log_start` is None where no checkpoint names it; `high_watermark` also where nobody asks.
    `beside` are the checkpoints and other files of its log directory.
    """

    partition: Partition
    log_start: int | None = None
    high_watermark: int | None = None
    beside: tuple[Entry, ...] = ()

    @property
    def name(self) -> TopicPartition:
        return self.partition.name

    @property
    def earliest(self) -> int:
        """The first offset that a reader may see."""
        first = self.partition.segments[:1]
        return max(self.log_start or 0, first[0].base_offset if first else 0)


def live_logs(catalog: Catalog, up_to: UpTo = UpTo.LOG_END) -> list[Log]:
    """Every partition of a catalog that is not being deleted, moved or left behind."""
    return [
        log
        for directory in catalog.directories
        for log in _logs_of(directory, up_to, catalog.storage)
    ]


def _logs_of(directory: LogDirectory, up_to: UpTo, storage: StorageOptions) -> list[Log]:
    starts = _log_starts(directory, storage)
    watermarks: Mapping[TopicPartition, int] = {}
    # A broken file of watermarks must not stop a reader whom they do not limit.
    if up_to is UpTo.HIGH_WATERMARK:
        watermarks = read_checkpoint(directory, HIGH_WATERMARK_CHECKPOINT, storage)
    beside = tuple(directory.files.values())
    return [
        Log(partition, starts.get(partition.name), watermarks.get(partition.name), beside)
        for partition in directory.partitions
        if partition.state is DirectoryState.LIVE
    ]


def _log_starts(directory: LogDirectory, storage: StorageOptions) -> Mapping[TopicPartition, int]:
    """Where the file is broken logs begin with their first segment (LogManager.loadLogs)."""
    try:
        return read_checkpoint(directory, LOG_START_CHECKPOINT, storage)
    except CorruptLogError as error:
        _LOGGER.warning("%s; logs are read from their first segment on", error)
        return {}


def find_logs(catalog: Catalog, choice: Choice, up_to: UpTo = UpTo.LOG_END) -> list[Log]:
    """The logs that a reader gets: each of one directory, internal topics only if they are named.

    Segments whose directory names no partition are among them where nothing is chosen.
    """
    logs = [
        log
        for log in live_logs(catalog, up_to)
        if choice.chooses_for_users(log.name) and (log.name != UNNAMED or log.partition.segments)
    ]
    refuse_replicas(logs)
    return logs


def require_live_topics(catalog: Catalog, choice: Choice) -> None:
    """Refuse a choice of a topic that is not there, as a broker does."""
    live = [each for each in catalog.partitions if each.state is DirectoryState.LIVE]
    there = {partition.name.topic for partition in live if partition.name != UNNAMED}
    require_topics(choice, there, catalog.paths)


def refuse_replicas(logs: Sequence[Log]) -> None:
    """Refuse two directories of one partition."""
    seen: dict[TopicPartition, str] = {}
    for log in logs:
        if log.name in seen:
            raise OptionError(
                f"{log.name} is in {seen[log.name]} and in {log.partition.path}: "
                "two replicas would give each record twice; load only one of them"
            )
        if log.name != UNNAMED:
            seen[log.name] = log.partition.path
