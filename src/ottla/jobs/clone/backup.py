"""What a backup holds of a cluster: its topics, whose ids they have, and the rest of its metadata.

Everything that a broker would delete, or that is left behind, becomes a sentence in `told`.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.catalog.catalog import Catalog
from ottla.catalog.logs import Log, live_logs
from ottla.catalog.missing import no_logs, require_topics
from ottla.errors import CorruptLogError, OptionError, Term
from ottla.format.names import (
    META_PROPERTIES,
    PARTITION_METADATA,
    UNNAMED,
    DirectoryState,
    TopicPartition,
    is_topic_name,
)
from ottla.internal.image import TOPIC_RESOURCE, Data, Image
from ottla.internal.metadata import read_image
from ottla.internal.records import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from ottla.jobs.clone.request import CloneRequest, Keep
from ottla.jobs.read.internal_topics import newest_snapshot, read_partition
from ottla.jobs.replicas import (
    Replica,
    Replicas,
    choose_intact,
    group_replicas,
    standing_of,
)
from ottla.log.files.identity import read_meta_properties
from ottla.log.files.partition import Partition, topic_id_of
from ottla.log.files.small_files import read_small
from ottla.options.choice import Choice
from ottla.options.texts import few
from ottla.storage.object_store import StorageOptions

_KEPT_WITH: Final = {
    CONSUMER_OFFSETS: Keep.GROUPS,
    SHARE_GROUP_STATE: Keep.GROUPS,
    TRANSACTION_STATE: Keep.TRANSACTIONS,
}
_SHOWN: Final = 5
_MOST_EMPTY: Final = 100_000  # partitions of one topic of which nothing is here
_MAX_EPOCH: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TopicSource:
    """A topic as the clone will have it; `topic_id` is None where it gets a new one.

    `origin` says where id and number of partitions come from. `logs` are by partition.
    """

    old_name: str
    name: str
    topic_id: str | None
    origin: str
    count: int
    configs: Mapping[str, str]
    logs: Mapping[int, Log]
    epochs: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Backup:
    """What there is to clone. Without metadata of its own the image is empty."""

    topics: tuple[TopicSource, ...]
    image: Image
    has_metadata: bool
    cluster_id: str | None
    told: tuple[str, ...]

    @property
    def metadata_hash(self) -> str:
        """Another one for other metadata: a clone of that is another job."""
        entries = [(*each, entry.version, entry.data) for each, entry in self.image.entries.items()]
        return hashlib.sha256(repr((self.cluster_id, entries)).encode()).hexdigest()

    @property
    def logs(self) -> list[Log]:
        """The logs that are read."""
        return [log for topic in self.topics for log in topic.logs.values()]


def read_backup(catalog: Catalog, choice: Choice, request: CloneRequest) -> Backup:
    """Look through the paths; nothing is written."""
    if not catalog.partitions:
        raise no_logs(catalog.paths, catalog.storage)
    told: list[str] = []
    image, has_metadata = _find_image(catalog, told)
    wanted = _choose_topics(catalog, choice, request, told)
    _check_renaming(wanted, request)
    names = _TopicNames(image)
    found = _drop_strays(wanted, names, catalog.storage, told)
    chosen = []
    for logs in group_replicas(found):
        replicas = choose_intact(logs, catalog.storage)
        require_epoch_above(replicas.standing.epoch, replicas.best.name)
        chosen.append(replicas.best)
        told += filter(None, (_tell_replica(replicas, each) for each in replicas.others))
    if not chosen:
        raise OptionError(f"{', '.join(catalog.paths)}: no partition of a topic is here to clone")
    topics = _topics(chosen, names, request, catalog.storage, told)
    _tell_marked(catalog, told)
    _tell_without_logs(names, topics, choice, request, told)
    return Backup(tuple(topics), image, has_metadata, _cluster_id(catalog), tuple(told))


def _find_image(catalog: Catalog, told: list[str]) -> tuple[Image, bool]:
    """The newest metadata of all directories: brokers keep a copy of the controllers' too."""
    found = [
        each
        for each in catalog.partitions
        if each.name.topic == CLUSTER_METADATA and each.state is DirectoryState.LIVE
    ]
    found = [each for each in found if each.segments or newest_snapshot(each)]
    if not found:
        told.append(
            "no metadata of the cluster is here: ids come from partition.metadata, and configs,"
            " ACLs and quotas are not known"
        )
        return Image(), False
    newest = max(found, key=lambda each: _age(each, catalog.storage))
    image, errors = read_image(read_partition(newest, catalog.storage))
    if errors:
        told.append(
            f"{len(errors)} records of the metadata in {newest.path} could not be read, the first"
            f" at offset {errors[0]['logOffset']}: {errors[0]['error']}"
        )
    return image, True


