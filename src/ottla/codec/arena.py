"""Where decompressed bytes go: one padded array that grows, and the guard on how many."""

from typing import Final

import numpy as np

from ottla.codec.errors import OutputTooLarge
from ottla.region import PADDING, Bytes

INITIAL_CAPACITY: Final = 1 << 20
MAX_ROOM: Final = 4 << 20  # what a codec asks for at once: the largest lz4 block


class Arena:
    """A growable array with PADDING spare bytes after `at`, the end of what was written."""

    __slots__ = ("at", "data", "view")

    def __init__(self) -> None:
        self.at = 0
        self.data: Bytes = np.empty(0, dtype=np.uint8)
        self._allocate(INITIAL_CAPACITY)

    def room(self, size: int) -> memoryview:
        """A writable view of the `size` bytes after `at`; growing moves what was written."""
        stop = self.at + size
        if stop + PADDING > self.data.size:
            self._allocate(max(stop, 2 * self.at))
        return self.view[self.at : stop]

    def shrink(self) -> None:
        """Give back the memory after what was written."""
        self._allocate(max(self.at, INITIAL_CAPACITY))

    def truncate(self, at: int) -> None:
        """Forget what was written after `at`."""
        self.at = at

    def _allocate(self, capacity: int) -> None:
        data = np.empty(capacity + PADDING, dtype=np.uint8)
        data[: self.at] = self.data[: self.at]
        self.data = data
        self.view = data.data


class Output:
    """Stores what a codec writes in an arena, at most `limit` bytes of it."""

    __slots__ = ("arena", "limit", "start")

    def __init__(self, arena: Arena, limit: int) -> None:
        self.arena = arena
        self.start = arena.at
        self.limit = limit

    def room(self, size: int) -> memoryview:
        """Where the next bytes, at most `size`, may be written."""
        return self.arena.room(size)

    def wrote(self, size: int) -> None:
        """Keep `size` bytes of the room that was given last."""
        self.arena.at += size
        if self.arena.at - self.start > self.limit:
            raise OutputTooLarge(self.limit)

    def put(self, data: bytes) -> None:
        """Write bytes that a library made."""
        self.room(len(data))[:] = data
        self.wrote(len(data))

    def restart(self) -> None:
        """Forget everything written through this output."""
        self.arena.truncate(self.start)


class Measure(Output):
    """Counts what a codec writes and keeps none of it."""

    __slots__ = ("size",)

    def __init__(self, limit: int) -> None:
        super().__init__(Arena(), limit)
        self.size = 0

    def wrote(self, size: int) -> None:
        """Count `size` bytes."""
        self.size += size
        if self.size > self.limit:
            raise OutputTooLarge(self.limit)

    def put(self, data: bytes) -> None:
        """Count bytes that a library made."""
        self.wrote(len(data))

    def restart(self) -> None:
        """Count from zero again."""
        self.size = 0
