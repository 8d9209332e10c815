"""The bytes of an object, in few requests that are under way side by side.

A request to an object store takes tens of milliseconds, however few bytes it asks for. So:

- Who reads forward gets the next blocks fetched before they are asked for. How far is known where
  the reader says where it stops; else no more is fetched than was already read.
- Who wants many bytes at once gets them in blocks too.
- Who looks at a few bytes gets some more, for the next look beside them. A look elsewhere does not
  disturb who reads forward.

What must stay true: a byte that is held is not asked for again, and no more than `_AT_ONCE` blocks
are held or under way.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Final, NamedTuple

_BLOCK: Final = 4 << 20
_AT_ONCE: Final = 12
_SURE: Final = 6 << 20  # who has read so much in a row goes on
_LOOK: Final = 64 << 10
_GAP: Final = 1 << 20  # bytes to pass over that cost less than a request

Fetch = Callable[[int, int], bytes]  # position and size; fewer bytes only where the object ends


class _Block(NamedTuple):
    start: int
    stop: int
    data: "Future[bytes]"


def _result(block: _Block) -> bytes | None:
    """The bytes, unless a thread that reads elsewhere meanwhile took them for unneeded."""
    try:
        return block.data.result()
    except CancelledError:
        return None


class Ranges:
    """Gives bytes by position; threads may share it."""

    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch = fetch
        self._size = size
        self._stop: int | None = None  # where who reads forward will stop, if that is known
        self._next = -1 - _GAP  # where a read begins that goes on from the last one
        self._run = 0  # how many bytes were read in a row
        self._blocks: deque[_Block] = deque()  # one after another, about from `_next` on
        self._looked: tuple[int, bytes] = (0, b"")
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def expect(self, stop: int) -> None:
        """Somebody will read forward up to there."""
        with self._lock:
            self._stop = min(stop, self._size)

    def read(self, position: int, size: int) -> memoryview:
        """Some bytes from `position` on, `size` at most; none only where the object ends."""
        with self._lock:
            goes_on = 0 <= position - self._next <= _GAP
            if size >= _LOOK or goes_on:
                self._plan(position, size, goes_on)
            block = self._find(position)
            begin, looked = self._looked
        fetched = None if block is None else _result(block)
        if block is not None and fetched is not None:
            data = memoryview(fetched)[position - block.start :][:size]
        elif begin <= position < begin + len(looked):
            data = memoryview(looked)[position - begin :][:size]
        else:
            data = memoryview(self._ask(position, size))[:size]
        with self._lock:
            if size >= _LOOK or goes_on:
                self._run = self._run + len(data) if goes_on else len(data)
                self._next = position + len(data)
        return data

    def close(self) -> bool:
        """Fetch nothing more; whether nothing is being fetched now."""
        with self._lock:
            if self._pool is None:
                return True
            self._pool.shutdown(wait=False, cancel_futures=True)
            return all(block.data.done() for block in self._blocks)

    def _find(self, position: int) -> _Block | None:
        return next((each for each in self._blocks if each.start <= position < each.stop), None)

    def _ask(self, position: int, size: int) -> bytes:
        """A request of its own, with what is beside it if it is small."""
        if size >= _LOOK:
            return self._fetch(position, size)
        end = self._size if self._stop is None or position >= self._stop else self._stop
        data = self._fetch(position, max(size, min(_LOOK, end - position)))
        with self._lock:
            self._looked = (position, data)
        return data

    def _plan(self, position: int, size: int, goes_on: bool) -> None:
        """Have blocks fetched from a read on; what lies before it is not needed any more."""
        if not goes_on:
            self._drop(len(self._blocks))
        while self._blocks and self._blocks[0].stop <= position:
            self._drop(1)
        start, most, limit = self._ahead(position, size, goes_on)
        while len(self._blocks) < most and start < limit:
            left = limit - start
            stop = start + (_BLOCK if left >= _BLOCK + _BLOCK // 2 else left)
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_AT_ONCE, "ottla-fetch")
            data = self._pool.submit(self._fetch, start, stop - start)
            self._blocks.append(_Block(start, stop, data))
            start = stop

    def _ahead(self, position: int, size: int, goes_on: bool) -> tuple[int, int, int]:
        """Where the next block begins, how many there may be, and where the last one ends."""
        run, is_large = self._run if goes_on else 0, size > _BLOCK
        if self._blocks:
            start = self._blocks[-1].stop
        else:
            start = position if goes_on or is_large else position + size
        if self._stop is not None and position < self._stop:
            return start, _AT_ONCE if is_large or run >= _SURE else 1, self._stop
        ahead = max(min(run, _AT_ONCE * _BLOCK), size if is_large else 0)
        return start, _AT_ONCE, min(self._size, position + ahead)

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._blocks.popleft().data.cancel()
