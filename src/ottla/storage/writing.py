"""Write, move and delete files on a local path or at a URI, durably and whole or not at all."""

import errno
import io
import os
import posixpath
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

from pyarrow import fs

from ottla.storage.conditional_put import delete_on_azure, put_if_absent, require_client
from ottla.storage.listing import exists, list_files
from ottla.storage.object_store import (
    AZURE,
    DEFAULT_OPTIONS,
    StorageOptions,
    connect,
    parse_address,
    put,
    require_whole,
)
from ottla.storage.paths import Path, is_remote, join, local_path, real_path
from ottla.storage.retries import ShortAnswerError, counted_requests, named, send

Argument = TypeVar("Argument")

_WRITE_BACK_BYTES: Final = 8 << 20
_MOVERS: Final = 32  # objects that are moved or deleted at once: most of it is waiting


def write_file(path: Path, data: bytes, options: StorageOptions = DEFAULT_OPTIONS) -> None:
    """Write a file whole or not at all, replacing what is there."""
    if is_remote(path):
        put(os.fspath(path), data, options)
        return
    target = local_path(path)
    os.replace(_write_beside(target, data), target)
    sync_directory(os.path.dirname(target))


def create_file(path: Path, data: bytes, options: StorageOptions = DEFAULT_OPTIONS) -> bool:
    """Write a file whole unless there is one, and say whether this call wrote it.

    On an object store that is known by the bytes alone: others must not write the same.
    """
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
    """Stream a new file out; it is durable when the block ends.

    If the block fails, a local file holds what was written, and on an object store there is none.
    """
    if is_remote(path):
        system, key = connect(os.fspath(path), options, is_patient=True)
        with _named(os.fspath(path)), ExitStack() as undo:
            stream = system.open_output_stream(key)
            # To close it gives its name to a part too, and Arrow has no word to give up an upload.
            undo.callback(_delete_at_once, path, options)
            with stream:
                yield stream
                size = stream.tell()
            require_whole(system, key, os.fspath(path), size)
            undo.pop_all()
        counted_requests().add(1, size)
        return
    target = local_path(path)
    folder = os.path.dirname(target) or "."
    make_folders(folder)
    with io.BufferedWriter(_FlushedFile(target, "wb")) as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    sync_directory(folder)


@contextmanager
def open_whole(path: Path) -> Iterator[Any]:
    """As `open_output`, for a file that others see whole or not at all; nothing else remains."""
    target = os.fspath(path) if is_remote(path) else os.path.abspath(local_path(path))
    unfinished = f"{target}.{uuid.uuid4().hex}"
    if is_remote(path):
        require_client(target)  # it deletes on some stores
    with ExitStack() as undo:
        undo.callback(_delete_at_once, unfinished, DEFAULT_OPTIONS)
        with open_output(unfinished) as stream:
            yield stream
        move_files([(unfinished, target)])
        undo.pop_all()


def _delete_at_once(path: Path, options: StorageOptions) -> None:
    """Delete what was not finished, if that is easy: the error that ended it is to be told."""
    with suppress(OSError, ImportError):  # Azure's client may not be here
        if is_remote(path):
            _delete(os.fspath(path), options)
        else:
            os.unlink(local_path(path))


@contextmanager
def _named(uri: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise named("writing", uri, error) from error


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
    """Rename, replacing targets: each atomic locally, a copy and a delete on an object store.

    There many are under way at once; all are of one store.
    """
    if moves and is_remote(moves[0][0]):
        _at_once(partial(_move_object, options), moves)
        return
    folders = set()
    for source, target in moves:
        folder = os.path.dirname(local_path(target)) or "."
        os.makedirs(folder, exist_ok=True)
        os.replace(local_path(source), local_path(target))
        folders |= {folder, os.path.dirname(folder)}
    for folder in folders:
        sync_directory(folder)


def _at_once(work: Callable[[Argument], None], items: Sequence[Argument]) -> None:
    """Do the same to many objects; the first error ends it, when what was begun is done."""
    if len(items) == 1:
        work(items[0])
        return
    counted = counted_requests()

    def count_and_work(item: Argument) -> None:
        with counted.counting():
            work(item)

    with ThreadPoolExecutor(_MOVERS, thread_name_prefix="ottla-move") as movers:
        for _ in movers.map(count_and_work, items):
            pass


def _move_object(options: StorageOptions, move: tuple[str, str]) -> None:
    source, target = move
    system, key = connect(source, options)
    copied = connect(target, options)[1]  # Azure moves only those of some accounts
    send("copying", source, partial(_copy, system, key, copied))
    send("deleting", source, partial(_delete, source, options))


def _copy(system: Any, source: str, target: str) -> None:
    """Copy an object, and look whether all of it came before anybody deletes the original."""
    try:
        system.copy_file(source, target)
    except OSError:
        if system.get_file_info(source).type != fs.FileType.NotFound:
            raise
        # Not all stores say so in a way that Arrow understands.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source) from None
    counted_requests().add(count=2)
    there, came = system.get_file_info([source, target])
    if came.size is None or came.size != there.size:
        raise ShortAnswerError(f"{came.size or 0} of {there.size} bytes were copied to {target}")


def move_below(
    root: Path, moves: Sequence[tuple[str, str]], options: StorageOptions = DEFAULT_OPTIONS
) -> None:
    """As `move_files`, to names below a folder; on a local disk no link in it is followed."""
    if is_remote(root):
        move_files([(source, join(root, name)) for source, name in moves], options)
        return
    real = real_path(root)
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
        send("deleting", os.fspath(path), partial(_delete, os.fspath(path), options))
        return
    try:
        os.unlink(local_path(path))
    except FileNotFoundError:
        return


def delete_files(paths: Sequence[str], options: StorageOptions) -> None:
    """Delete files, as `delete_file` does."""
    _at_once(partial(delete_file, options=options), paths)


def _delete(uri: str, options: StorageOptions) -> None:
    """What is gone was deleted by this request, sent before, or by somebody else."""
    address = parse_address(uri)
    if address.store == AZURE:
        delete_on_azure(address, options)
        return
    system, key = connect(uri, options)
    with suppress(FileNotFoundError):
        system.delete_file(key)


def delete_tree(path: Path, options: StorageOptions = DEFAULT_OPTIONS) -> None:
    """Delete a directory with everything in it, if it is there."""
    if not exists(path, options):
        return
    if is_remote(path):
        system, key = connect(os.fspath(path), options)
        # Google's store has no object for the folder itself. Servers that only speak S3 may not
        # know the checksum of a request that deletes many objects.
        if parse_address(os.fspath(path)).store != AZURE:
            with suppress(OSError):
                system.delete_dir(key)
        if exists(path, options):
            delete_files([entry.path for entry in list_files(path, options)], options)
        return
    while os.path.exists(local_path(path)):
        try:
            shutil.rmtree(local_path(path))
        except OSError as error:
            # A task that nobody waits for any more may still put files there.
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise
