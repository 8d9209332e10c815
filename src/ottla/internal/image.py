"""The metadata image: what the records of `__cluster_metadata` add up to (MetadataImage, *Delta).

The image is kept as the records that a snapshot of it would hold: for each thing the record that
defines it, with later changes worked in. A snapshot's header empties the image, so that a snapshot
and the log after it can be read as one stream.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.internal.primitives import Json

NO_LEADER_CHANGE: Final = -2
MIGRATING_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAA"  # DirectoryId.MIGRATING: not known
TOPIC_RESOURCE: Final = 2  # ConfigResource.Type.TOPIC
METADATA_VERSION: Final = "metadata.version"
REMOTE_STORAGE: Final = "remote.storage.enable"  # a config of topics
CLEANUP_POLICY: Final = "cleanup.policy"  # another
_DEFAULT_POLICY: Final = "delete"

Identity = tuple[Any, ...]  # the record type that defines a thing, then what tells it from others
Data = dict[str, Json]


def policies_of(configs: Mapping[str, str]) -> frozenset[str]:
    """What becomes of old records of a topic: a list, as Kafka reads one.

    >>> sorted(policies_of({"cleanup.policy": " compact , delete"})), sorted(policies_of({}))
    (['compact', 'delete'], ['delete'])
    """
    return frozenset(map(str.strip, configs.get(CLEANUP_POLICY, _DEFAULT_POLICY).split(",")))


@dataclass(frozen=True, slots=True)
class ImageEntry:
    """A thing in the image, and the record that changed it last."""

    data: Data
    version: int
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """A decoded record and where it was."""

    type: str
    version: int
    data: Data
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class ImageChange:
    """What became of one thing; `entry` is what it was if it is now gone."""

    identity: Identity
    entry: ImageEntry
    deleted: bool
    offset: int
    timestamp: int


@dataclass(slots=True)
class Image:
    """The things there are, and a metadata transaction that has begun and not ended."""

    entries: dict[Identity, ImageEntry] = field(default_factory=dict)
    topic_names: dict[str, str] = field(default_factory=dict)
    of_topic: dict[str, dict[Identity, None]] = field(default_factory=dict)  # by id or by name
    open_transaction: list[MetadataRecord] | None = None

    def apply(self, record: MetadataRecord) -> list[ImageChange]:
        """Work a record in; records of a transaction count when it ends."""
        if record.type == "BEGIN_TRANSACTION_RECORD":
            self.open_transaction = []
        elif record.type == "ABORT_TRANSACTION_RECORD":
            self.open_transaction = None
        elif record.type == "END_TRANSACTION_RECORD":
            held, self.open_transaction = self.open_transaction or [], None
            return [change for one in held for change in self._apply_now(one)]
        elif self.open_transaction is not None:
            self.open_transaction.append(record)
        else:
            return list(self._apply_now(record))
        return []

    def clear(self) -> None:
        """Forget everything: a snapshot begins."""
        self.entries.clear()
        self.topic_names.clear()
        self.of_topic.clear()
        self.open_transaction = None

    def _apply_now(self, record: MetadataRecord) -> Iterator[ImageChange]:
        action = _ACTIONS.get(record.type)
        if action is not None:
            yield from action(self, record)

    def put(self, identity: Identity, record: MetadataRecord, data: Data) -> Iterator[ImageChange]:
        """Define a thing."""
        version = record.version if identity[0] == record.type else self.entries[identity].version
        entry = ImageEntry(data, version, record.offset, record.timestamp)
        self.entries[identity] = entry
        if owner := _topic_of(identity):
            self.of_topic.setdefault(owner, {})[identity] = None
        yield ImageChange(identity, entry, False, record.offset, record.timestamp)

    def remove(self, identity: Identity, record: MetadataRecord) -> Iterator[ImageChange]:
        """Forget a thing, if it is there."""
        entry = self.entries.pop(identity, None)
        if entry is not None:
            if owner := _topic_of(identity):
                del self.of_topic[owner][identity]
            yield ImageChange(identity, entry, True, record.offset, record.timestamp)


def _topic_of(identity: Identity) -> str | None:
    """The id (of a partition) or name (of a config) of the topic that a thing goes away with."""
    if identity[0] == "PARTITION_RECORD" or identity[:2] == ("CONFIG_RECORD", TOPIC_RESOURCE):
        return str(identity[-2])
    return None


Action = Callable[[Image, MetadataRecord], Iterator[ImageChange]]


def _define(*names: str) -> Action:
    """The record defines a thing that these fields tell from others of its type."""

    def action(image: Image, record: MetadataRecord) -> Iterator[ImageChange]:
        identity = (record.type, *(record.data.get(name) for name in names))
        return image.put(identity, record, record.data)

    return action


def _forget(defined_by: str, *names: str) -> Action:
    def action(image: Image, record: MetadataRecord) -> Iterator[ImageChange]:
        return image.remove((defined_by, *(record.data[name] for name in names)), record)

    return action


def _define_topic(image: Image, record: MetadataRecord) -> Iterator[ImageChange]:
    image.topic_names[record.data["topicId"]] = record.data["name"]
    return image.put((record.type, record.data["topicId"]), record, record.data)


def _remove_topic(image: Image, record: MetadataRecord) -> Iterator[ImageChange]:
    topic_id = record.data["topicId"]
    name = image.topic_names.pop(topic_id, "")
    for owner in (topic_id, name):
        for identity in list(image.of_topic.get(owner, ())):
            yield from image.remove(identity, record)
        image.of_topic.pop(owner, None)
    yield from image.remove(("TOPIC_RECORD", topic_id), record)


def _define_partition(image: Image, record: MetadataRecord) -> Iterator[ImageChange]:
    data = {**record.data, "topicName": image.topic_names.get(record.data["topicId"])}
    data["directories"] = _known_directories(data.get("directories"), data["replicas"])
    identity = (record.type, data["topicId"], data["partitionId"])
    return image.put(identity, record, data)


def _known_directories(directories: list[str] | None, replicas: list[int]) -> list[str]:
    """Without directories, every replica's is unknown (DirectoryId.createDirectoriesFrom)."""
    return directories or [MIGRATING_DIRECTORY] * len(replicas)


