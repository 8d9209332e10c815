"""Remote segments: what is known of each upload, from its manifest or from plain files."""

import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from ottla.errors import CorruptLogError, Rule, Violation
from ottla.format.names import Kind
from ottla.log.files.checkpoints import (
    EpochStart,
    check_leader_epochs,
    read_leader_epochs,
    truncate_epochs_from_end,
    truncate_epochs_from_start,
)
from ottla.log.files.small_files import read_small
from ottla.log.tiered.manifest import MAX_MANIFEST_BYTES, IndexSpan, Manifest, read_manifest
from ottla.log.tiered.names import Home, ObjectName, ObjectPart
from ottla.storage.kept.chunks import SEAL_BYTES, Chunked, ChunkSizes, Seal
from ottla.storage.kept.views import literal_entry
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions

_AT_ONCE: Final = 16  # requests
_OF_INDEXES: Final = {
    "offset": Kind.OFFSET_INDEX,
    "timestamp": Kind.TIME_INDEX,
    "transaction": Kind.TRANSACTION_INDEX,
}
_OF_FILES: Final = {
    ObjectPart.OFFSET_INDEX: Kind.OFFSET_INDEX,
    ObjectPart.TIME_INDEX: Kind.TIME_INDEX,
    ObjectPart.TRANSACTION_INDEX: Kind.TRANSACTION_INDEX,
}


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A segment that was uploaded whole: offsets from `start` to `end`, with its own `epochs`.

    `leader_epochs` is the checkpoint of all epochs up to its end, `snapshot` that of the producers
    behind its end. One that is not whole has a log of another size than it was uploaded with, or
    one that breaks off.
    """

    segment_id: str
    start: int
    end: int
    epochs: tuple[EpochStart, ...]
    event_ms: int
    log: Entry
    sides: Mapping[Kind, Entry]
    snapshot: Entry | None
    leader_epochs: Entry | None
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class RemoteLog:
    """What remote storage has of a partition: whole segments, and what is wrong with the rest."""

    path: str
    home: Home
    segments: tuple[RemoteSegment, ...]
    findings: tuple[Violation, ...]


Objects = Mapping[ObjectPart, Entry]
_Read = tuple[RemoteSegment | None, Home | None, list[Violation]]


def read_aiven_log(
    folder: str,
    home: Home | None,
    uploads: Mapping[tuple[int, str], Objects],
    options: StorageOptions,
) -> RemoteLog | None:
    """A folder of Aiven's objects; None if nothing in it says whose they are."""
    with ThreadPoolExecutor(_AT_ONCE, "ottla-manifest") as pool:
        read = list(pool.map(lambda pair: _read_aiven(pair[0], pair[1], options), uploads.items()))
    home = _name_home(home, Counter(one for _, one, _ in read if one is not None))
    if home is None:
        return None
    findings = [violation for _, _, violations in read for violation in violations]
    segments = []
    for segment, one, _ in read:
        if segment is not None and one == home:
            segments.append(segment)
        elif segment is not None:
            findings.append(_stranger(segment, one, home))
    return RemoteLog(folder, home, tuple(segments), tuple(findings))


def _name_home(folder: Home | None, told: Counter[Home]) -> Home | None:
    """Whose a folder is: its name may have a prefix glued to it, which manifests do not have.

    Most of those that can be right decide; of as many, the one that leaves the shortest prefix.
    """
    fitting = [
        one
        for one in told
        if folder is None
        or (
            (one.topic_id, one.name.partition) == (folder.topic_id, folder.name.partition)
            and folder.name.topic.endswith(one.name.topic)
        )
    ]
    return max(fitting, key=lambda one: (told[one], len(one.name.topic)), default=folder)


def _stranger(segment: RemoteSegment, told: Home | None, home: Home) -> Violation:
    detail = "a segment of another partition than those beside it"
    found = None if told is None else f"{told.name} {told.topic_id}"
    path, expected = segment.log.path, f"{home.name} {home.topic_id}"
    return Violation(Rule.REMOTE_MANIFEST_READABLE, detail, path, 0, found=found, expected=expected)


