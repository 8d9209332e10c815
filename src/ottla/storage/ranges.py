"""The bytes of an object, in few requests that are under way side by side.

A request to an object store takes tens of milliseconds, however few bytes it asks for. So:

- Who says where it will stop, and reads forward, gets the next blocks fetched before it asks.
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

import numpy as np

from ottla.region import Bytes

_BLOCK: Final = 4 << 20
_AT_ONCE: Final = 24
_SURE: Final = 6 << 20  # who has read so much in a row goes on
_LOOK: Final = 64 << 10
_GAP: Final = 1 << 20  # bytes to pass over that cost less than a request

Fetch = Callable[[int, int], bytes]  # position and size; fewer bytes only where the object ends


class _FetchedBlock(NamedTuple):
    start: int
    stop: int
    data: "Future[bytes]"


class _Ahead(NamedTuple):
    """Where blocks may begin and must end, and how many there may be."""

    start: int
    stop: int
    most: int


_NOTHING: Final = _Ahead(0, 0, 0)


def _result(block: _FetchedBlock) -> bytes | None:
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
        self._blocks: deque[_FetchedBlock] = deque()  # one after another, about from `_next` on
        self._dropped: list[Future[bytes]] = []  # under way, and nobody waits for them
        self._looked: tuple[int, bytes] = (0, b"")
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def expect(self, stop: int) -> None:
        """Somebody will read forward up to there."""
        with self._lock:
            self._stop = min(stop, self._size)

    def read_into(self, target: Bytes, position: int) -> int:
        """Fill `target` from `position` on; how many bytes, fewer only where the object ends."""
        size = target.size
        with self._lock:
            goes_on = 0 <= position - self._next <= _GAP
            is_forward = size >= _LOOK or goes_on
            ahead = self._look_ahead(position, size, goes_on) if is_forward else _NOTHING
            if is_forward and not goes_on:
                self._drop(len(self._blocks))
        done = 0
        while done < size and (piece := self._piece(position + done, size - done, ahead)):
            target[done : done + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
            done += len(piece)
        if is_forward:
            with self._lock:
                self._run = self._run + done if goes_on else done
                self._next = position + done
        return done

    def close(self) -> bool:
        """Fetch nothing more; whether nothing is being fetched now."""
        with self._lock:
            if self._pool is None:
                return True
            self._pool.shutdown(wait=False, cancel_futures=True)
            asked = [*self._dropped, *(block.data for block in self._blocks)]
            return all(data.done() for data in asked)

    def _piece(self, position: int, size: int, ahead: _Ahead) -> memoryview:
        """Some bytes, `size` at most, that are held, on their way, or asked for now."""
        with self._lock:
            self._have_fetched(position, ahead)
            block = next(
                (each for each in self._blocks if each.start <= position < each.stop), None
            )
            begin, looked = self._looked
        fetched = None if block is None else _result(block)
        if block is not None and fetched is not None:
            return memoryview(fetched)[position - block.start :][:size]
        if begin <= position < begin + len(looked):
            return memoryview(looked)[position - begin :][:size]
        return memoryview(self._ask(position, size))[:size]

    def _ask(self, position: int, size: int) -> bytes:
        """A request of its own, with what is beside it if it is small."""
        if size >= _LOOK:
            return self._fetch(position, size)
        end = self._size if self._stop is None or position >= self._stop else self._stop
        data = self._fetch(position, max(size, min(_LOOK, end - position)))
        with self._lock:
            self._looked = (position, data)
        return data

    def _look_ahead(self, position: int, size: int, goes_on: bool) -> _Ahead:
        run, is_large = self._run if goes_on else 0, size >= 2 * _BLOCK
        start = position if goes_on or is_large else position + size
        if self._stop is not None and position < self._stop:
            return _Ahead(start, self._stop, _AT_ONCE if is_large or run >= _SURE else 1)
        return _Ahead(start, position + size if is_large else 0, _AT_ONCE)

    def _have_fetched(self, position: int, ahead: _Ahead) -> None:
        """Have blocks fetched; what lies before a position is not needed any more."""
        while self._blocks and ahead.most and self._blocks[0].stop <= position:
            self._drop(1)
        start = self._blocks[-1].stop if self._blocks else max(position, ahead.start)
        self._dropped = [data for data in self._dropped if not data.done()]
        most = min(ahead.most, _AT_ONCE - len(self._dropped))
        while len(self._blocks) < most and start < ahead.stop:
            left = ahead.stop - start
            stop = start + (_BLOCK if left >= _BLOCK + _BLOCK // 2 else left)
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_AT_ONCE, "ottla-fetch")
            data = self._pool.submit(self._fetch, start, stop - start)
            self._blocks.append(_FetchedBlock(start, stop, data))
            start = stop

    def _drop(self, count: int) -> None:
        for _ in range(count):
            data = self._blocks.popleft().data
            if not data.cancel() and not data.done():
                self._dropped.append(data)
