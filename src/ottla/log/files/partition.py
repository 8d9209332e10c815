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
from ottla.log.files.foreign import refuse_packed_segments, require_segment
from ottla.log.files.identity import read_topic_id
from ottla.log.files.small_files import read_small
from ottla.log.files.swaps import Named, Settled, settle, tell_swaps
from ottla.log.tiered.names import parse_object_name
from ottla.storage.files import open_file, special_file
from ottla.storage.listing import Entry, exists, list_files, list_tree
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage.paths import Path, is_remote, join, real_path


@dataclass(frozen=True, slots=True)
class Segment:
    """A log file and what lies beside it; NO_OFFSET is the base of a file that no offset names."""

    base_offset: int
    log: Entry
    side_files: Mapping[Kind, Entry]

    def beside(self, kind: Kind) -> str:
        """The path that a side file has, whether there is one or not."""
        folder, slash, name = self.log.path.rpartition("/")
        return f"{folder}{slash}{name.partition('.')[0]}{kind}"


@dataclass(frozen=True, slots=True)
class Partition:
    """The files of one directory. `named` are all that an offset names, in any state.

    `settled` are those that are the log, and segments are of them. `findings` are what was wrong
    with files that were looked at to tell which these are. One that `is_remote` lies in remote
    storage alone, and its folder is not named like a partition.
    """

    path: str
    name: TopicPartition
    state: DirectoryState
    segments: tuple[Segment, ...]
    named: tuple[Named, ...]
    settled: Settled
    others: Mapping[str, Entry]
    findings: tuple[Violation, ...] = ()
    is_remote: bool = False

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
        return [entry for _, entry in self.named] + list(self.others.values())


def topic_id_of(partition: Partition, storage: StorageOptions) -> str | None:
    """What partition.metadata says; a broken one says nothing."""
    entry = partition.others.get(PARTITION_METADATA)
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
        if not partition.segments:
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
    """The files that may be opened, by their names."""
    yield from directory.files.values()
    for partition in directory.partitions:
        yield from (segment.log for segment in partition.segments)
        yield from (entry for _, entry in partition.named)
        others = partition.others
        yield from (others[name] for name in sorted(PARTITION_FILES & others.keys()))


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
    entries, there = list_tree(path, options)
    if [entry.path for entry in entries] == [path.rstrip("/")]:
        if parse_object_name(path) is None:
            return [_directory_of_file(entries[0], options)]
        from ottla.log.tiered.tree import objects_beside  # needs what is defined here

        objects += objects_beside(path, options)
        return []
    objects += [entry for entry in entries if parse_object_name(entry.path) is not None]
    folders = _by_folder(entry for entry in entries if parse_object_name(entry.path) is None)
    homes: dict[str, list[Partition]] = defaultdict(list)
    for folder, files in folders.items():
        partition = _read_partition(folder, files, options)
        if partition.named or partition.name != UNNAMED:
            homes[posixpath.dirname(folder)].append(partition)
    return [
        _log_directory(home, partitions, folders, {*folders, *there}, path, options)
        for home, partitions in sorted(homes.items())
    ]


def _order(partition: Partition) -> tuple[object, ...]:
    return *natural_order(*partition.name), partition.state, partition.path


def _by_folder(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    folders: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        folders[posixpath.dirname(entry.path)].append(entry)
    return folders


def _log_directory(
    home: str,
    partitions: list[Partition],
    folders: Mapping[str, list[Entry]],
    there: Iterable[str],
    path: str,
    options: StorageOptions,
) -> LogDirectory:
    """`folders` have files; `there` are all, for a broker stops at empty ones too."""
    files = {posixpath.basename(entry.path): entry for entry in folders.get(home, ())}
    if home == posixpath.dirname(path.rstrip("/")):
        files = _known_files(home, options)
    known = {partition.path for partition in partitions if partition.name != UNNAMED}
    strangers = [
        folder
        for folder in there
        if posixpath.dirname(folder) == home
        and folder not in known
        and _stops_a_broker(posixpath.basename(folder))
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


def _read_partition(folder: str, entries: Sequence[Entry], options: StorageOptions) -> Partition:
    named, others = [], {}
    for entry in entries:
        base = posixpath.basename(entry.path)
        parsed = parse_file_name(base)
        if parsed:
            named.append((parsed, entry))
        else:
            others[base] = entry
    named.sort(key=lambda pair: (pair[0].offset, pair[0].kind, pair[0].state))
    settled = settle(named, options)
    tell_swaps(settled)
    parsed_name = parse_directory_name(posixpath.basename(folder))
    segments = _segments(settled.live)
    return Partition(folder, *parsed_name, segments, tuple(named), settled, others)


def _segments(live: Iterable[Named]) -> tuple[Segment, ...]:
    logs: dict[int, Entry] = {}
    sides: dict[int, dict[Kind, Entry]] = defaultdict(dict)
    for name, entry in live:
        if name.kind is Kind.METADATA_SNAPSHOT:
            continue
        if name.kind is Kind.LOG:
            logs[name.offset] = entry
        else:
            sides[name.offset][name.kind] = entry
    return tuple(Segment(base, log, sides[base]) for base, log in sorted(logs.items()))


def _directory_of_file(entry: Entry, options: StorageOptions) -> LogDirectory:
    """A segment file by itself, with the indexes beside it."""
    with open_file(entry, options) as file:
        require_segment(file)
    folder = posixpath.dirname(entry.path) or "."
    parsed = parse_file_name(posixpath.basename(entry.path))
    name, state = parse_directory_name(os.path.basename(os.path.abspath(folder)))
    if parsed is None:
        segments: tuple[Segment, ...] = (Segment(NO_OFFSET, entry, {}),)
        partition = Partition(folder, name, state, segments, (), Settled(()), {})
    else:
        named = _beside(entry, parsed, options)
        # Who names a file wants it, whatever a broker was about to do with it.
        live = tuple((replace(one, state=FileState.LIVE), other) for one, other in named)
        partition = Partition(folder, name, state, _segments(live), tuple(named), Settled(live), {})
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