def _read_aiven(key: tuple[int, str], objects: Objects, options: StorageOptions) -> _Read:
    manifest_entry = objects.get(ObjectPart.MANIFEST)
    if manifest_entry is None:
        return None, None, [_unfinished(entry) for entry in objects.values()]
    try:
        data = read_small(manifest_entry, options, MAX_MANIFEST_BYTES)
        manifest = read_manifest(data, manifest_entry.path)
    except FileNotFoundError:
        return None, None, []  # its owner has deleted the segment since it was listed
    except CorruptLogError as error:
        return None, None, [replace(error.violation, rule=Rule.REMOTE_MANIFEST_READABLE)]
    home = Home(manifest.name, manifest.topic_id)
    if (manifest.start_offset, manifest.segment_id) != key:
        told = f"{manifest.start_offset:020d}-{manifest.segment_id}"
        detail, expected = "the manifest is of another segment", f"{key[0]:020d}-{key[1]}"
        broken = Violation(
            *(Rule.REMOTE_MANIFEST_READABLE, detail, manifest_entry.path, 0),
            found=told,
            expected=expected,
        )
        return None, home, [broken]
    missing = [part for part in (ObjectPart.LOG, ObjectPart.INDEXES) if part not in objects]
    violations = [_missing(manifest_entry, part) for part in missing]
    violations += _check_sizes(manifest, objects)
    if ObjectPart.LOG not in objects:
        return None, home, violations
    return _segment_of(manifest, objects), home, violations


def _unfinished(entry: Entry) -> Violation:
    detail = (
        "no manifest says what it is: an upload that did not finish, or one that was deleted in"
        " part; it is not read"
    )
    return Violation(Rule.REMOTE_OBJECT_FINISHED, detail, entry.path, 0, size=entry.size)


def _missing(entry: Entry, part: ObjectPart) -> Violation:
    detail = f"the manifest is there, and the object {part} beside it is not"
    return Violation(Rule.REMOTE_OBJECT_COMPLETE, detail, entry.path, 0)


def _check_sizes(manifest: Manifest, objects: Objects) -> Iterator[Violation]:
    log, indexes = objects.get(ObjectPart.LOG), objects.get(ObjectPart.INDEXES)
    if log is not None and log.size != manifest.sizes.total:
        yield _other_size(log, manifest.sizes.total)
    expected = max((span.position + span.size for span in manifest.indexes.values()), default=0)
    if indexes is not None and indexes.size != expected:
        yield _other_size(indexes, expected)


def _other_size(entry: Entry, expected: int) -> Violation:
    detail = "the object has another size than its manifest says"
    return Violation(
        *(Rule.REMOTE_OBJECT_COMPLETE, detail, entry.path, min(entry.size, expected)),
        found=f"{entry.size} bytes",
        expected=f"{expected}",
    )


def _segment_of(manifest: Manifest, objects: Objects) -> RemoteSegment:
    stored = objects[ObjectPart.LOG]
    kept = Chunked(
        stored,
        0,
        manifest.size,
        manifest.chunk_size,
        manifest.sizes,
        manifest.compressed,
        manifest.seal,
    )
    log = replace(stored, size=manifest.size, inode=0, kept=kept)
    if manifest.size == 0:
        log = literal_entry(stored.path, b"", stored.modified_ns)
    indexes = objects.get(ObjectPart.INDEXES)
    parts = (
        {}
        if indexes is None
        else {
            name: _index_entry(indexes, name, span, manifest.seal)
            for name, span in manifest.indexes.items()
        }
    )
    sides = {kind: parts[name] for name, kind in _OF_INDEXES.items() if name in parts}
    if Kind.TRANSACTION_INDEX in sides and sides[Kind.TRANSACTION_INDEX].size == 0:
        del sides[Kind.TRANSACTION_INDEX]
    return RemoteSegment(
        manifest.segment_id,
        manifest.start_offset,
        manifest.end_offset,
        manifest.epochs,
        manifest.event_ms,
        log,
        sides,
        parts.get("producerSnapshot"),
        parts.get("leaderEpoch"),
        is_whole=stored.size == manifest.sizes.total,
    )


