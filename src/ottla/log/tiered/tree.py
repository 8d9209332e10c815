"""Remote objects below paths, folder by folder, and what they make of the partitions found there.

A remote log is a partition like any other. Where a log directory of the same topic id is there too
the two are one: remote up to where the local log begins, local from there.
"""

import os
import posixpath
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ottla.format.names import DirectoryState, TopicPartition
from ottla.internal.records import REMOTE_LOG_METADATA
from ottla.log.files.partition import LogDirectory, Partition, topic_id_of
from ottla.log.tiered.names import (
    ObjectName,
    ObjectPart,
    parse_aiven_home,
    parse_kafka_home,
    parse_object_name,
)
from ottla.log.tiered.segments import (
    RemoteLog,
    folder_of,
    read_aiven_log,
    read_plain_log,
    uploads_of,
)
from ottla.log.tiered.settle import as_partition, join_partition
from ottla.log.tiered.states import keep_finished
from ottla.storage.listing import Entry, list_files
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import is_remote, local_path

_OF_AIVEN = frozenset({ObjectPart.MANIFEST, ObjectPart.INDEXES})
Objects = Sequence[tuple[ObjectName, Entry]]


def objects_beside(path: str, options: StorageOptions) -> list[Entry]:
    """The objects of the segment that one object is of."""
    wanted = parse_object_name(path)
    folder = posixpath.dirname(path) or "."
    found = ((parse_object_name(entry.path), entry) for entry in list_files(folder, options))
    return [
        entry
        for name, entry in found
        if name is not None and wanted is not None and name[:2] == wanted[:2]
    ]


def with_remote(
    directories: Sequence[LogDirectory], objects: Iterable[Entry], options: StorageOptions
) -> list[LogDirectory]:
    """The log directories with the remote logs that objects make."""
    logs = _read_logs(objects, options)
    metadata = [
        partition
        for directory in directories
        for partition in directory.partitions
        if partition.name.topic == REMOTE_LOG_METADATA and partition.state is DirectoryState.LIVE
    ]
    logs = keep_finished(logs, metadata, options)
    joined: set[str] = set()
    named: dict[TopicPartition, list[RemoteLog]] = defaultdict(list)
    for log in logs:
        named[log.home.name].append(log)
    together = [
        replace(
            directory,
            partitions=tuple(
                _join(each, named.get(each.name, ()), joined, options)
                for each in directory.partitions
            ),
        )
        for directory in directories
    ]
    homes: dict[str, list[Partition]] = defaultdict(list)
    for log in logs:
        if log.path not in joined:
            homes[_home_of(log)].append(as_partition(log, options))
    remote = [
        LogDirectory(home, tuple(sorted(found, key=lambda each: each.name)), {}, ())
        for home, found in sorted(homes.items())
    ]
    return [*together, *remote]


def _home_of(log: RemoteLog) -> str:
    """Where folders of topics lie, which is two above Aiven's segments."""
    above = posixpath.dirname(log.path)
    return above if parse_kafka_home(log.path) is not None else posixpath.dirname(above)


def _read_logs(objects: Iterable[Entry], options: StorageOptions) -> list[RemoteLog]:
    folders: dict[str, list[tuple[ObjectName, Entry]]] = defaultdict(list)
    for entry in objects:
        name = parse_object_name(entry.path)
        if name is not None:
            folders[folder_of(entry)].append((name, entry))
    found = (_read_folder(folder, held, options) for folder, held in sorted(folders.items()))
    return [log for log in found if log is not None]


def _read_folder(folder: str, objects: Objects, options: StorageOptions) -> RemoteLog | None:
    full = folder if is_remote(folder) else os.path.abspath(local_path(folder))
    uploads, plain = uploads_of(objects), parse_kafka_home(full)
    if plain is not None and not any(name.part in _OF_AIVEN for name, _ in objects):
        return read_plain_log(folder, plain, uploads, options)
    return read_aiven_log(folder, parse_aiven_home(full), uploads, options)


def _join(
    partition: Partition, logs: Sequence[RemoteLog], joined: set[str], options: StorageOptions
) -> Partition:
    if partition.state is not DirectoryState.LIVE:
        return partition
    for log in logs:
        if topic_id_of(partition, options) == log.home.topic_id:
            joined.add(log.path)
            return join_partition(partition, log, options)
    return partition
