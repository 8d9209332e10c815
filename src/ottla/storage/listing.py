"""Find files on a local path or below a URI."""

import os
import posixpath
import stat
from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyarrow import fs

from ottla.storage.kept.source import Keeping
from ottla.storage.object_store import (
    AZURE,
    DEFAULT_OPTIONS,
    GCS,
    S3,
    StorageOptions,
    connect,
    parse_address,
)
from ottla.storage.paths import Path, is_remote, local_path
from ottla.storage.retries import Requests, counted_requests, send

_SPECIAL: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_OF_FILE_SYSTEM: Final = "lost+found"  # in the root of a disk, for its administrator alone
_LISTERS: Final = 32  # requests of an object store that are under way at once
_ASKED: Final = 4096  # prefixes that wait for a lister
_ONLY_WHOLE: Final = frozenset({GCS})  # Arrow shows no folders of it
# Of Azure's store Arrow asks for each prefix by itself, one after another.
_CHEAPER_WHOLE: Final = frozenset({S3, GCS})
_UNSIGNED: Final = (1 << 64) - 1
_NO_ODD: Final[Mapping[str, "Entry"]] = {}  # one for all


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as it was when it was listed; an object store has no inodes, so 0.

    `leads_to` is the file behind a symbolic link; `special` is what has no bytes of its own. `kept`
    says how the bytes are had, where they are not those of the path.
    """

    path: str
    size: int
    modified_ns: int
    inode: int = 0
    leads_to: str | None = None
    special: str | None = None
    kept: Keeping | None = None


@dataclass(frozen=True, slots=True)
class Folder:
    """The files directly in a folder, by name, as they were when it was listed.

    Packed: entries of a million segments are gigabytes. `names` are joined by slashes, `numbers`
    has size, time and inode of each; an entry that says more, or has no room there, is `odd` and
    whole.
    """

    path: str
    names: str
    numbers: "array[int]"
    odd: Mapping[str, Entry]

    def __hash__(self) -> int:
        return hash((self.path, self.names))

    def __len__(self) -> int:
        return len(self.numbers) // 3

    def file_names(self) -> list[str]:
        """The names of the files, in order."""
        return self.names.split("/") if self.names else []

    def find(self, name: str) -> Entry | None:
        """One file, if it is there."""
        names = self.file_names()
        if name not in names or name in self.odd:
            return self.odd.get(name)
        size, modified, inode = self.numbers[3 * (at := names.index(name)) : 3 * at + 3]
        return Entry(posixpath.join(self.path, name), size, modified, inode & _UNSIGNED)

    def entries(self) -> list[Entry]:
        """The files, in order."""
        above, numbers = posixpath.join(self.path, ""), iter(self.numbers)
        return [
            self.odd.get(name) or Entry(above + name, size, modified, inode & _UNSIGNED)
            for name, size, modified, inode in zip(
                self.file_names(), numbers, numbers, numbers, strict=True
            )
        ]


def pack_folder(path: str, entries: Iterable[Entry]) -> Folder:
    """Entries of files that lie directly in a folder."""
    names, numbers, odd = [], array("q"), {}
    above = posixpath.join(path, "")
    for entry in sorted(entries, key=lambda entry: entry.path):
        name = posixpath.basename(entry.path)
        names.append(name)
        modified = _packed(entry.modified_ns)
        numbers.extend((entry.size, modified, _signed(entry.inode)))
        beside = (entry.leads_to, entry.special, entry.kept)
        if (entry.path, modified, *beside) != (above + name, entry.modified_ns, None, None, None):
            odd[name] = entry
    return Folder(path, "/".join(names), numbers, odd or _NO_ODD)


def _packed(modified_ns: int) -> int:
    """A time as it is packed: 0 if it has no room there, before 1677 or after 2262."""
    return modified_ns if abs(modified_ns) <= _UNSIGNED >> 1 else 0


def _signed(inode: int) -> int:
    return inode if inode <= _UNSIGNED >> 1 else inode - _UNSIGNED - 1


def exists(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> bool:
    """Whether there is a file or directory."""
    if not is_remote(path):
        return os.path.exists(local_path(path))
    return bool(_look_for(os.fspath(path), options).type != fs.FileType.NotFound)


def _look_for(uri: str, options: StorageOptions) -> fs.FileInfo:
    system, key = connect(uri, options)
    info = send("looking for", uri, lambda: system.get_file_info(key))
    store = parse_address(uri).store
    if info.type == fs.FileType.NotFound and store in (AZURE, GCS):
        # Arrow may be wrong: on Azure it looks only at the first name that begins like this one,
        # and OUT.ottla comes before OUT/; of Google's store it takes a failure for an answer.
        selector = fs.FileSelector(key, allow_not_found=True, recursive=store == GCS)
        if send("looking for", uri, lambda: system.get_file_info(selector)):
            return fs.FileInfo(key, fs.FileType.Directory)
    return info


def list_names(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> list[str]:
    """The names of what lies directly in a directory or below a prefix; none if it is not there."""
    if not is_remote(path):
        return sorted(os.listdir(local_path(path))) if exists(path) else []
    system, key = connect(os.fspath(path), options)
    # Arrow shows no folder of Google's store that has no object of its own.
    deep = parse_address(os.fspath(path)).store == GCS
    selector = fs.FileSelector(key, allow_not_found=True, recursive=deep)
    found = send("listing", os.fspath(path), lambda: system.get_file_info(selector))
    return sorted({item.path.removeprefix(f"{key}/").partition("/")[0] for item in found})


def list_files(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> list[Entry]:
    """Every file below a directory or prefix in order of name, or the file itself.

    A store is asked as seldom as can be: whoever writes lists OUT again at every commit.
    """
    if is_remote(path):
        folders = _list_remote(os.fspath(path), options, _CHEAPER_WHOLE)
    else:
        folders = _list_local(path, [])
    found = (entry for folder in folders for entry in folder.entries())
    return sorted(found, key=lambda entry: entry.path)


def list_folders(
    path: Path, options: StorageOptions = DEFAULT_OPTIONS
) -> tuple[list[Folder], list[str]]:
    """The same by folders that have files, or one with the file itself.

    Of many keys in a store sooner, by more requests. On a local disk all folders too: only of empty
    ones no file tells.
    """
    there: list[str] = []
    if is_remote(path):
        found = _list_remote(os.fspath(path), options, _ONLY_WHOLE)
    else:
        found = _list_local(path, there)
    return sorted(found, key=lambda folder: folder.path), there


def _list_local(path: Path, there: list[str]) -> Iterator[Folder]:
    root = local_path(path)
    if not os.path.isdir(root):
        yield pack_folder(os.path.dirname(root), [_entry(root)])
        return
    # What links lead to comes after what is there by itself: no link hides it by a name of its own.
    seen, roots = set(), deque([root])
    while roots:
        root = roots.popleft()
        left = [(root, os.path.realpath(root))]
        while left:
            path, real = left.pop()
            if real in seen:  # what lies here and below is listed already
                continue
            seen.add(real)
            folder, below, links = _scan(path)
            there += [os.path.join(path, name) for name in below + links]
            roots += [os.path.join(path, name) for name in links]
            left += [(os.path.join(path, name), os.path.join(real, name)) for name in below]
            if len(folder):
                yield folder


def _scan(path: str) -> tuple[Folder, list[str], list[str]]:
    """The files of a folder, the names of folders in it, and of links that lead to folders."""
    names: list[str] = []
    numbers, odd = array("q"), dict[str, Entry]()
    folders: list[str] = []
    links: list[str] = []
    try:
        with os.scandir(path) as scanned:
            found = sorted(scanned, key=lambda each: each.name)
    except OSError as error:
        _unlisted(error)
        found = []
    for each in found:
        try:
            if each.is_dir():
                (links if each.is_symlink() else folders).append(each.name)
                continue
            status = each.stat(follow_symlinks=False)
            modified = _packed(status.st_mtime_ns)
            if not stat.S_ISREG(status.st_mode) or modified != status.st_mtime_ns:
                odd[each.name] = _entry(each.path)
        except FileNotFoundError:
            continue  # deleted by a live broker since its directory was read
        names.append(each.name)
        numbers.extend((status.st_size, modified, _signed(status.st_ino)))
    folder = posixpath.dirname(os.path.join(path, "-"))  # without a slash at its end
    return Folder(folder, "/".join(names), numbers, odd or _NO_ODD), folders, links


def _unlisted(error: OSError) -> None:
    """Pass over a directory that a live broker has deleted, but not one that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return
    if not (isinstance(error, PermissionError) and _is_of_file_system(error.filename)):
        raise error