def _change_partition(image: Image, record: MetadataRecord) -> Iterator[ImageChange]:
    """PartitionRegistration.merge: what is absent stays."""
    identity = ("PARTITION_RECORD", record.data["topicId"], record.data["partitionId"])
    entry = image.entries.get(identity)
    if entry is None:
        return
    change = record.data
    data = dict(entry.data)
    data |= {name: value for name, value in change.items() if name != "leader"}
    if change.get("leader", NO_LEADER_CHANGE) != NO_LEADER_CHANGE:
        data["leader"] = change["leader"]
        data["leaderEpoch"] += 1  # even if the leader is the same
    data["partitionEpoch"] += 1
    if "directories" not in change and set(data["directories"]) == {MIGRATING_DIRECTORY}:
        data["directories"] = _known_directories(None, data["replicas"])
    yield from image.put(identity, record, data)


def _clear_elr(image: Image, record: MetadataRecord) -> Iterator[ImageChange]:
    name = record.data["topicName"]
    for identity, entry in list(image.entries.items()):
        if identity[0] != "PARTITION_RECORD" or name not in ("", entry.data["topicName"]):
            continue
        if entry.data.get("eligibleLeaderReplicas") or entry.data.get("lastKnownElr"):
            cleared: Data = {"eligibleLeaderReplicas": [], "lastKnownElr": []}
            yield from image.put(identity, record, entry.data | cleared)


def _define_config(image: Image, record: MetadataRecord) -> Iterator[ImageChange]:
    data = record.data
    identity = (record.type, data["resourceType"], data["resourceName"], data["name"])
    if data["value"] is None:
        return image.remove(identity, record)
    return image.put(identity, record, data)