def _age(partition: Partition, storage: StorageOptions) -> tuple[int, int]:
    """Epoch and end of a metadata log, or of a snapshot where that is all there is."""
    epoch, end = standing_of(partition, storage)
    snapshot = newest_snapshot(partition)
    if snapshot is None:
        return epoch, end
    return max((epoch, end), (snapshot[0].epoch or 0, snapshot[0].offset))


class _TopicNames:
    """What an image says of topics, by their names."""

    def __init__(self, image: Image) -> None:
        self.ids: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.epochs: dict[str, dict[int, int]] = {}
        for identity, entry in image.entries.items():
            if identity[0] == "TOPIC_RECORD":
                self.ids[entry.data["name"]] = entry.data["topicId"]
            elif identity[0] == "PARTITION_RECORD":
                self._add_partition(entry.data)
            elif identity[:2] == ("CONFIG_RECORD", TOPIC_RESOURCE):
                configs = self.configs.setdefault(entry.data["resourceName"], {})
                configs[entry.data["name"]] = entry.data["value"]

    def _add_partition(self, data: Data) -> None:
        topic, number = data["topicName"] or "", data["partitionId"]
        self.counts[topic] = max(self.counts.get(topic, 0), number + 1)
        self.epochs.setdefault(topic, {})[number] = data["leaderEpoch"]


def _choose_topics(
    catalog: Catalog, choice: Choice, request: CloneRequest, told: list[str]
) -> list[Log]:
    """The live logs that come along: chosen ones, and internal topics that are kept."""
    logs = [log for log in live_logs(catalog) if log.name != UNNAMED]
    there = {log.name.topic for log in logs}
    require_topics(choice, there, catalog.paths)
    require_topics(Choice(globs=request.exclude), there, catalog.paths)
    wanted = []
    left: set[str] = set()
    for log in logs:
        topic = log.name.topic
        if topic == CLUSTER_METADATA:
            continue
        if not is_topic_name(topic):
            told.append(f"{log.partition.path} is named as no topic can be: it stays behind")
            continue
        if topic in _KEPT_WITH:
            if _KEPT_WITH[topic] in request.keep:
                wanted.append(log)
            else:
                left.add(topic)
        elif topic == REMOTE_LOG_METADATA:
            left.add(topic)
        elif choice.chooses(log.name) and not request.excludes(topic):
            wanted.append(log)
    told += [f"{topic} stays behind" for topic in sorted(left)]
    return wanted


def _check_renaming(logs: Sequence[Log], request: CloneRequest) -> None:
    topics = {log.name.topic for log in logs}
    for old, new in request.rename.items():
        if old not in topics or old in _KEPT_WITH:
            raise OptionError(Term.RENAME, f" {old}={new}: no such topic among what is cloned")
        if not is_topic_name(new):
            raise OptionError(Term.RENAME, f" {old}={new}: {new!r} is no name for a topic")
    names = [request.rename.get(topic, topic) for topic in topics]
    if len(set(names)) < len(names):
        raise OptionError("two topics would get the same name")


def require_epoch_above(epoch: int, name: TopicPartition) -> None:
    """Refuse a leader epoch above which there is none: the new leader needs one."""
    if epoch >= _MAX_EPOCH:
        raise OptionError(
            f"{name} has leader epoch {epoch}, and a new leader can have none above it: leave the"
            " topic out"
        )


def _drop_strays(
    logs: Iterable[Log], names: _TopicNames, storage: StorageOptions, told: list[str]
) -> list[Log]:
    """Without directories of an id that is not their topic's: a broker would delete them."""
    kept = []
    first: dict[str, tuple[str, str]] = {}
    for log in logs:
        topic, own = log.name.topic, topic_id_of(log.partition, storage)
        right = names.ids.get(topic)
        if own is not None and right is not None and own != right:
            told.append(
                f"{log.partition.path} is of another topic {topic} (id {own}; the metadata has"
                f" {right}): it stays behind, a broker would delete it"
            )
            continue
        if own is not None and right is None:
            known, path = first.setdefault(topic, (own, log.partition.path))
            if known != own:
                raise OptionError(
                    f"{path} and {log.partition.path} are of two topics named {topic} (ids"
                    f" {known} and {own}), and no metadata says which is right: leave one out"
                )
        kept.append(log)
    return kept