def _is_of_file_system(folder: str) -> bool:
    return os.path.basename(folder) == _OF_FILE_SYSTEM


def _entry(path: str) -> Entry:
    status = os.lstat(path)
    leads_to = None
    if stat.S_ISLNK(status.st_mode):
        status, leads_to = os.stat(path), os.path.realpath(path)
    return Entry(
        path, status.st_size, status.st_mtime_ns, status.st_ino, leads_to, special_kind(status)
    )


def special_kind(status: os.stat_result) -> str | None:
    """What it is that has no bytes of its own, or None of a file and a directory."""
    return _SPECIAL.get(stat.S_IFMT(status.st_mode))


def _list_remote(uri: str, options: StorageOptions, whole: frozenset[str]) -> Iterable[Folder]:
    """By a request for every thousand keys, where the store is one of `whole`."""
    if parse_address(uri).store == GCS:  # who looks for a prefix there lists all that is below it
        found = _list_below(uri, connect(uri, options)[1], options)
        if found:
            return found
    info = _look_for(uri, options)
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(f"no such object or prefix: {uri}")
    if info.type == fs.FileType.File:
        path = uri.rstrip("/")
        file = Entry(path, info.size, info.mtime_ns or 0)
        return [pack_folder(posixpath.dirname(path), [file])]
    if parse_address(uri).store in whole:
        _, key = connect(uri, options)
        return _list_below(uri, key, options)
    return _list_prefixes(uri, options)


