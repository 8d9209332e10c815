"""The metadata of the new cluster: ids, replicas, and the records of its first snapshot."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.errors import OptionError
from ottla.format.names import TopicPartition
from ottla.internal.image import (
    CLEANUP_POLICY,
    METADATA_VERSION,
    REMOTE_STORAGE,
    TOPIC_RESOURCE,
    Data,
    Image,
    policies_of,
)
from ottla.internal.records import COMPACTED_TOPICS, COORDINATOR_TOPICS
from ottla.internal.snapshot import SnapshotRecord
from ottla.jobs.clone.backup import Backup, TopicSource
from ottla.jobs.clone.request import (
    METADATA_VERSIONS,
    CloneRequest,
    Keep,
    Retention,
    metadata_version_name,
)
from ottla.log.files.identity import is_uuid
from ottla.options.texts import counted

_BROKER, _CLIENT_METRICS, _GROUP = 4, 16, 32  # ConfigResource.Type
_DEFAULT_LEVEL: Final = METADATA_VERSIONS["4.0-IV3"]
_DIRECTORIES_FROM: Final = METADATA_VERSIONS["3.7-IV2"]
_ELR_FROM: Final = METADATA_VERSIONS["4.0-IV1"]
# What a new cluster of 4.0 has besides its metadata version (Feature).
_DEFAULT_FEATURES: Final = {"group.version": 1, "transaction.version": 2}
_OWN_VERSIONS: Final = (METADATA_VERSION, "kraft.version")  # a static quorum has 0 of the latter
_PRODUCER_ID_BLOCK: Final = 1000  # ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE
_NO_EPOCH: Final = -1
_KEPT_RECORDS: Final = {
    "CLIENT_QUOTA_RECORD": Keep.QUOTAS,
    "ACCESS_CONTROL_ENTRY_RECORD": Keep.ACLS,
    "USER_SCRAM_CREDENTIAL_RECORD": Keep.SCRAM,
    "DELEGATION_TOKEN_RECORD": Keep.TOKENS,
}
# The first metadata versions that know such records (MetadataVersion.is...Supported).
_KEPT_FROM: Final = {
    Keep.SCRAM: METADATA_VERSIONS["3.5-IV2"],
    Keep.TOKENS: METADATA_VERSIONS["3.6-IV2"],
}
_LEAST_IN_SYNC: Final = "min.insync.replicas"
_SEGMENT_BYTES: Final = "segment.bytes"
_LEAST_SEGMENT_BYTES: Final = 1 << 20
_MOST_DIGITS: Final = 20  # of a number in a config
_MAX_PRODUCER_ID: Final = 2**63 - 1
_UNLIMITED: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
_REMOTE: Final = (REMOTE_STORAGE, "local.retention.ms", "local.retention.bytes")


class NewNode(NamedTuple):
    """A node of the clone, and the id of its one log directory."""

    node_id: int
    directory_id: str
    client_port: int
    controller_port: int

    @property
    def folder(self) -> str:
        return f"node-{self.node_id}"

    @property
    def data(self) -> str:
        return f"{self.folder}/data"


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic with the id that it has in the clone, and the nodes of each partition."""

    source: TopicSource
    topic_id: str
    configs: Mapping[str, str]
    replicas: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class NewCluster:
    """The clone, but for what only its logs tell."""

    cluster_id: str
    nodes: tuple[NewNode, ...]
    topics: tuple[NewTopic, ...]
    level: int
    features: Mapping[str, int]
    told: tuple[str, ...]

    def node(self, node_id: int) -> NewNode:
        """The node of this id."""
        return next(each for each in self.nodes if each.node_id == node_id)


class LogStanding(NamedTuple):
    """The last leader epoch of a log and the offset after its last batch."""

    epoch: int
    end: int


EMPTY_LOG: Final = LogStanding(_NO_EPOCH, 0)


def plan_cluster(backup: Backup, request: CloneRequest, seed: str) -> NewCluster:
    """Give everything its id; the same seed gives the same, so that a second run can go on."""
    nodes = tuple(
        NewNode(node, _new_id(seed, "directory", node), request.port + 2 * at, at_controller)
        for at, node in enumerate(request.node_ids)
        for at_controller in [request.port + 2 * at + 1]
    )
    told: list[str] = []
    topics = []
    placed = 0
    for source in backup.topics:
        configs = _configs(source, request, told)
        topic_id = source.topic_id or _new_id(seed, "topic", source.name)
        replicas = tuple(
            _replicas(request.node_ids, request.replicas, placed + number)
            for number in range(source.count)
        )
        placed += source.count
        topics.append(NewTopic(source, topic_id, configs, replicas))
    own = _feature_levels(backup.image)
    level = request.metadata_version or own.get(METADATA_VERSION) or _DEFAULT_LEVEL
    features = _features(level, own, told)
    _require_known(level, backup.image, request)
    _tell_retention(topics, request, told)
    _tell_dropped(backup.image, request, told)
    cluster_id = request.cluster_id or _new_id(seed, "cluster")
    return NewCluster(cluster_id, nodes, tuple(topics), level, features, tuple(told))


