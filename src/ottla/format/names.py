"""Names of files and directories: what Kafka reads out of them and what it writes into them."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, cast

from ottla.format.sentinels import INT32_MAX, INT64_MAX

REMOTE_INDEX_CACHE: Final = (
    "remote-log-index-cache"  # the one folder a broker skips (RemoteIndexCache)
)

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
# What a broker keeps beside segments and their side files, in each kind of directory.
LOG_DIRECTORY_FILES: Final = frozenset(
    {
        CLEAN_SHUTDOWN,
        CLEANER_CHECKPOINT,
        HIGH_WATERMARK_CHECKPOINT,
        LOG_START_CHECKPOINT,
        META_PROPERTIES,
        RECOVERY_POINT_CHECKPOINT,
    }
)
PARTITION_FILES: Final = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA})


class Kind(StrEnum):
    """What a file named by an offset holds (LogFileUtils, Snapshots)."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    METADATA_SNAPSHOT = ".checkpoint"


INDEX_KINDS: Final = (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX)


class FileState(StrEnum):
    """What the broker was about to do with a file."""

    LIVE = ""
    DELETED = ".deleted"
    CLEANED = ".cleaned"
    SWAP = ".swap"
    PARTIAL = ".part"  # a metadata snapshot that was not finished


@dataclass(frozen=True, slots=True)
class FileName:
    """A file named by an offset; `epoch` only where the kind has one."""

    offset: int
    kind: Kind
    state: FileState = FileState.LIVE
    epoch: int | None = None


_METADATA_SNAPSHOT: Final = re.compile(
    r"([0-9]{20})-([0-9]{10})(?:-.*)?\.checkpoint(|\.deleted|\.part)"
)
_SEGMENT_FILE: Final = re.compile(
    r"([0-9]+)(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(|\.deleted|\.cleaned|\.swap)"
)
# By a dictionary: a million segments have four times as many files, and an Enum takes longer.
_KINDS: Final = {kind.value: kind for kind in Kind}
_STATES: Final = {state.value: state for state in FileState}


def parse_file_name(name: str) -> FileName | None:
    """What a file's name says, or None for a file that no offset names.

    >>> parse_file_name("00000000000000000042.log.swap")
    FileName(offset=42, kind=<Kind.LOG: '.log'>, state=<FileState.SWAP: '.swap'>, epoch=None)
    """
    found = _SEGMENT_FILE.fullmatch(name)
    if found:
        # LogFileUtils.offsetFromFileName parses what stands before the first dot, of any width.
        offset = int(found[1])
        kind, state = _KINDS[found[2]], _STATES[found[3]]
        return FileName(offset, kind, state) if offset <= INT64_MAX else None
    found = _METADATA_SNAPSHOT.fullmatch(name)
    if found and int(found[1]) <= INT64_MAX:
        state = FileState(found[3])
        return FileName(int(found[1]), Kind.METADATA_SNAPSHOT, state, int(found[2]))
    return None


def file_name(offset: int, kind: Kind, state: FileState = FileState.LIVE) -> str:
    """The name of a segment file.

    >>> file_name(42, Kind.TIME_INDEX)
    '00000000000000000042.timeindex'
    """
    return f"{offset:020d}{kind}{state}"


class DirectoryState(StrEnum):
    """What the broker was about to do with a partition directory."""

    LIVE = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"

    @property
    def word(self) -> str:
        """What rows call it."""
        return self.removeprefix("-") or "live"

    @property
    def mark(self) -> str:
        """What people see behind the name of a partition.

        >>> DirectoryState.FUTURE.mark, DirectoryState.LIVE.mark
        (' (future)', '')
        """
        return "" if self is DirectoryState.LIVE else f" ({self.word})"


class TopicPartition(NamedTuple):
    """The name of a partition.

    >>> str(TopicPartition("orders", 3))
    'orders-3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


# The name where no directory's name says whose records these are: null in columns, and in no
# checkpoint. The cast spares those a check who write logs: they are given none of this name.
UNNAMED: Final = TopicPartition(cast(str, None), cast(int, None))


def natural_order(topic: str | None, partition: int | None) -> tuple[str, int]:
    """What partitions are sorted by, wherever they are listed; those without a name are first.

    >>> sorted([("users", 10), ("users", 2)], key=lambda name: natural_order(*name))
    [('users', 2), ('users', 10)]
    """
    return topic or "", partition or 0


_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether Kafka takes this name for a topic (Topic.validate).

    >>> is_topic_name("orders.eu"), is_topic_name("a/b"), is_topic_name("..")
    (True, False, False)
    """
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


_MARKED_DIRECTORY: Final = re.compile(r"(\S+-\S+)\.\S+(-delete|-future|-stray)")
_PARTITION: Final = re.compile(r"(.+)-([0-9]+)", re.DOTALL)


def parse_directory_name(name: str) -> tuple[TopicPartition, DirectoryState]:
    """Whose directory it is and in which state; UNNAMED where a broker would refuse to start.

    LocalLog.parseTopicPartitionName: the partition is what follows the last dash, so that topics
    may hold dashes and dots; a name with a mark must have all of `topic-partition.id-mark`.

    >>> parse_directory_name("a-b.c-3")
    (TopicPartition(topic='a-b.c', partition=3), <DirectoryState.LIVE: ''>)
    """
    state = DirectoryState.LIVE
    if name.endswith((DirectoryState.DELETE, DirectoryState.FUTURE, DirectoryState.STRAY)):
        marked = _MARKED_DIRECTORY.fullmatch(name)
        if not marked:
            return UNNAMED, DirectoryState.LIVE
        state = DirectoryState(marked[2])
        name = name[: name.rindex(".")]
    found = _PARTITION.fullmatch(name)
    if not found or int(found[2]) > INT32_MAX:
        return UNNAMED, DirectoryState.LIVE
    return TopicPartition(found[1], int(found[2])), state