def _change_broker(changed: Callable[[Data], Data]) -> Action:
    """Change a registration; a record of another epoch is about a broker that is gone."""

    def action(image: Image, record: MetadataRecord) -> Iterator[ImageChange]:
        broker = record.data.get("brokerId", record.data.get("id"))
        epoch = record.data.get("brokerEpoch", record.data.get("epoch"))
        entry = image.entries.get(("REGISTER_BROKER_RECORD", broker))
        if entry is not None and entry.data["brokerEpoch"] == epoch:
            data = entry.data | changed(record.data)
            yield from image.put(("REGISTER_BROKER_RECORD", broker), record, data)

    return action


def _registration_change(change: Data) -> Data:
    data: Data = {}
    if change.get("fenced", 0) != 0:
        data["fenced"] = change["fenced"] > 0
    if change.get("inControlledShutdown", 0) != 0:
        data["inControlledShutdown"] = change["inControlledShutdown"] > 0
    return data | {name: change[name] for name in ("logDirs", "cordonedLogDirs") if name in change}


def _define_feature(image: Image, record: MetadataRecord) -> Iterator[ImageChange]:
    identity = (record.type, record.data["name"])
    if record.data.get("featureLevel") == 0 and record.data["name"] != METADATA_VERSION:
        return image.remove(identity, record)
    return image.put(identity, record, record.data)


def _define_quota(image: Image, record: MetadataRecord) -> Iterator[ImageChange]:
    entity = sorted((one["entityType"], one["entityName"] or "") for one in record.data["entity"])
    named = [one["entityName"] is None for one in record.data["entity"]]
    identity = (record.type, tuple(entity), tuple(named), record.data["key"])
    if record.data["remove"]:
        return image.remove(identity, record)
    return image.put(identity, record, record.data)


_ACTIONS: Final[dict[str, Action]] = {
    "TOPIC_RECORD": _define_topic,
    "REMOVE_TOPIC_RECORD": _remove_topic,
    "PARTITION_RECORD": _define_partition,
    "PARTITION_CHANGE_RECORD": _change_partition,
    "CLEAR_ELR_RECORD": _clear_elr,
    "CONFIG_RECORD": _define_config,
    "REGISTER_BROKER_RECORD": _define("brokerId"),
    "UNREGISTER_BROKER_RECORD": _forget("REGISTER_BROKER_RECORD", "brokerId"),
    "FENCE_BROKER_RECORD": _change_broker(lambda _: {"fenced": True}),
    "UNFENCE_BROKER_RECORD": _change_broker(lambda _: {"fenced": False}),
    "BROKER_REGISTRATION_CHANGE_RECORD": _change_broker(_registration_change),
    "REGISTER_CONTROLLER_RECORD": _define("controllerId"),
    "UNREGISTER_CONTROLLER_RECORD": _forget("REGISTER_CONTROLLER_RECORD", "controllerId"),
    "FEATURE_LEVEL_RECORD": _define_feature,
    "REMOVE_FEATURE_LEVEL_RECORD": _forget("FEATURE_LEVEL_RECORD", "name"),
    "CLIENT_QUOTA_RECORD": _define_quota,
    "PRODUCER_IDS_RECORD": _define(),
    "ZK_MIGRATION_STATE_RECORD": _define(),
    "ACCESS_CONTROL_ENTRY_RECORD": _define("id"),
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": _forget("ACCESS_CONTROL_ENTRY_RECORD", "id"),
    "USER_SCRAM_CREDENTIAL_RECORD": _define("mechanism", "name"),
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": _forget(
        "USER_SCRAM_CREDENTIAL_RECORD", "mechanism", "name"
    ),
    "DELEGATION_TOKEN_RECORD": _define("tokenId"),
    "REMOVE_DELEGATION_TOKEN_RECORD": _forget("DELEGATION_TOKEN_RECORD", "tokenId"),
    "KRAFT_VERSION": _define(),
    "KRAFT_VOTERS": _define(),
    "LEADER_CHANGE": _define(),
}