def _index_entry(indexes: Entry, name: str, span: IndexSpan, seal: Seal | None) -> Entry:
    """An index by itself; the name of its object is followed by its own."""
    path = f"{indexes.path}:{name}"
    if span.size == 0:
        return literal_entry(path, b"", indexes.modified_ns)
    size = span.size - (0 if seal is None else SEAL_BYTES)
    sizes = ChunkSizes(1, span.size, span.size)
    kept = Chunked(indexes, span.position, size, max(size, 1), sizes, seal=seal)
    return replace(indexes, path=path, size=size, inode=0, kept=kept)


def read_plain_log(
    folder: str,
    home: Home,
    uploads: Mapping[tuple[int, str], Objects],
    options: StorageOptions,
) -> RemoteLog:
    """A folder of LocalTieredStorage: copies of the files of each segment."""
    with ThreadPoolExecutor(_AT_ONCE, "ottla-remote") as pool:
        read = list(pool.map(lambda pair: _read_plain(pair[0], pair[1], options), uploads.items()))
    segments = tuple(segment for segment, _ in read if segment is not None)
    findings = tuple(violation for _, violations in read for violation in violations)
    return RemoteLog(folder, home, segments, findings)


def _read_plain(
    key: tuple[int, str], objects: Objects, options: StorageOptions
) -> tuple[RemoteSegment | None, list[Violation]]:
    from ottla.log.read.next_offset import read_next_offset  # with kernels: help does not wait

    log = objects.get(ObjectPart.LOG)
    if log is None:
        return None, [_unfinished(entry) for entry in objects.values()]
    start, segment_id = key
    try:
        following = read_next_offset(log, objects.get(ObjectPart.OFFSET_INDEX), start, options)
        epochs, broken = _own_epochs(
            objects.get(ObjectPart.LEADER_EPOCHS), start, following, options
        )
    except FileNotFoundError:
        return None, []  # deleted since it was listed
    segment = RemoteSegment(
        segment_id,
        start,
        max(start, following - 1),
        epochs,
        log.modified_ns // 1_000_000,
        log,
        {kind: objects[part] for part, kind in _OF_FILES.items() if part in objects},
        objects.get(ObjectPart.SNAPSHOT),
        objects.get(ObjectPart.LEADER_EPOCHS),
        is_whole=following > start,
    )
    return segment, broken


def _own_epochs(
    entry: Entry | None, start: int, following: int, options: StorageOptions
) -> tuple[tuple[EpochStart, ...], list[Violation]]:
    """The epochs that wrote a segment (RemoteLogManager.copyLogSegment)."""
    if entry is None:
        return (), []
    epochs, broken = read_epochs(entry, options)
    own = truncate_epochs_from_start(truncate_epochs_from_end(epochs, following), start)
    return tuple(own), broken


def read_epochs(
    entry: Entry, options: StorageOptions
) -> tuple[Sequence[EpochStart], list[Violation]]:
    """A checkpoint of leader epochs; none, and why, if it can not be right."""
    try:
        epochs = read_leader_epochs(read_small(entry, options), entry.path)
    except CorruptLogError as error:
        return (), [error.violation]
    broken = list(check_leader_epochs(epochs, entry.path))
    return ((), broken) if broken else (epochs, [])


def uploads_of(
    objects: Sequence[tuple[ObjectName, Entry]],
) -> dict[tuple[int, str], dict[ObjectPart, Entry]]:
    """Objects by their segments, in order."""
    found: dict[tuple[int, str], dict[ObjectPart, Entry]] = {}
    for name, entry in sorted(objects, key=lambda pair: pair[0]):
        found.setdefault((name.start_offset, name.segment_id), {})[name.part] = entry
    return found


def folder_of(entry: Entry) -> str:
    """The folder that an object lies in."""
    return posixpath.dirname(entry.path)