def _new_id(seed: str, *names: object) -> str:
    """An id that depends on nothing else; as Kafka's it does not begin with a dash."""
    text = "/".join(map(str, (seed, *names)))
    while True:
        digest = hashlib.sha256(text.encode()).digest()[:16]
        found = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if is_uuid(found) and not found.startswith("-"):
            return found
        text += "/"


def _replicas(node_ids: Sequence[int], count: int, at: int) -> tuple[int, ...]:
    """Nodes in turn, so that leaders are spread too.

    >>> [_replicas((1, 2, 3), 2, at) for at in range(3)]
    [(1, 2), (2, 3), (3, 1)]
    """
    return tuple(node_ids[(at + step) % len(node_ids)] for step in range(count))


def _configs(source: TopicSource, request: CloneRequest, told: list[str]) -> dict[str, str]:
    configs = dict(source.configs)
    if source.old_name in COORDINATOR_TOPICS:
        policy = "compact" if source.old_name in COMPACTED_TOPICS else "delete"
        configs.setdefault(CLEANUP_POLICY, policy)
    dropped = [name for name in _REMOTE if configs.pop(name, None) is not None]
    if REMOTE_STORAGE in dropped:
        told.append(
            f"{source.name} has remote storage, which the clone has not: only what these paths"
            f" hold comes along; dropped are {', '.join(dropped)}"
        )
    small = configs.get(_SEGMENT_BYTES, "")
    size = _number(small, _SEGMENT_BYTES, source.name)
    if size is not None and size < _LEAST_SEGMENT_BYTES:
        told.append(
            f"{source.name} gets {_SEGMENT_BYTES}={_LEAST_SEGMENT_BYTES} instead of {small}: Kafka"
            " 4 does not start with less"
        )
        configs[_SEGMENT_BYTES] = str(_LEAST_SEGMENT_BYTES)
    least = _number(configs.get(_LEAST_IN_SYNC, ""), _LEAST_IN_SYNC, source.name)
    if least is not None and least > request.replicas:
        told.append(
            f"{source.name} gets {_LEAST_IN_SYNC}={request.replicas} instead of {least}: more than"
            " there are replicas would let nobody write with acks=all"
        )
        configs[_LEAST_IN_SYNC] = str(request.replicas)
    if request.retention is Retention.UNLIMITED and "delete" in policies_of(configs):
        configs |= _UNLIMITED
    return configs


def _number(text: str, config: str, topic: str) -> int | None:
    """What a config says, if it is a number; refuses one that no broker has."""
    if not (text.isascii() and text.isdigit()):
        return None
    if len(text) > _MOST_DIGITS:
        raise OptionError(
            f"{topic} has {config}={text[:_MOST_DIGITS]}... ({len(text)} digits) in the"
            " metadata, which no broker takes: leave the topic out"
        )
    return int(text)


def _feature_levels(image: Image) -> dict[str, int]:
    return {
        entry.data["name"]: int(entry.data["featureLevel"])
        for identity, entry in image.entries.items()
        if identity[0] == "FEATURE_LEVEL_RECORD"
    }


def _features(level: int, own: Mapping[str, int], told: list[str]) -> dict[str, int]:
    """Those of the backup, but for what an older metadata version may not know."""
    others = {name: found for name, found in own.items() if name not in _OWN_VERSIONS}
    known = _DEFAULT_FEATURES if level >= _DEFAULT_LEVEL else {}
    if not own:
        others = dict(known)
    before = own.get(METADATA_VERSION, level)
    if level < before:
        kept = {name: min(found, known.get(name, 0)) for name, found in others.items()}
        lowered = [f"{name} {found}" for name, found in others.items() if kept[name] < found]
        others = {name: found for name, found in kept.items() if found}
        told.append(
            f"metadata version {metadata_version_name(level)} is below the backup's"
            f" {metadata_version_name(before)}: {', '.join(lowered) or 'no feature'} of it"
            " stays behind, and what was written by later features may not be read"
        )
    return {METADATA_VERSION: level} | others


def _require_known(level: int, image: Image, request: CloneRequest) -> None:
    """Refuse to keep records that brokers of the metadata version would not start with."""
    kinds = {identity[0] for identity in image.entries}
    for kind, word in _KEPT_RECORDS.items():
        least = _KEPT_FROM.get(word, level)
        if word in request.keep and kind in kinds and level < least:
            raise OptionError(
                f"metadata version {metadata_version_name(level)} knows no {word}, which are to be"
                f" kept: they need {metadata_version_name(least)}"
            )


