"""What is in a directory: log directories, their partitions, and the segments of each in order.

A path is a segment file, a partition directory, a log directory, or a prefix of an object store
that holds any of them (Pinterest uploads segments under `prefix/cluster/topic-partition/`), or
what remote storage keeps (`log/tiered`).
"""

import os
import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ottla.errors import CorruptLogError, OptionError, Term, Violation
from ottla.format.names import (
    LOG_DIRECTORY_FILES,
    PARTITION_FILES,
    PARTITION_METADATA,
    REMOTE_INDEX_CACHE,
    UNNAMED,
    DirectoryState,
    FileName,
    FileState,
    Kind,
    TopicPartition,
    natural_order,
    parse_directory_name,
    parse_file_name,
)
from ottla.format.sentinels import NO_OFFSET
from ottla.log.files.checkpoints import read_offset_checkpoint
from ottla.log.files.contents import (
    PartitionFiles,
    contents_of,
    find_segments,
    is_settled,
    settle_contents,
)
from ottla.log.files.contents import Segment as Segment
from ottla.log.files.foreign import refuse_packed_segments, require_segment
from ottla.log.files.identity import read_topic_id
from ottla.log.files.small_files import read_small
from ottla.log.files.swaps import Named, Settled
from ottla.log.tiered.names import may_hold_objects, parse_object_name
from ottla.storage.files import open_file, special_file
from ottla.storage.listing import Entry, Folder, exists, list_files, list_folders, pack_folder
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage.paths import Path, is_remote, join, real_path


@dataclass(frozen=True, slots=True)
class Partition:
    """The files of one directory: what they are, or as they were listed, to be parsed when needed.

    `findings` are what was wrong with files that were looked at to tell which are the log. One that
    `is_remote` lies in remote storage alone, and its folder is not named like a partition.
    """

    path: str
    name: TopicPartition
    state: DirectoryState
    files: PartitionFiles | Folder
    findings: tuple[Violation, ...] = ()
    is_remote: bool = False

    @property
    def contents(self) -> PartitionFiles:
        return contents_of(self.files) if isinstance(self.files, Folder) else self.files

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self.contents.segments

    @property
    def named(self) -> tuple[Named, ...]:
        """All files that an offset names, in any state."""
        return self.contents.named

    @property
    def settled(self) -> Settled:
        """The files that are the log, and those that are not."""
        return self.contents.settled

    @property
    def others(self) -> Mapping[str, Entry]:
        """The files that no offset names."""
        return self.contents.others

    def next_base_offset(self, index: int) -> int | None:
        """Where the segment after this one begins."""
        following = self.segments[index + 1 : index + 2]
        return following[0].base_offset if following else None

    @property
    def directory(self) -> str:
        """The name of its folder in a log directory."""
        return str(self.name) if self.is_remote else posixpath.basename(self.path)

    @property
    def title(self) -> str:
        """What people are told that it is."""
        return self.path if self.name == UNNAMED else f"{self.name}{self.state.mark}"

    @property
    def entries(self) -> list[Entry]:
        """Every file."""
        if isinstance(self.files, Folder):
            return self.files.entries()
        return [entry for _, entry in self.named] + list(self.others.values())

    def find(self, name: str) -> Entry | None:
        """A file that no offset names, if it is there: what was listed is not parsed for that."""
        found = self.files
        return found.find(name) if isinstance(found, Folder) else found.others.get(name)


def topic_id_of(partition: Partition, storage: StorageOptions) -> str | None:
    """What partition.metadata says; a broken one says nothing."""
    entry = partition.find(PARTITION_METADATA)
    if entry is None:
        return None
    try:
        return read_topic_id(read_small(entry, storage), entry.path)
    except CorruptLogError:
        return None


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """One log directory of a broker, or what stands for it.

    `strangers` are folders and files that stop a broker, or at least do not belong here.
    """

    path: str
    partitions: tuple[Partition, ...]
    files: Mapping[str, Entry]
    strangers: tuple[str, ...]


