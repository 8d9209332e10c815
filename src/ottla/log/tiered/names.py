"""Names of remote objects, as Aiven's plugin and Kafka's LocalTieredStorage give them.

Aiven: `PREFIX` + `topic-TOPICID/partition/OFFSET-SEGMENTID.log|indexes|rsm-manifest`. Kafka:
`topic-partition-TOPICID/OFFSET-SEGMENTID.log|index|timeindex|txnindex|snapshot` and
`.leader_epoch_checkpoint`. Ids have 22 characters and may hold dashes: names are cut from the end.
"""

import posixpath
import re
from enum import StrEnum
from typing import Final, NamedTuple

from ottla.format.names import TopicPartition, is_topic_name
from ottla.format.sentinels import INT32_MAX, INT64_MAX
from ottla.log.files.identity import is_uuid

MANIFEST_SUFFIX: Final = ".rsm-manifest"


class ObjectPart(StrEnum):
    """What an object holds, by the end of its name."""

    LOG = ".log"
    INDEXES = ".indexes"
    MANIFEST = MANIFEST_SUFFIX
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"
    LEADER_EPOCHS = ".leader_epoch_checkpoint"


class ObjectName(NamedTuple):
    """The segment that an object is of, and what of it."""

    start_offset: int
    segment_id: str
    part: ObjectPart


class Home(NamedTuple):
    """Whose segments a folder holds."""

    name: TopicPartition
    topic_id: str


_OBJECT: Final = re.compile(r"([0-9]{20})-([A-Za-z0-9_-]{22})(\.[a-z_-]+)")
_BEGINS: Final = re.compile(r"[0-9]{20}-")
_AIVEN: Final = re.compile(r"(.+)-([A-Za-z0-9_-]{22})/([0-9]{1,10})")
_KAFKA: Final = re.compile(r"(.+)-([0-9]{1,10})-([A-Za-z0-9_-]{22})")


def may_hold_objects(names: str) -> bool:
    """Whether a name among many may be that of a remote object: soon said where none is."""
    return _BEGINS.search(names) is not None


def parse_object_name(path: str) -> ObjectName | None:
    """What the name of a remote object says; None for any other file.

    >>> parse_object_name("t/0/00000000000000000042--_AAAAAAAAAAAAAAAAAAAA.log").segment_id
    '-_AAAAAAAAAAAAAAAAAAAA'
    """
    found = _OBJECT.fullmatch(posixpath.basename(path))
    if found is None or found[3] not in list(ObjectPart) or int(found[1]) > INT64_MAX:
        return None
    return ObjectName(int(found[1]), found[2], ObjectPart(found[3]))


def is_remote_log(path: str) -> bool:
    """Whether a file is the log of a remote segment, by its name."""
    found = parse_object_name(path)
    return found is not None and found.part is ObjectPart.LOG


def parse_aiven_home(folder: str) -> Home | None:
    """Whose segments lie in a folder, by its last two names. A prefix may be glued to the first.

    >>> parse_aiven_home("s3://b/tiered/my-topic--_AAAAAAAAAAAAAAAAAAAA/3").name
    TopicPartition(topic='my-topic', partition=3)
    """
    above, partition = posixpath.split(folder)
    found = _AIVEN.fullmatch(f"{posixpath.basename(above)}/{partition}")
    return None if found is None else _home(found[1], found[3], found[2])


def parse_kafka_home(folder: str) -> Home | None:
    """The same of LocalTieredStorage, by its last name.

    >>> parse_kafka_home("kafka-tiered-storage/a-b-3-AAAAAAAAAAAAAAAAAAAAAQ").name
    TopicPartition(topic='a-b', partition=3)
    """
    found = _KAFKA.fullmatch(posixpath.basename(folder))
    return None if found is None else _home(found[1], found[2], found[3])


def _home(topic: str, partition: str, topic_id: str) -> Home | None:
    if not (is_topic_name(topic) and is_uuid(topic_id) and int(partition) <= INT32_MAX):
        return None
    return Home(TopicPartition(topic, int(partition)), topic_id)
