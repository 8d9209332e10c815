"""Open and read files on a local path or at a URI; nothing here knows Kafka.

Local files are read with pread: a mapping of a file that a broker truncates kills the process.
Everything with a scheme goes to `object_store`.
"""

import errno
import io
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, Self

import numpy as np

from ottla.errors import Violation
from ottla.region import Bytes
from ottla.storage.kept.source import KeptSource
from ottla.storage.listing import Entry, exists, special_kind
from ottla.storage.object_store import DEFAULT_OPTIONS, GCS, StorageOptions, connect
from ottla.storage.paths import Path, is_remote, local_path
from ottla.storage.ranges import Ranges
from ottla.storage.retries import ShortAnswerError, StoreError, counted_requests, send

_READ_LIMIT: Final = 1 << 30  # one pread returns at most 2^31 - 4096 bytes
STREAM_SIZE: Final = (1 << 63) - 1  # nobody knows it before the end
_STREAM_HEAD: Final = 1 << 16
_COMPARED: Final = 4 << 20  # bytes at once
_MOMENT: Final = 0.05  # how long what came first of a stream waits for more, in seconds


class _OpenFile(Protocol):
    """Where the bytes of an open file come from."""

    def read(self, target: Bytes, position: int) -> int: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class File:
    """An open file of a known size. Reads move no cursor, so threads may share it.

    A stream has a size that it never reaches, and is read once, from its beginning on.
    """

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

    def peek_into(self, buffer: Bytes, position: int, size: int) -> int:
        """As `read_into`, for who only looks: bytes that are encrypted are not checked."""
        if not isinstance(self.source, KeptSource):
            return self.read_into(buffer, position, size)
        wanted = max(0, min(size, self.size - position))
        return self.source.peek(buffer[:wanted], position) if wanted else 0

    def expect(self, stop: int) -> None:
        """Say that it will be read forward to there: a store then has several requests under way.

        Of a local file the kernel reads ahead twice as far. The reader need not come that far, but
        little that lies behind is fetched.
        """
        if isinstance(self.source, _Remote | _Local):
            self.source.expect(stop)

    @property
    def damages(self) -> list[Violation]:
        """What could not be had of the bytes that were read: others stand in their place."""
        return self.source.damages if isinstance(self.source, KeptSource) else []

    def damage_at(self, position: int) -> Violation | None:
        """What was lost at a position."""
        return self.damage_within(position, position + 1)

    def damage_within(self, start: int, stop: int) -> Violation | None:
        """The first that was lost between two positions."""
        found = [each for each in self.damages if _touches(each, start, stop)]
        return min(found, key=lambda each: each.position, default=None)

    def read_ready(self, buffer: Bytes, position: int, size: int, least: int = 1) -> int:
        """As `read_into`; of a stream `least` bytes and what else comes within a moment.

        So who reads from a live program sees what it has written, and a fast one fills the buffer.
        """
        if not isinstance(self.source, _Pipe):
            return self.read_into(buffer, position, size)
        done = self.read_into(buffer, position, least)
        ends = time.monotonic() + _MOMENT
        while least <= done < size and self.source.waits_until(ends):
            count = self.source.read(buffer[done:size], position + done)
            if count == 0:
                break
            done += count
        return done

    def read_again(self, buffer: Bytes, position: int, size: int) -> bool:
        """Have a store send bytes once more that make no sense; whether others came this time."""
        return isinstance(self.source, _Remote) and self.source.read_again(buffer[:size], position)

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
    def is_remote(self) -> bool:
        """Whether a store sends its bytes, which can be asked for a second time."""
        return isinstance(self.source, _Remote)

    @property
    def is_stream(self) -> bool:
        """Whether its size is known only when all of it was read."""
        return isinstance(self.source, _Pipe)

    def measure(self) -> int:
        """How many bytes there are; what nobody has read of a stream is read and dropped."""
        return self.source.drain() if isinstance(self.source, _Pipe) else self.size

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


def _touches(damage: Violation, start: int, stop: int) -> bool:
    return damage.position < stop and damage.position + (damage.size or 0) > start


@dataclass(frozen=True, slots=True)
class _Local:
    descriptor: int

    def read(self, target: Bytes, position: int) -> int:
        return os.preadv(self.descriptor, [target.data], position)

    def expect(self, stop: int) -> None:  # noqa: ARG002
        # To ask for pieces (WILLNEED) is slower: the thread waits until all requests are made.
        if sys.platform == "linux":
            with suppress(OSError):  # it is only advice
                os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def close(self) -> None:
        os.close(self.descriptor)