def _tell_retention(topics: Sequence[NewTopic], request: CloneRequest, told: list[str]) -> None:
    deleting = [each for each in topics if "delete" in policies_of(each.configs)]
    many = counted(len(deleting), "topic")
    if request.retention is Retention.KEEP:
        told.append(
            f"retention is kept: a broker deletes what is too old of {many} within minutes of its"
            " start, and offsets of groups and transactional ids that were idle for a week"
        )
    else:
        told.append(
            f"retention is unlimited: retention.ms=-1 and retention.bytes=-1 for {many}, and"
            " offsets of groups and transactional ids do not expire, so that nothing is deleted at"
            " start"
        )
    compacted = sum("compact" in policies_of(each.configs) for each in topics)
    if compacted:
        many = f"{counted(compacted, 'topic')} {'is' if compacted == 1 else 'are'}"
        told.append(f"{many} compacted by the new brokers as ever")


def _tell_dropped(image: Image, request: CloneRequest, told: list[str]) -> None:
    """What stays behind for safety, by the word that would keep it."""
    counts: dict[Keep, int] = {}
    for identity, entry in image.entries.items():
        word = _kept_with(identity, entry.data)
        if word is not None and word not in request.keep:
            counts[word] = counts.get(word, 0) + 1
    told += [
        f"{counted(counts[word], 'record')} of {word} stay{'s' if counts[word] == 1 else ''} behind"
        for word in Keep
        if word in counts
    ]


def _kept_with(identity: Sequence[Any], data: Data) -> Keep | None:
    if identity[0] == "CONFIG_RECORD":
        return {_BROKER: Keep.BROKER_CONFIGS, _GROUP: Keep.GROUPS}.get(data["resourceType"])
    return _KEPT_RECORDS.get(str(identity[0]))


def snapshot_records(
    cluster: NewCluster,
    image: Image,
    request: CloneRequest,
    states: Mapping[TopicPartition, LogStanding],
    highest_producer_id: int,
) -> list[SnapshotRecord]:
    """Everything that the controller of the clone starts with."""
    return [
        *(
            SnapshotRecord("FEATURE_LEVEL_RECORD", 0, {"name": name, "featureLevel": level})
            for name, level in cluster.features.items()
        ),
        *(record for topic in cluster.topics for record in _topic_records(cluster, topic, states)),
        *_kept_records(image, request),
        *_producer_ids(image, highest_producer_id),
    ]


def _topic_records(
    cluster: NewCluster, topic: NewTopic, states: Mapping[TopicPartition, LogStanding]
) -> Iterator[SnapshotRecord]:
    name = topic.source.name
    yield SnapshotRecord("TOPIC_RECORD", 0, {"name": name, "topicId": topic.topic_id})
    version = 2 if cluster.level >= _ELR_FROM else int(cluster.level >= _DIRECTORIES_FROM)
    for number, replicas in enumerate(topic.replicas):
        state = states.get(TopicPartition(name, number), EMPTY_LOG)
        known = topic.source.epochs.get(number, _NO_EPOCH)
        # A new leader has a new epoch, above all that the log knows.
        data: Data = {
            "partitionId": number,
            "topicId": topic.topic_id,
            "replicas": list(replicas),
            "isr": list(replicas),
            "removingReplicas": [],
            "addingReplicas": [],
            "leader": replicas[0],
            "leaderEpoch": max(state.epoch, known) + 1,
            "partitionEpoch": 0,
            "directories": [cluster.node(each).directory_id for each in replicas],
        }
        yield SnapshotRecord("PARTITION_RECORD", version, data)
    for config, value in sorted(topic.configs.items()):
        yield _config(TOPIC_RESOURCE, name, config, value)


def _config(resource: int, owner: str, name: str, value: str) -> SnapshotRecord:
    data = {"resourceType": resource, "resourceName": owner, "name": name, "value": value}
    return SnapshotRecord("CONFIG_RECORD", 0, data)


def _kept_records(image: Image, request: CloneRequest) -> Iterator[SnapshotRecord]:
    for identity, entry in image.entries.items():
        word = _kept_with(identity, entry.data)
        is_metrics = identity[:2] == ("CONFIG_RECORD", _CLIENT_METRICS)
        if is_metrics or (word is not None and word in request.keep):
            yield SnapshotRecord(str(identity[0]), entry.version, entry.data)


def _producer_ids(image: Image, highest: int) -> Iterator[SnapshotRecord]:
    """The next block that may be given out: above all that logs and metadata know."""
    entry = image.entries.get(("PRODUCER_IDS_RECORD",))
    known = 0 if entry is None else int(entry.data["nextProducerId"])
    blocks = -(-(highest + 1) // _PRODUCER_ID_BLOCK)
    following = max(known, blocks * _PRODUCER_ID_BLOCK)
    if following > 0:  # the first block needs no record, and a controller takes none for it
        data = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": following}
        yield SnapshotRecord("PRODUCER_IDS_RECORD", 0, data)


def require_ids_above(producer_id: int, where: str) -> None:
    """Refuse an id of a producer above which no block of ids can be given out."""
    if producer_id > _MAX_PRODUCER_ID - _PRODUCER_ID_BLOCK:
        raise OptionError(
            f"{where} has producer id {producer_id}, and no block of ids is left above it: leave"
            " the topic out"
        )