def read_log_directories(
    paths: Sequence[Path], options: StorageOptions = DEFAULT_OPTIONS
) -> list[LogDirectory]:
    """The log directories that the paths are, hold, or lie in."""
    objects: list[Entry] = []
    directories = [
        found for path in paths for found in _read_path(os.fspath(path), objects, options)
    ]
    if objects:
        from ottla.log.tiered.tree import with_remote  # needs what is defined here

        directories = with_remote(directories, objects, options)
    for partition in (partition for found in directories for partition in found.partitions):
        if not _has_segments(partition):
            refuse_packed_segments(entry.path for entry in partition.others.values())
    roots = [real_path(path) for path in paths if not is_remote(path)]
    for entry in (entry for directory in directories for entry in _readable(directory)):
        if entry.special is not None:
            raise special_file(entry.path, entry.special)
        if entry.leads_to is not None and not options.follow_links:
            _refuse_leading_out(entry.path, entry.leads_to, roots)
    return directories


def _refuse_leading_out(path: str, leads_to: str, roots: Sequence[str]) -> None:
    """Refuse a file that lies elsewhere: who owns a log directory must not choose what we read.

    A root may be a link, and so may the directory of a partition.
    """
    home = os.path.realpath(posixpath.dirname(path))
    if not any(os.path.commonpath([leads_to, root]) == root for root in (*roots, home)):
        raise OptionError(
            f"{path} is a link to {leads_to}, which lies in no path that was named: if it is meant,"
            " say ",
            Term.FOLLOW_LINKS,
        )


def _readable(directory: LogDirectory) -> Iterator[Entry]:
    """The files that may be opened, by their names; of those that are plain files it needs none."""
    yield from directory.files.values()
    for partition in directory.partitions:
        if isinstance(partition.files, Folder):
            found = partition.files.odd.items()
            yield from (entry for name, entry in found if _is_read(name))
            continue
        yield from (segment.log for segment in partition.segments)
        yield from (entry for _, entry in partition.named)
        others = partition.others
        yield from (others[name] for name in sorted(PARTITION_FILES & others.keys()))


def _is_read(name: str) -> bool:
    return name in PARTITION_FILES or parse_file_name(name) is not None


def find_partitions(
    paths: Sequence[Path], options: StorageOptions = DEFAULT_OPTIONS
) -> list[Partition]:
    """The partitions below the paths, whatever state their directories are in."""
    found = read_log_directories(paths, options)
    return [partition for directory in found for partition in directory.partitions]


def read_checkpoint(
    directory: LogDirectory, name: str, options: StorageOptions = DEFAULT_OPTIONS
) -> dict[TopicPartition, int]:
    """What a checkpoint of a log directory says of its partitions; nothing if there is none."""
    entry = directory.files.get(name)
    return {} if entry is None else read_offset_checkpoint(read_small(entry, options), entry.path)


def _read_path(path: str, objects: list[Entry], options: StorageOptions) -> list[LogDirectory]:
    """The log directories; what is of remote storage is added to `objects`."""
    listed, there = list_folders(path, options)
    if [*map(len, listed)] == [1]:
        (entry,) = listed[0].entries()
        if entry.path == path.rstrip("/"):
            if parse_object_name(path) is None:
                return [_directory_of_file(entry, options)]
            from ottla.log.tiered.tree import objects_beside  # needs what is defined here

            objects += objects_beside(path, options)
            return []
    folders: dict[str, Folder] = {}
    homes: dict[str, list[Partition]] = defaultdict(list)
    for folder in (_without_objects(each, objects) for each in listed):
        if len(folder):
            folders[folder.path] = folder
            partition = _find_partition(folder, options)
            if partition is not None:
                homes[posixpath.dirname(folder.path)].append(partition)
    inside: dict[str, list[str]] = defaultdict(list)
    for each in {*folders, *there}:
        inside[posixpath.dirname(each)].append(each)
    return [
        _log_directory(home, partitions, folders.get(home), inside[home], path, options)
        for home, partitions in sorted(homes.items())
    ]