def _topics(
    chosen: Sequence[Log],
    names: _TopicNames,
    request: CloneRequest,
    storage: StorageOptions,
    told: list[str],
) -> list[TopicSource]:
    by_topic: dict[str, dict[int, Log]] = {}
    for log in chosen:
        by_topic.setdefault(log.name.topic, {})[log.name.partition] = log
    topics = []
    for old, logs in sorted(by_topic.items()):
        name = request.rename.get(old, old)
        topic_id, origin = _identify(old, name, logs, names, storage)
        count = max(names.counts.get(old, 0), max(logs) + 1)
        if count - len(logs) > _MOST_EMPTY:
            raise OptionError(
                f"{old} would have {count} partitions, and directories of {len(logs)} are here: no"
                f" more than {_MOST_EMPTY} are made empty; leave the topic out, or the directory"
                " whose number is wrong"
            )
        missing = [number for number in range(count) if number not in logs]
        if missing:
            told.append(_missing(old, missing, count))
        if name != old:
            told.append(f"{old} becomes {name}: groups keep their offsets under the old name")
        if old in _KEPT_WITH and old not in names.counts:
            told.append(
                f"{old} has {count} partitions as far as directories tell: if it had more, its"
                " coordinator looks for groups or transactions in the wrong ones"
            )
        if old not in names.ids and names.ids:
            told.append(f"{old} is not in the metadata of the cluster: it comes along all the same")
        configs = names.configs.get(old, {})
        epochs = names.epochs.get(old, {})
        for number, epoch in epochs.items():
            require_epoch_above(epoch, TopicPartition(old, number))
        topics.append(TopicSource(old, name, topic_id, origin, count, configs, logs, epochs))
    return topics


def _identify(
    old: str,
    name: str,
    logs: Mapping[int, Log],
    names: _TopicNames,
    storage: StorageOptions,
) -> tuple[str | None, str]:
    """A renamed topic is another one, and has another id."""
    if name != old:
        return None, "new, renamed"
    if old in names.ids:
        return names.ids[old], "metadata"
    known = (topic_id_of(log.partition, storage) for log in logs.values())
    own = next((found for found in known if found), None)
    return own, "new" if own is None else PARTITION_METADATA


def _missing(topic: str, missing: Sequence[int], count: int) -> str:
    shown = few([str(each) for each in missing], _SHOWN)
    return (
        f"{topic} has {count} partitions, and no directory of {shown} is here: made empty, so"
        " that offsets begin at 0"
    )


def _tell_marked(catalog: Catalog, told: list[str]) -> None:
    """Directories that a broker deletes, moves or has put aside."""
    told += [
        f"{each.path} is marked as {each.state.word}: it stays behind"
        for each in catalog.partitions
        if each.state is not DirectoryState.LIVE
    ]


def _tell_without_logs(
    names: _TopicNames,
    topics: Sequence[TopicSource],
    choice: Choice,
    request: CloneRequest,
    told: list[str],
) -> None:
    """Topics of the metadata of which no directory is here."""
    there = {topic.old_name for topic in topics}
    absent = [
        topic
        for topic in sorted(names.ids)
        if topic not in there
        and topic not in _KEPT_WITH
        and topic != REMOTE_LOG_METADATA
        and choice.chooses_topic(topic)
        and not request.excludes(topic)
    ]
    told += [f"{topic} is in the metadata, but no directory of it is here" for topic in absent]


def _tell_replica(replicas: Replicas, other: Replica) -> str | None:
    """How a replica differs from the one that is taken; nothing of one that does not."""
    found, path = other.comparison, other.log.partition.path
    taken = f"the one in {replicas.best.partition.path} is taken"
    if other.damage is not None:
        return f"{path} is damaged: {other.damage}, {taken}"
    alone = sum(pair[1].records for pair in (found.before, found.inside, found.after))
    lacks = sum(pair[0].records for pair in (found.before, found.inside, found.after))
    if found.divergence is not None:
        offset, (epoch, its_epoch) = found.divergence
        return (
            f"{path} parts at offset {offset}, in epoch {its_epoch} where others have {epoch}:"
            f" {alone} records of it stay behind, {taken}"
        )
    if alone or lacks:
        return f"{path} is {other.state}: it lacks {lacks} records and has {alone} alone, {taken}"
    if found.problems[1]:
        return f"{path} is damaged: {found.problems[1][0]}, {taken}"
    return None


def _cluster_id(catalog: Catalog) -> str | None:
    """What the first readable meta.properties says."""
    for directory in catalog.directories:
        entry = directory.files.get(META_PROPERTIES)
        if entry is not None:
            try:
                properties = read_meta_properties(read_small(entry, catalog.storage), entry.path)
            except CorruptLogError:
                continue
            if properties.cluster_id is not None:
                return properties.cluster_id
    return None
