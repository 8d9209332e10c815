"""The job that makes a clone: logs are copied batch by batch, then come replicas and node files.

A log is written once, for the node that leads it; its replicas are copies of what was staged.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.catalog.catalog import Catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.errors import OptionError, Term
from ottla.format.names import TopicPartition
from ottla.format.sentinels import NO_PRODUCER_ID
from ottla.internal.records import COORDINATOR_TOPICS, TRANSACTION_STATE
from ottla.internal.views import VIEWS
from ottla.jobs.clone.backup import Backup, TopicSource, read_backup, require_epoch_above
from ottla.jobs.clone.cluster import (
    LogStanding,
    NewCluster,
    NewTopic,
    plan_cluster,
    require_ids_above,
    snapshot_records,
)
from ottla.jobs.clone.parts import (
    ClonedLog,
    ClusterFiles,
    EmptyLog,
    SalvagedLog,
    close_part,
    stage_part,
)
from ottla.jobs.clone.request import CloneRequest
from ottla.jobs.output import OutputJob, OutputPart, require_apart
from ottla.jobs.read.internal_topics import InternalTopic, read_current
from ottla.jobs.replicas import first_damage, highest_producer_id, standing_of
from ottla.jobs.rewrite.extent import settle_bounds, settle_other
from ottla.jobs.rewrite.plan import (
    DEFAULT_SPLIT_BYTES,
    Rewriting,
    RewrittenLog,
    extent_of,
    plan_rewriting,
)
from ottla.jobs.rewrite.restore import RecordFilter, Restoring
from ottla.jobs.rewrite.salvage import (
    Rescue,
    Search,
    StagedSearch,
)
from ottla.log.files.identity import write_topic_id
from ottla.log.files.partition import Segment
from ottla.log.write.extent import remote_offsets
from ottla.log.write.index_builder import SegmentConfig
from ottla.options.choice import EVERY_PARTITION, Choice
from ottla.options.offsets import NO_LIMITS, LimitPair, Offset
from ottla.options.texts import counted
from ottla.publish.checked import FinishedPartition, StagedFile
from ottla.publish.job import job_name
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import is_remote, real_path

_CLUSTER: Final = "cluster"
_WHOLE_SEGMENTS: Final = 2**31 - 1


class Clone(NamedTuple):
    """What will be made, what is to be told of it, and the job that makes it."""

    backup: Backup
    cluster: NewCluster
    job: OutputJob
    told: tuple[str, ...]


def plan_clone(
    catalog: Catalog,
    choice: Choice,
    limits: LimitPair,
    out: str,
    request: CloneRequest,
    *,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
) -> Clone:
    """Look at the backup and decide everything that its records do not decide."""
    if is_remote(out):
        raise OptionError(f"{out}: a broker starts from a local disk; name a folder on one")
    out = real_path(out)  # whoever names it in another way means the same clone
    if "," in out:
        raise OptionError(f"{out}: log.dirs takes a comma for the end of a path; name another OUT")
    require_apart(out, catalog.paths)
    backup = read_backup(catalog, choice, request)
    require_apart(out, [log.partition.path for log in backup.logs])
    options: dict[str, Any] = {
        "command": "clone",
        "paths": catalog.paths,
        "topics": choice.topics + choice.globs,
        "from": None if limits.start is None else str(limits.start),
        "to": None if limits.stop is None else str(limits.stop),
        "splitBytes": split_bytes,
        "storage": catalog.storage,
        **request.described(),
        "metadata": backup.metadata_hash,
    }
    inputs = [entry for log in backup.logs for entry in log.partition.entries]
    cluster = plan_cluster(backup, request, f"{job_name(inputs, options)}/{out}")
    damaged = find_damaged(cluster, limits, catalog.storage) if request.salvage else {}
    rewritings = [
        _rewriting(topic, number, log, cluster, _limited(catalog, topic.source, limits))
        for topic in cluster.topics
        for number, log in sorted(topic.source.logs.items())
        if TopicPartition(topic.source.name, number) not in damaged
    ]
    job = plan_rewriting(
        "clone",
        out,
        rewritings,
        options,
        split_bytes=split_bytes,
        config=SegmentConfig(segment_bytes=_WHOLE_SEGMENTS),
        storage=catalog.storage,
    )
    searches = {
        _search_key(name, segment): Search(name, segment, catalog.storage, DEFAULT_MAX_BATCH_BYTES)
        for name, (log, _) in damaged.items()
        for segment in log.partition.segments
    }
    closing = _Closing(backup, cluster, request, job, catalog.storage, damaged)
    cloning = replace(
        job,
        logs=backup.logs,
        parts={**job.parts, **searches},
        stage=stage_part,
        closing=closing,
        close=close_part,
        log_starts={},
        private=True,
    )
    told = [*backup.told, *cluster.told]
    told += [_tell_lost(each) for each in rewritings if each.lost]
    told += [f"{log.partition.path} is salvaged: {why}" for log, why in damaged.values()]
    return Clone(backup, cluster, cloning, tuple(told))


def _search_key(name: TopicPartition, segment: Segment) -> str:
    return f"{name}.search.{segment.base_offset:020d}"


def find_damaged(
    cluster: NewCluster, limits: LimitPair, storage: StorageOptions
) -> dict[TopicPartition, tuple[Log, str]]:
    """The logs that can not be copied as they are, by their new names, and why; all is read."""
    found = {}
    for topic in cluster.topics:
        for number, log in topic.source.logs.items():
            why = first_damage(log.partition, storage)
            if why is not None:
                found[TopicPartition(topic.source.name, number)] = (log, why)
    if found and limits != NO_LIMITS:
        raise OptionError(
            f"{next(iter(found.values()))[1]}: what is salvaged is not cut; leave ",
            *(Term.START, " and ", Term.STOP, " out, or the topic"),
        )
    return found


def _limited(catalog: Catalog, topic: TopicSource, limits: LimitPair) -> ChosenLogs:
    """A moment cuts every log; an offset means something in the topics of users alone."""
    if topic.old_name in COORDINATOR_TOPICS:
        start = stop = None
        if limits.stop is not None and not isinstance(limits.stop, Offset):
            stop = limits.stop  # the state of groups and transactions at that moment
        limits = LimitPair(start, stop)
    return ChosenLogs(catalog, EVERY_PARTITION, limits)


def _rewriting(
    topic: NewTopic, number: int, log: Log, cluster: NewCluster, chosen: ChosenLogs
) -> Rewriting:
    """The clone has no remote storage: what only that holds is lost to it."""
    if remote_offsets(log.partition, log.log_start):
        bounds, lost = settle_other(log, chosen)
    else:
        bounds, lost = settle_bounds(log, chosen), 0
    return Rewriting(
        log,
        bounds,
        None,
        TopicPartition(topic.source.name, number),
        Restoring(RecordFilter()),
        write_topic_id(topic.topic_id),
        lost=lost,
        home=cluster.node(topic.replicas[number][0]).data,
    )


def _tell_lost(each: Rewriting) -> str:
    remote = remote_offsets(each.log.partition, each.log.log_start)
    return (
        f"{each.log.partition.path} has offsets {remote.start} to {remote.stop - 1} in remote"
        f" storage only: {counted(each.lost, 'offset')} of them, which the clone should have, stay"
        " behind"
    )


class _Closing:
    """From parts that are staged to what is left to do; on the driver."""

    def __init__(
        self,
        backup: Backup,
        cluster: NewCluster,
        request: CloneRequest,
        job: OutputJob,
        storage: StorageOptions,
        damaged: Mapping[TopicPartition, tuple[Log, str]],
    ) -> None:
        self.damaged = damaged
        self.backup = backup
        self.cluster = cluster
        self.request = request
        self.job = job
        self.storage = storage

    def __call__(self, finished: Mapping[str, FinishedPartition]) -> dict[str, OutputPart]:
        """A part for each log, and one for the files of nodes."""
        rewritten: Mapping[str, Any] = self.job.closing(finished)
        parts: dict[str, OutputPart] = {}
        states: dict[TopicPartition, LogStanding] = {}
        for topic in self.cluster.topics:
            for number, replicas in enumerate(topic.replicas):
                name = TopicPartition(topic.source.name, number)
                homes = tuple(self.cluster.node(each).data for each in replicas)
                log = rewritten.get(str(name))
                if name in self.damaged:
                    rescue = self._rescue(name, finished)
                    parts[str(name)] = SalvagedLog(name, topic.topic_id, rescue, homes)
                    epoch, _ = standing_of(rescue.partition, self.storage)
                    states[name] = LogStanding(epoch, 0)  # only the broker knows where it ends
                    continue
                if log is None:
                    parts[str(name)] = EmptyLog(name, topic.topic_id, homes)
                    continue
                extent = extent_of(log)
                last = max((each.epoch for each in extent.epochs), default=-1)
                states[name] = LogStanding(last, extent.log_end)
                staged = _staged_of(log, finished)
                parts[str(name)] = ClonedLog(log, staged, homes[0], homes[1:])
        for name, state in states.items():
            require_epoch_above(state.epoch, name)
        producer = self._highest_producer(finished)
        starts = {name: log.log_start for name, (log, _) in self.damaged.items()}
        # The image stays here: it may have secrets, which no task has to know.
        records = snapshot_records(self.cluster, self.backup.image, self.request, states, producer)
        parts[_CLUSTER] = ClusterFiles(
            self.cluster,
            self.request,
            tuple(records),
            {name: state.end for name, state in states.items()},
            {**self.job.log_starts, **starts},
        )
        return parts

    def _rescue(self, name: TopicPartition, finished: Mapping[str, FinishedPartition]) -> Rescue:
        log, _ = self.damaged[name]
        keys = [_search_key(name, segment) for segment in log.partition.segments]
        accounts = (finished[key].account for key in keys)
        searches = tuple(
            StagedSearch(*map(account.get, StagedSearch._fields)) for account in accounts
        )
        return Rescue(log.partition, log.log_start, searches, self.storage)

    def _highest_producer(self, finished: Mapping[str, FinishedPartition]) -> int:
        known = [(self._highest_transactional(), TRANSACTION_STATE)]
        known += [(_producer(part), _title(part)) for part in finished.values()]
        known += [
            (highest_producer_id(log.partition, self.storage), str(name))
            for name, (log, _) in self.damaged.items()
        ]
        highest, where = max(known)
        require_ids_above(highest, where)
        return highest

    def _highest_transactional(self) -> int:
        """Where no metadata says which ids were given out: what the coordinators know."""
        if ("PRODUCER_IDS_RECORD",) in self.backup.image.entries:
            return NO_PRODUCER_ID
        partitions = tuple(
            log.partition for log in self.backup.logs if log.name.topic == TRANSACTION_STATE
        )
        topic = InternalTopic(TRANSACTION_STATE, partitions, self.storage)
        rows = read_current(topic, VIEWS["transactional_ids"]).rows.to_pylist()
        names = ("producerId", "previousProducerId", "nextProducerId")
        known = [row[name] for row in rows for name in names if row[name] is not None]
        return max(known, default=NO_PRODUCER_ID)


def _producer(finished: FinishedPartition) -> int:
    found = finished.account.get("producerId", NO_PRODUCER_ID)
    return found if type(found) is int else NO_PRODUCER_ID


def _title(finished: FinishedPartition) -> str:
    return f"{finished.account.get('topic')}-{finished.account.get('partition')}"


def _staged_of(
    log: RewrittenLog, finished: Mapping[str, FinishedPartition]
) -> tuple[StagedFile, ...]:
    """Everything that the parts of a log staged."""
    begin = f"{log.directory}/"
    files = (file for part in finished.values() for file in part.files)
    return tuple(file for file in files if file.target.startswith(begin))