def _without_objects(folder: Folder, objects: list[Entry]) -> Folder:
    """The files that are not of remote storage; the others are added to `objects`."""
    if not may_hold_objects(folder.names):
        return folder
    entries = folder.entries()
    objects += [entry for entry in entries if parse_object_name(entry.path) is not None]
    rest = [entry for entry in entries if parse_object_name(entry.path) is None]
    return folder if len(rest) == len(entries) else pack_folder(folder.path, rest)


def _find_partition(folder: Folder, options: StorageOptions) -> Partition | None:
    name, state = parse_directory_name(posixpath.basename(folder.path))
    if name == UNNAMED and not any(map(parse_file_name, folder.file_names())):
        return None
    files = folder if is_settled(folder) else settle_contents(folder, options)
    return Partition(folder.path, name, state, files)


def _has_segments(partition: Partition) -> bool:
    """Without parsing what was listed, where that is plain to see."""
    if isinstance(partition.files, Folder):
        logs = (name for name in partition.files.file_names() if name.endswith(Kind.LOG))
        return any(map(parse_file_name, logs))
    return bool(partition.segments)


def _order(partition: Partition) -> tuple[object, ...]:
    return *natural_order(*partition.name), partition.state, partition.path


def _log_directory(
    home: str,
    partitions: list[Partition],
    folder: Folder | None,
    inside: Iterable[str],
    path: str,
    options: StorageOptions,
) -> LogDirectory:
    """`folder` has its files; `inside` are all folders in it, for a broker stops at empty ones."""
    entries = [] if folder is None else folder.entries()
    files = {posixpath.basename(entry.path): entry for entry in entries}
    if home == posixpath.dirname(path.rstrip("/")):
        files = _known_files(home, options)
    known = {partition.path for partition in partitions if partition.name != UNNAMED}
    strangers = [
        each for each in inside if each not in known and _stops_a_broker(posixpath.basename(each))
    ]
    ours = {name: entry for name, entry in files.items() if name in LOG_DIRECTORY_FILES}
    ordered = tuple(sorted(partitions, key=_order))
    return LogDirectory(home, ordered, ours, tuple(sorted(strangers)))


def _stops_a_broker(name: str) -> bool:
    """Whether a folder of this name is no partition, nor the one that a broker skips."""
    return name != REMOTE_INDEX_CACHE and parse_directory_name(name)[0] == UNNAMED


def _known_files(home: str, options: StorageOptions) -> dict[str, Entry]:
    """What lies beside a partition that was named by itself; a bucket has no checkpoints."""
    if is_remote(home):
        return {}
    paths = {name: join(home, name) for name in sorted(LOG_DIRECTORY_FILES)}
    return {
        name: list_files(path, options)[0] for name, path in paths.items() if exists(path, options)
    }


def _directory_of_file(entry: Entry, options: StorageOptions) -> LogDirectory:
    """A segment file by itself, with the indexes beside it."""
    with open_file(entry, options) as file:
        require_segment(file)
    folder = posixpath.dirname(entry.path) or "."
    parsed = parse_file_name(posixpath.basename(entry.path))
    name, state = parse_directory_name(os.path.basename(os.path.abspath(folder)))
    if parsed is None:
        contents = PartitionFiles((Segment(NO_OFFSET, entry, {}),), (), Settled(()), {})
    else:
        named = _beside(entry, parsed, options)
        # Who names a file wants it, whatever a broker was about to do with it.
        live = tuple((replace(one, state=FileState.LIVE), other) for one, other in named)
        contents = PartitionFiles(find_segments(live), tuple(named), Settled(live), {})
    partition = Partition(folder, name, state, contents)
    return LogDirectory(posixpath.dirname(folder), (partition,), {}, ())


def _beside(entry: Entry, parsed: FileName, options: StorageOptions) -> list[Named]:
    """A file and the indexes that are in the same state."""
    stem = entry.path.removesuffix(f"{parsed.kind}{parsed.state}")
    named = [(parsed, entry)]
    for kind in Kind:
        path = f"{stem}{kind}{parsed.state}"
        if kind not in (Kind.LOG, Kind.METADATA_SNAPSHOT, parsed.kind) and exists(path, options):
            named.append((replace(parsed, kind=kind), list_files(path, options)[0]))
    return named