def _list_prefixes(uri: str, options: StorageOptions) -> Iterator[Folder]:
    """Prefixes are listed beside each other: a store gives the next thousand keys of one only after
    those before, and Arrow gives none of them before all are there.
    """
    system, key = connect(uri, options)
    top = send("listing", uri, lambda: system.get_file_info(fs.FileSelector(key)))
    prefixes = [item.path for item in top if item.type == fs.FileType.Directory]
    yield from _fold(top, uri, key)
    # Counted by this thread: those that list have nobody who counts.
    list_one = partial(_list_below, uri, options=options, counted=counted_requests())
    with ThreadPoolExecutor(_LISTERS, thread_name_prefix="ottla-list") as listers:
        for at in range(0, len(prefixes), _ASKED):
            for folders in listers.map(list_one, prefixes[at : at + _ASKED]):
                yield from folders


def _list_below(
    uri: str, prefix: str, options: StorageOptions, counted: Requests | None = None
) -> list[Folder]:
    system, key = connect(uri, options)
    # What was there a moment ago may be gone.
    selector = fs.FileSelector(prefix, allow_not_found=True, recursive=True)
    found = send("listing", uri, lambda: system.get_file_info(selector), counted)
    return _fold(found, uri, key)


def _fold(items: Iterable[Any], uri: str, key: str) -> list[Folder]:
    """The files among what a store lists, by folder."""
    root = uri.rstrip("/")
    folders: dict[str, list[Entry]] = defaultdict(list)
    for item in items:
        if item.type == fs.FileType.File:
            entry = Entry(root + item.path.removeprefix(key), item.size, item.mtime_ns or 0)
            folders[posixpath.dirname(entry.path)].append(entry)
    return [pack_folder(path, entries) for path, entries in folders.items()]
