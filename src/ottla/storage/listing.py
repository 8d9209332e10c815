"""Find files on a local path or below a URI."""

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyarrow import fs

from ottla.storage.kept.source import Keeping
from ottla.storage.object_store import (
    AZURE,
    DEFAULT_OPTIONS,
    GCS,
    StorageOptions,
    connect,
    parse_address,
)
from ottla.storage.paths import Path, is_remote, local_path

_SPECIAL: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_OF_FILE_SYSTEM: Final = "lost+found"  # in the root of a disk, for its administrator alone


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


def exists(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> bool:
    """Whether there is a file or directory."""
    if not is_remote(path):
        return os.path.exists(local_path(path))
    return _find(os.fspath(path), options).type != fs.FileType.NotFound


def _find(uri: str, options: StorageOptions) -> Any:
    """What Arrow knows of an object or prefix.

    Of Azure it looks at the first name that begins so: of `OUT`, at `OUT.ottla` and not `OUT/a`.
    """
    system, key = connect(uri, options)
    info = system.get_file_info(key)
    if info.type == fs.FileType.NotFound and parse_address(uri).store == AZURE:
        inside = system.get_file_info(fs.FileSelector(key, allow_not_found=True))
        return fs.FileInfo(key, fs.FileType.Directory) if inside else info
    return info


def list_names(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> list[str]:
    """The names of what lies directly in a directory or below a prefix; none if it is not there."""
    if not exists(path, options):
        return []
    if not is_remote(path):
        return sorted(os.listdir(local_path(path)))
    system, key = connect(os.fspath(path), options)
    # Arrow shows no folder of Google's store that has no object of its own.
    deep = parse_address(os.fspath(path)).store == GCS
    found = system.get_file_info(fs.FileSelector(key, recursive=deep))
    return sorted({item.path.removeprefix(f"{key}/").partition("/")[0] for item in found})


def list_files(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> list[Entry]:
    """Every file below a directory or prefix in order of name, or the file itself."""
    return list_tree(path, options)[0]


def list_tree(
    path: Path, options: StorageOptions = DEFAULT_OPTIONS
) -> tuple[list[Entry], list[str]]:
    """The same, and on a local disk the folders too: only of empty ones no file tells."""
    folders: list[str] = []
    remote = is_remote(path)
    found = _list_remote(os.fspath(path), options) if remote else _list_local(path, folders)
    return sorted(found, key=lambda entry: entry.path), folders


def _list_local(path: Path, folders: list[str]) -> Iterator[Entry]:
    root = local_path(path)
    if not os.path.isdir(root):
        yield _entry(root)
        return
    # What links lead to comes after what is there by itself: no link hides it by a name of its own.
    seen, roots = set(), deque([root])
    while roots:
        for folder, below, names in os.walk(roots.popleft(), onerror=_unlisted):
            real = os.path.realpath(folder)
            if real in seen:  # what lies here and below is listed already
                below.clear()
                continue
            seen.add(real)
            paths = [os.path.join(folder, name) for name in below]
            folders += paths
            roots += sorted(filter(os.path.islink, paths))
            yield from _entries(os.path.join(folder, name) for name in names)


def _entries(paths: Iterable[str]) -> Iterator[Entry]:
    for path in paths:
        try:
            yield _entry(path)
        except FileNotFoundError:
            continue  # deleted by a live broker since its directory was read


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


def _list_remote(uri: str, options: StorageOptions) -> Iterator[Entry]:
    system, key = connect(uri, options)
    root = uri.rstrip("/")
    info = _find(uri, options)
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(f"no such object or prefix: {uri}")
    if info.type == fs.FileType.File:
        yield Entry(root, info.size, info.mtime_ns or 0)
        return
    for item in system.get_file_info(fs.FileSelector(key, recursive=True)):
        if item.type == fs.FileType.File:
            yield Entry(root + item.path.removeprefix(key), item.size, item.mtime_ns or 0)
