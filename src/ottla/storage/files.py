"""List, open, read ranges of and publish files on a local path or a URI; nothing here knows Kafka.

Local files are read with pread: a mapping of a file that a broker truncates kills the process.
Everything with a scheme goes to `object_store`.
"""

import errno
import io
import os
import posixpath
import shutil
import stat
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, Self

import numpy as np
from pyarrow import fs

from ottla.errors import OptionError
from ottla.region import Bytes
from ottla.storage.object_store import (
    DEFAULT_OPTIONS,
    SCHEMES,
    StorageOptions,
    connect,
    put,
    put_if_absent,
)

Path = str | os.PathLike[str]

_READ_LIMIT: Final = 1 << 30  # one pread returns at most 2^31 - 4096 bytes
_WRITE_BACK_BYTES: Final = 8 << 20
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

    `leads_to` is the file behind a symbolic link; `special` is what has no bytes of its own.
    """

    path: str
    size: int
    modified_ns: int
    inode: int = 0
    leads_to: str | None = None
    special: str | None = None


class _OpenFile(Protocol):
    """Where the bytes of an open file come from."""

    def read(self, target: Bytes, position: int) -> int: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class File:
    """An open file of a known size. Reads move no cursor, so threads may share it."""

    path: str
    size: int
    source: _OpenFile

    def read_into(self, buffer: Bytes, position: int, size: int) -> int:
        """Put `size` bytes from `position` into `buffer`; fewer only where the file ends."""
        wanted = max(0, min(size, self.size - position))
        done = 0
        while done < wanted:
            target = buffer[done : min(wanted, done + _READ_LIMIT)]
            count = self.source.read(target, position + done)
            if count == 0:
                break
            done += count
        return done

    def read(self) -> bytes:
        """The whole of a small file."""
        buffer = np.empty(self.size, dtype=np.uint8)
        return buffer[: self.read_into(buffer, 0, self.size)].tobytes()

    def fill(self, buffer: Bytes, position: int, size: int) -> None:
        """Put `size` bytes from `position` into `buffer`; that the file ends before is an error."""
        got = self.read_into(buffer, position, size)
        if got < size:
            raise shrunk(self.path, position + got, position + size)

    @property
    def inode(self) -> int:
        """Which file it is, whatever its name is by now; 0 on an object store."""
        source = self.source
        return os.fstat(source.descriptor).st_ino if isinstance(source, _Local) else 0

    def close(self) -> None:
        """Give the descriptor or connection back."""
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Local:
    descriptor: int

    def read(self, target: Bytes, position: int) -> int:
        return os.preadv(self.descriptor, [target.data], position)

    def close(self) -> None:
        os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class _Remote:
    stream: Any
    path: str
    still_there: Callable[[], bool]

    def read(self, target: Bytes, position: int) -> int:
        try:
            data = self.stream.read_at(target.size, position)
        except OSError as error:
            if self.still_there():
                raise
            raise _vanished(self.path) from error
        target[: len(data)] = np.frombuffer(data, dtype=np.uint8)
        return len(data)

    def close(self) -> None:
        self.stream.close()


def _vanished(path: str) -> FileNotFoundError:
    return FileNotFoundError(f"{path} vanished between listing and reading: its owner deleted it")


def shrunk(path: str, size: int, listed: int) -> OSError:
    """What to raise where a file ends before bytes that it had."""
    return OSError(
        f"{path} shrank to {size} bytes while bytes up to {listed} were to be read: its owner"
        " truncated it; run this again to take it as it is now"
    )


def _replaced(path: str) -> OSError:
    return OSError(
        f"{path} was replaced by another file between listing and reading; run this again to take"
        " it as it is now"
    )


def is_remote(path: Path) -> bool:
    """Whether a path is a URI of an object store.

    >>> is_remote("s3a://bucket/logs"), is_remote("/var/kafka"), is_remote("file:///var/kafka")
    (True, False, False)
    """
    scheme, separator, rest = os.fspath(path).partition("://")
    if not separator or scheme == "file":
        return False
    if scheme not in SCHEMES:
        known = ", ".join(sorted(SCHEMES))
        raise OptionError(f"no storage for {scheme}://; known are local paths, {known}")
    if ":" in rest.partition("/")[0].rpartition("@")[0]:
        raise OptionError(
            f"a path of {scheme}:// names a user and what looks like a secret, and paths end up in"
            " plans and logs: leave it out, credentials come from the environment or a role"
        )
    return True


def local_path(path: Path) -> str:
    """The path of a local file, which may be written as a file URI."""
    return os.fspath(path).removeprefix("file://")


def join(path: Path, *names: str) -> str:
    """Names below a path or URI.

    >>> join("s3://bucket/", "orders-0", "0.log"), join("/", "tmp")
    ('s3://bucket/orders-0/0.log', '/tmp')
    """
    return posixpath.join(os.fspath(path).rstrip("/") or "/", *names)


def open_file(source: Path | Entry, options: StorageOptions = DEFAULT_OPTIONS) -> File:
    """Open for reading; an `Entry` is read as it was listed, up to the size it had then.

    What was planned from a listing holds for that file alone: that another file has its name by
    now, or that it is shorter, is an error. It may have grown.
    """
    if not isinstance(source, Entry):
        return _open(os.fspath(source), options)
    file = open_remaining(source, options)
    if file.size < source.size:
        file.close()
        raise shrunk(source.path, file.size, source.size)
    return file


def open_remaining(entry: Entry, options: StorageOptions = DEFAULT_OPTIONS) -> File:
    """As `open_file`, for a reader who says by itself what is lost of a file that shrank."""
    file = _open_listed(entry, options)
    if not _is_same(file, entry):
        file.close()
        raise _replaced(entry.path)
    return replace(file, size=min(file.size, entry.size))


def _open_listed(entry: Entry, options: StorageOptions) -> File:
    try:
        return _open(entry.path, options)
    except FileNotFoundError as error:
        raise _vanished(entry.path) from error


def _is_same(file: File, entry: Entry) -> bool:
    return entry.inode in (0, file.inode)


def _open(path: str, options: StorageOptions) -> File:
    return _open_remote(path, options) if is_remote(path) else _open_local(path)


def _open_local(path: str) -> File:
    # To open a device may do something, and to open a pipe waits for a writer: look first. What
    # took its place since must not make us wait either.
    _refuse_special(path, os.stat(local_path(path)))
    descriptor = os.open(local_path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        _refuse_special(path, status)
    except OSError:
        os.close(descriptor)
        raise
    return File(path, status.st_size, _Local(descriptor))


def _refuse_special(path: str, status: os.stat_result) -> None:
    """Refuse what has no bytes of its own."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    what = _special(status)
    if what is not None:
        raise special_file(path, what)


