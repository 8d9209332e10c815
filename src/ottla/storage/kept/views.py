"""Bytes that are known, and parts of files."""

from dataclasses import dataclass, replace

import numpy as np

from ottla.errors import Violation
from ottla.region import Bytes
from ottla.storage.files import File, open_remaining
from ottla.storage.kept.source import KeptSource
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes that lie in no file."""

    data: bytes

    @property
    def chunk_bytes(self) -> int:
        return 0

    @property
    def lies_in(self) -> None:
        return None

    def open(self, entry: Entry, _: StorageOptions) -> File:
        return File(entry.path, len(self.data), _LiteralSource(self.data))


class _LiteralSource(KeptSource):
    def __init__(self, data: bytes) -> None:
        self._data = np.frombuffer(data, dtype=np.uint8)

    def read(self, target: Bytes, position: int) -> int:
        found = self._data[position : position + target.size]
        target[: found.size] = found
        return found.size

    def close(self) -> None:
        """Nothing is open."""

    @property
    def damages(self) -> list[Violation]:
        return []


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file from one position to another, as if that were all of it."""

    whole: Entry
    start: int
    stop: int

    @property
    def chunk_bytes(self) -> int:
        return 0 if self.whole.kept is None else self.whole.kept.chunk_bytes

    @property
    def lies_in(self) -> Entry:
        return self.whole

    def open(self, entry: Entry, options: StorageOptions) -> File:
        file = open_remaining(self.whole, options)
        size = max(0, min(file.size, self.stop) - self.start)
        return File(entry.path, size, _PartSource(file, self.start, self.start + size))


class _PartSource(KeptSource):
    def __init__(self, file: File, start: int, stop: int) -> None:
        self._file, self._start, self._stop = file, start, stop

    def read(self, target: Bytes, position: int) -> int:
        return self._file.read_into(target, self._start + position, target.size)

    def peek(self, target: Bytes, position: int) -> int:
        return self._file.peek_into(target, self._start + position, target.size)

    def close(self) -> None:
        self._file.close()

    @property
    def damages(self) -> list[Violation]:
        return [
            replace(damage, position=damage.position - self._start)
            for damage in self._file.damages
            if damage.position < self._stop and damage.position + (damage.size or 0) > self._start
        ]


def literal_entry(path: str, data: bytes, modified_ns: int = 0) -> Entry:
    """A file of known bytes; `path` is what messages call it."""
    return Entry(path, len(data), modified_ns, kept=Literal(data))


def part_of(entry: Entry, start: int, stop: int) -> Entry:
    """The bytes of a file between two positions."""
    return replace(entry, size=stop - start, inode=0, kept=FilePart(entry, start, stop))