class _Remote:
    """An object. Its requests are counted where those of the thread that opened it are."""

    def __init__(self, system: Any, key: str, path: str, options: StorageOptions) -> None:
        self._requests = counted_requests()
        self._closed = threading.Event()
        self._path = path
        self._options = options
        self._connect: Callable[[], tuple[Any, int]]
        self._connect = lambda: _sized(system.open_input_file(key))
        self._stream: Any
        self._stream, self.size = self._open()
        self._ranges = Ranges(self._fetch, self.size)

    def read(self, target: Bytes, position: int) -> int:
        return self._ranges.read_into(target[: self.size - position], position)

    def expect(self, stop: int) -> None:
        self._ranges.expect(stop)

    def read_again(self, target: Bytes, position: int) -> bool:
        self._require_same()
        data = np.frombuffer(self._fetch(position, target.size), dtype=np.uint8)
        differs = not np.array_equal(target[: data.size], data)
        target[: data.size] = data
        return differs

    def _fetch(self, position: int, size: int) -> bytes:
        def get() -> bytes:
            stream = self._stream
            if stream is None:
                stream = self._take(self._connect())
            try:
                with _not_closed():
                    data: bytes = stream.read_at(size, position)
            except ConnectionError:
                if self._stream is stream:  # another thread may have opened the next one
                    self._stream = None
                raise
            if len(data) < size:
                raise ShortAnswerError(
                    f"{len(data)} bytes came of the {size} from byte {position} on"
                )
            return data

        try:
            data = send("reading", self._path, get, self._requests, self._closed)
        except OSError as error:
            is_short = isinstance(error.__cause__, ShortAnswerError)
            if (isinstance(error, StoreError) and not is_short) or self._closed.is_set():
                raise
            if not exists(self._path, self._options):
                raise _vanished(self._path) from error
            self._require_same()
            raise
        self._requests.add(size=len(data))
        return data

    def _require_same(self) -> None:
        self._take(self._open())

    def _take(self, opened: tuple[Any, int]) -> Any:
        """Read on from there, unless an object of another size took the place of this one.

        Arrow does not look: where a shorter object of S3 ends, it gives bytes that nobody sent.
        """
        stream, size = opened
        if size != self.size:
            raise _replaced(self._path)
        self._stream = stream
        return stream

    def _open(self) -> tuple[Any, int]:
        if self._path.startswith(GCS):  # Arrow begins to read the object, and then reads parts
            self._requests.add(count=1)
        return send("opening", self._path, self._connect, self._requests, self._closed)

    def close(self) -> None:
        self._closed.set()
        if self._ranges.close() and self._stream is not None:  # else who reads last lets go of it
            self._stream.close()


def _sized(stream: Any) -> tuple[Any, int]:
    with _not_closed():
        return stream, int(stream.size())


@contextmanager
def _not_closed() -> Iterator[None]:
    """Say what happened to a file of Google's store: a request failed, and so it closed itself."""
    try:
        yield
    except ValueError as error:
        raise ConnectionError("the connection was closed") from error


class _Pipe:
    """Bytes that come one after another; only the first of them can be read again.

    Nothing is read before somebody asks.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._head = b""
        self._position = 0

    def read(self, target: Bytes, position: int) -> int:
        again = np.frombuffer(self._head, dtype=np.uint8)[position : position + target.size]
        if again.size:
            target[: again.size] = again
            return again.size
        if position < self._position:
            raise io.UnsupportedOperation(f"byte {position} of a stream was read already")
        self._skip_to(position)
        return self._take(target) if self._position == position else 0

    def waits_until(self, time_ends: float) -> bool:
        """Whether there is something to read, or an end, before a time on the monotonic clock."""
        left = max(0.0, time_ends - time.monotonic())
        return bool(select.select([self._descriptor], [], [], left)[0])

    def drain(self) -> int:
        self._skip_to(STREAM_SIZE)
        return self._position

    def _skip_to(self, position: int) -> None:
        dropped = np.empty(min(_READ_LIMIT >> 10, position - self._position), dtype=np.uint8)
        while self._position < position:
            if self._take(dropped[: position - self._position]) == 0:
                return

    def _take(self, target: Bytes) -> int:
        count = os.readv(self._descriptor, [target.data])
        if self._position == len(self._head) < _STREAM_HEAD:
            self._head += target[: min(count, _STREAM_HEAD - self._position)].tobytes()
        self._position += count
        return count

    def close(self) -> None:
        """Whoever gave the descriptor has it still."""


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
    if entry.kept is not None:
        return entry.kept.open(entry, options)
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
    what = special_kind(status)
    if what is not None:
        raise special_file(path, what)


def special_file(path: str, what: str) -> OSError:
    """What to raise where a file should be."""
    return OSError(f"{path} is {what}, and only files are read: move it away")


def _open_remote(path: str, options: StorageOptions) -> File:
    source = _Remote(*connect(path, options), path, options)
    return File(path, source.size, source)


def open_stream(descriptor: int, path: str) -> File:
    """Bytes as they come, for readers that go forward only; `path` is what messages call them."""
    return File(path, STREAM_SIZE, _Pipe(descriptor))


def read_bytes(source: Path | Entry, options: StorageOptions = DEFAULT_OPTIONS) -> bytes:
    """The whole of a small file."""
    with open_current(source, options) as file:
        return file.read()


def same_bytes(first: str, second: str, options: StorageOptions) -> bool:
    """Whether two files are the same."""
    with open_file(first, options) as one, open_file(second, options) as other:
        if one.size != other.size:
            return False
        one.expect(one.size)
        other.expect(other.size)
        mine, its = np.empty((2, _COMPARED), dtype=np.uint8)
        for position in range(0, one.size, _COMPARED):
            count = one.read_into(mine, position, _COMPARED)
            if count != other.read_into(its, position, _COMPARED):
                return False
            if not np.array_equal(mine[:count], its[:count]):
                return False
    return True


def open_current(source: Path | Entry, options: StorageOptions = DEFAULT_OPTIONS) -> File:
    """Open a small file.

    A broker replaces its checkpoints whole, and often: a listed file is then read as it is now.
    """
    if not isinstance(source, Entry):
        return _open(os.fspath(source), options)
    file = _open_listed(source, options)
    return replace(file, size=min(file.size, source.size)) if _is_same(file, source) else file