def _special(status: os.stat_result) -> str | None:
    return _SPECIAL.get(stat.S_IFMT(status.st_mode))


def special_file(path: str, what: str) -> OSError:
    """What to raise where a file should be."""
    return OSError(f"{path} is {what}, and only files are read: move it away")


def _open_remote(path: str, options: StorageOptions) -> File:
    system, key = connect(path, options)
    stream = system.open_input_file(key)
    return File(path, stream.size(), _Remote(stream, path, lambda: exists(path, options)))


def read_bytes(source: Path | Entry, options: StorageOptions = DEFAULT_OPTIONS) -> bytes:
    """The whole of a small file.

    A broker replaces its checkpoints whole, and often: a listed file is then read as it is now.
    """
    if isinstance(source, Entry):
        file = _open_listed(source, options)
        size = min(file.size, source.size) if _is_same(file, source) else file.size
    else:
        file = _open(os.fspath(source), options)
        size = file.size
    with file:
        buffer = np.empty(size, dtype=np.uint8)
        return buffer[: file.read_into(buffer, 0, size)].tobytes()


def exists(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> bool:
    """Whether there is a file or directory."""
    if not is_remote(path):
        return os.path.exists(local_path(path))
    system, key = connect(os.fspath(path), options)
    return bool(system.get_file_info(key).type != fs.FileType.NotFound)


def list_names(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> list[str]:
    """The names of what lies directly in a directory or below a prefix; none if it is not there."""
    if not exists(path, options):
        return []
    if not is_remote(path):
        return sorted(os.listdir(local_path(path)))
    system, key = connect(os.fspath(path), options)
    return sorted(item.base_name for item in system.get_file_info(fs.FileSelector(key)))


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
        path, status.st_size, status.st_mtime_ns, status.st_ino, leads_to, _special(status)
    )


def _list_remote(uri: str, options: StorageOptions) -> Iterator[Entry]:
    system, key = connect(uri, options)
    root = uri.rstrip("/")
    info = system.get_file_info(key)
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(f"no such object or prefix: {uri}")
    if info.type == fs.FileType.File:
        yield Entry(root, info.size, info.mtime_ns or 0)
        return
    for item in system.get_file_info(fs.FileSelector(key, recursive=True)):
        if item.type == fs.FileType.File:
            yield Entry(root + item.path.removeprefix(key), item.size, item.mtime_ns or 0)


def write_file(path: Path, data: bytes, options: StorageOptions = DEFAULT_OPTIONS) -> None:
    """Write a file whole or not at all, replacing what is there."""
    if is_remote(path):
        put(os.fspath(path), data, options)
        return
    target = local_path(path)
    os.replace(_write_beside(target, data), target)
    sync_directory(os.path.dirname(target))


def create_file(path: Path, data: bytes, options: StorageOptions = DEFAULT_OPTIONS) -> bool:
    """Write a file whole unless there is one, and say whether this call wrote it."""
    if is_remote(path):
        return put_if_absent(os.fspath(path), data, options)
    target = local_path(path)
    written = _write_beside(target, data)
    try:
        os.link(written, target)
    except FileExistsError:
        return False
    finally:
        os.unlink(written)
    sync_directory(os.path.dirname(target))
    return True


def _write_beside(target: str, data: bytes) -> str:
    """Put bytes durably under a name of their own in the directory of `target`."""
    folder = os.path.dirname(target) or "."
    make_folders(folder)
    descriptor, written = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(descriptor)
    os.chmod(written, 0o644)  # mkstemp makes it private, and a broker may run as another user
    return written


def make_folders(path: str) -> None:
    """Make a local folder and what is missing above it; others may not write to any, by no umask.

    What lies in a folder that others write to is not believed when it is met again. New folders are
    durable.
    """
    if os.path.isdir(path):
        return
    if os.path.dirname(path):
        make_folders(os.path.dirname(path))
    with suppress(FileExistsError):
        os.mkdir(path, 0o755)
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make names that were added to or taken from a local directory durable."""
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_output(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> Iterator[Any]:
    """Stream a new file out; it is durable when the block ends."""
    if is_remote(path):
        system, key = connect(os.fspath(path), options)
        with system.open_output_stream(key) as stream:
            yield stream
        return
    target = local_path(path)
    folder = os.path.dirname(target) or "."
    make_folders(folder)
    with io.BufferedWriter(_FlushedFile(target, "wb")) as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    sync_directory(folder)


class _FlushedFile(io.FileIO):
    """A file whose pages go to the disk while more are written: the sync at its end has less left.

    To Linux the advice that pages are not needed is also a request to write them.
    """

    waiting = 0

    def write(self, data: Any) -> int:
        count = super().write(data)
        self.waiting += count
        if self.waiting >= _WRITE_BACK_BYTES and sys.platform == "linux":
            size, self.waiting = self.waiting, 0
            with suppress(OSError):  # it was only advice, and the bytes are written
                os.posix_fadvise(self.fileno(), self.tell() - size, size, os.POSIX_FADV_DONTNEED)
        return count


def move_files(moves: Sequence[tuple[str, str]], options: StorageOptions = DEFAULT_OPTIONS) -> None:
    """Rename, replacing targets: each atomic locally, a copy and a delete on an object store."""
    folders = set()
    for source, target in moves:
        if is_remote(source):
            system, key = connect(source, options)
            system.move(key, connect(target, options)[1])
            continue
        folder = os.path.dirname(local_path(target)) or "."
        os.makedirs(folder, exist_ok=True)
        os.replace(local_path(source), local_path(target))
        folders |= {folder, os.path.dirname(folder)}
    for folder in folders:
        sync_directory(folder)


def move_below(
    root: Path, moves: Sequence[tuple[str, str]], options: StorageOptions = DEFAULT_OPTIONS
) -> None:
    """As `move_files`, to names below a folder; on a local disk no link in it is followed."""
    if is_remote(root):
        move_files([(source, join(root, name)) for source, name in moves], options)
        return
    real = os.path.realpath(local_path(root))
    os.makedirs(real, exist_ok=True)
    by_folder: dict[str, list[tuple[str, str]]] = {}
    for source, name in moves:
        by_folder.setdefault(posixpath.dirname(name), []).append((source, name))
    for folder, files in by_folder.items():
        with _open_below(real, folder) as descriptor:
            for source, name in files:
                target = posixpath.basename(name)
                os.replace(local_path(source), target, dst_dir_fd=descriptor)
            os.fsync(descriptor)
    # Whoever made a folder may have been killed before its name was durable.
    for above in {above for folder in by_folder for above in _folders_above(folder)}:
        with _open_below(real, above) as descriptor:
            os.fsync(descriptor)
    sync_directory(os.path.dirname(real))


def _folders_above(folder: str) -> Iterator[str]:
    """
    >>> list(_folders_above("topic=t/partition=0"))
    ['topic=t', '']
    """
    while folder:
        folder = posixpath.dirname(folder)
        yield folder


@contextmanager
def _open_below(root: str, folder: str) -> Iterator[int]:
    """A folder below another, made if need be: who may write there can not lead us elsewhere."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in filter(None, folder.split("/")):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=descriptor)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            inner = os.open(name, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def set_modified(path: Path, modified_ms: int) -> None:
    """Say when a file was modified last; an object store knows only when it was written."""
    if not is_remote(path):
        os.utime(local_path(path), ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))


def delete_file(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> None:
    """Delete a file; one that is gone is no error, so that a clean-up can be repeated."""
    if is_remote(path):
        system, key = connect(os.fspath(path), options)
        if exists(path, options):
            system.delete_file(key)
        return
    try:
        os.unlink(local_path(path))
    except FileNotFoundError:
        return


def delete_tree(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> None:
    """Delete a directory with everything in it, if it is there."""
    if not exists(path, options):
        return
    if is_remote(path):
        system, key = connect(os.fspath(path), options)
        system.delete_dir(key)
        return
    while os.path.exists(local_path(path)):
        try:
            shutil.rmtree(local_path(path))
        except OSError as error:
            # A task that nobody waits for any more may still put files there.
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise
