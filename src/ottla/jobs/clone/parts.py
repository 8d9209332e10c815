"""What tasks of a clone stage: parts of logs, then what is left of each, and the files of nodes."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.format.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, TopicPartition
from ottla.internal.snapshot import SnapshotRecord, snapshot_name, write_snapshot
from ottla.jobs.clone.cluster import NewCluster
from ottla.jobs.clone.node_files import files_of_node, metadata_folder
from ottla.jobs.clone.request import CloneRequest
from ottla.jobs.rewrite.plan import RewritePart, RewrittenLog, close_log, rewrite_part
from ottla.jobs.rewrite.salvage import Rescue, Search, rescue_partition, search_segment
from ottla.log.files.checkpoints import write_leader_epochs
from ottla.log.files.identity import write_topic_id
from ottla.log.write.side_files import stage_file, stage_segment
from ottla.publish.account import account_row
from ottla.publish.checked import FinishedPartition, StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import new_staged_name, staged_path
from ottla.storage.copying import copy_file

_EPOCH: Final = 1  # of the first snapshot: a log that is empty gives way to it


@dataclass(frozen=True, slots=True)
class ClonedLog:
    """A log that is staged for its leader, with what was staged of it, and its other homes."""

    log: RewrittenLog
    staged: tuple[StagedFile, ...]
    home: str
    others: tuple[str, ...]

    @property
    def size(self) -> int:
        return self.log.size * len(self.others)


@dataclass(frozen=True, slots=True)
class SalvagedLog:
    """A damaged log, of which the searches of its segments found what is intact."""

    name: TopicPartition
    topic_id: str
    rescue: Rescue
    homes: tuple[str, ...]

    @property
    def size(self) -> int:
        return self.rescue.size


@dataclass(frozen=True, slots=True)
class EmptyLog:
    """A partition of which the backup has nothing."""

    name: TopicPartition
    topic_id: str
    homes: tuple[str, ...]

    @property
    def size(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """What is staged when all logs are known; `records` are those of the snapshot."""

    cluster: NewCluster
    request: CloneRequest
    records: tuple[SnapshotRecord, ...]
    ends: Mapping[TopicPartition, int]
    log_starts: Mapping[TopicPartition, int | None]

    @property
    def size(self) -> int:
        return 0


def stage_part(job: Job, part: RewritePart | Search) -> FinishedPartition:
    """Copy a part of a log, or look for what is intact of a segment."""
    return search_segment(job, part) if isinstance(part, Search) else rewrite_part(job, part)


def close_part(
    job: Job, part: ClonedLog | SalvagedLog | EmptyLog | ClusterFiles
) -> FinishedPartition:
    """Stage what is left of a log, or of the cluster."""
    if isinstance(part, ClonedLog):
        return close_cloned(job, part)
    if isinstance(part, SalvagedLog):
        return close_salvaged(job, part)
    if isinstance(part, EmptyLog):
        return close_empty(job, part)
    return close_cluster(job, part)


def close_cloned(job: Job, part: ClonedLog) -> FinishedPartition:
    """What lies beside the log, and copies of all of it for other nodes."""
    files, account = close_log(job, part.log)
    copies = [
        _copy(job, file, part.home, other)
        for other in part.others
        for file in (*part.staged, *files)
    ]
    return FinishedPartition([*files, *copies], account)


def close_salvaged(job: Job, part: SalvagedLog) -> FinishedPartition:
    """What is intact of a log, under the name and the id that its topic has here."""
    salvaged, account = rescue_partition(job, part.rescue)
    directory = posixpath.join(part.homes[0], str(part.name))
    files = [
        file._replace(target=posixpath.join(directory, posixpath.basename(file.target)))
        for file in salvaged
        if posixpath.basename(file.target) != PARTITION_METADATA
    ]
    files.append(stage_file(job, directory, PARTITION_METADATA, write_topic_id(part.topic_id)))
    copies = [_copy(job, file, part.homes[0], other) for other in part.homes[1:] for file in files]
    return FinishedPartition([*files, *copies], account)


def _copy(job: Job, file: StagedFile, home: str, other: str) -> StagedFile:
    staged = new_staged_name(file.target)
    copy_file(staged_path(job, file.staged), staged_path(job, staged))
    target = posixpath.join(other, file.target.removeprefix(f"{home}/"))
    return StagedFile(staged, target, file.size)


def close_empty(job: Job, part: EmptyLog) -> FinishedPartition:
    """A partition that begins at 0."""
    files: list[StagedFile] = []
    for home in part.homes:
        directory = posixpath.join(home, str(part.name))
        files += stage_segment(job, directory, 0, b"")
        files.append(stage_file(job, directory, PARTITION_METADATA, write_topic_id(part.topic_id)))
        files.append(stage_file(job, directory, LEADER_EPOCH_CHECKPOINT, write_leader_epochs([])))
    return FinishedPartition(files, account_row(*part.name))


def close_cluster(job: Job, part: ClusterFiles) -> FinishedPartition:
    """The files of each node, and the one snapshot that all of them start from."""
    snapshot = write_snapshot(part.records, _EPOCH, 0)
    name = snapshot_name(len(part.records) + 2, _EPOCH)
    files = []
    for node in part.cluster.nodes:
        made = files_of_node(part.cluster, node, part.request, job.out, part.ends, part.log_starts)
        for target, data in [*made, (f"{metadata_folder(node)}/{name}", snapshot)]:
            folder, _, base = target.rpartition("/")
            files.append(stage_file(job, folder, base, data))
    row = account_row(
        "__cluster_metadata", 0, writtenBytes=len(snapshot), writtenRecords=len(part.records)
    )
    return FinishedPartition(files, row)
