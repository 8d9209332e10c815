"""A piece of a file that moves forward, while the pieces after it are read by another thread.

Checking and decoding a window takes about as long as reading one, and on an object store a request
takes longer than both; kernels and reads hold no lock, so the two go on side by side.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple, Self

import numpy as np

from ottla.region import PADDING, Bytes, Region
from ottla.storage.files import File

WINDOW_BYTES: Final = 2 << 20

_READS_AHEAD: Final = 2  # with one only, the thread falls asleep between two reads
_NOTHING: Final = np.empty(0, dtype=np.uint8)


def _block() -> Bytes:
    """Room for what is carried over from the window before, for a window, and for padding."""
    return np.empty(2 * WINDOW_BYTES + PADDING, dtype=np.uint8)


class _Read(NamedTuple):
    """Bytes from `start` on that a thread puts into the second half of a block."""

    block: Bytes
    start: int
    size: int
    got: Future[int]

    @property
    def stop(self) -> int:
        return self.start + self.size


class Buffer:
    """Holds `data[:size]`, the bytes from `position` on. `advance` reads no byte twice."""

    def __init__(self, file: File, start: int, end: int) -> None:
        self.file = file
        self.end = end
        self.position = start
        self.size = 0
        self._sent_twice = start  # no byte before this is asked for a third time
        self.data: Bytes = np.zeros(PADDING, dtype=np.uint8)
        self._held = _NOTHING  # the block that `data` lies in, if it lies in one
        self._free: list[Bytes] = []
        self._reader: ThreadPoolExecutor | None = None
        self._reads: deque[_Read] = deque()  # one after another, from the end of `data` on
        file.expect(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.shutdown(cancel_futures=True)

    def region(self) -> Region:
        """What is held; it is overwritten after the next `advance`."""
        return Region(self.data, self.size, self.file.path, self.position)

    def advance(self, position: int, size: int, least: int = 1) -> None:
        """Drop what is before `position`; hold `size` bytes or more from there, or all there is.

        Of a stream `least` bytes are enough: more may come in an hour only.
        """
        stop = self.position + self.size
        kept = self.data[min(position, stop) - self.position : self.size]
        wanted = min(least if self.file.is_stream else size, self.end - position)
        if kept.size >= wanted:
            self.data = self.data[self.size - kept.size :]
            self.position, self.size = position, kept.size
            return
        if self.file.is_stream:
            self._wait(position, kept, max(size, wanted), wanted)
            return
        while self._reads and self._reads[0].stop <= position:
            self._free.append(self._take()[0])
        if not self._join(position, kept, wanted):
            self._gather(position, kept, wanted)
        self.position = position
        self._read_ahead()

    def read_again(self) -> bool:
        """Have a store send what is held a second time; whether it was changed on the way before.

        A damaged object is suspect at each damaged place, and each time most of it is held still.
        """
        stop = self.position + self.size
        start = max(self.position, self._sent_twice)
        if start >= stop:
            return False
        self._sent_twice = stop
        return self.file.read_again(self.data[start - self.position :], start, stop - start)

    def only_zeros_follow(self, position: int) -> bool:
        """Whether nothing but zeros is left from a byte that is held on; it is read past them.

        A file that shrinks meanwhile has other things wrong with it.
        """
        end = self.end
        zeros = not self.data[position - self.position : self.size].any()
        at = self.position + self.size
        while self._reads:
            block, got = self._take()
            zeros &= not block[WINDOW_BYTES : WINDOW_BYTES + got].any()
            at += got
            self._free.append(block)
        block = self._free.pop() if self._free else _block()
        while zeros and at < self.end:
            wanted = min(WINDOW_BYTES, self.end - at)
            got = self.file.read_into(block, at, wanted)
            zeros = not block[:got].any()
            at = self._believe(at, got, wanted)
        self._free.append(block)
        return zeros and (self.end == end or self.file.is_stream)

    def _join(self, position: int, kept: Bytes, wanted: int) -> bool:
        """Put what is kept before the bytes read ahead, in their block, if those are enough."""
        at = position + kept.size
        if not self._reads or kept.size > WINDOW_BYTES or self._reads[0].stop < position + wanted:
            return False
        start = self._reads[0].start
        block, got = self._take()
        begin = WINDOW_BYTES + at - start - kept.size
        block[begin : begin + kept.size] = kept
        self._hold(block)
        self.data, self.size = block[begin:], kept.size + max(0, start + got - at)
        return True

    def _gather(self, position: int, kept: Bytes, wanted: int) -> None:
        """The first window, one after a jump, and one for a large batch have room of their own."""
        at = position + kept.size
        ahead = 0
        while ahead < len(self._reads) and at < position + wanted:
            at = self._reads[ahead].stop
            ahead += 1
        data = np.empty(max(wanted, at - position) + PADDING, dtype=np.uint8)
        data[: kept.size] = kept
        there = position + kept.size
        for _ in range(ahead):
            if not self._reads:  # the file ended in the one before
                break
            start = self._reads[0].start
            block, got = self._take()
            piece = block[WINDOW_BYTES + there - start : WINDOW_BYTES + got]
            data[there - position : there - position + piece.size] = piece
            there += piece.size
            self._free.append(block)
        missing = min(position + wanted, self.end) - there
        if missing > 0:
            got = self.file.read_into(data[there - position :], there, missing)
            there = self._believe(there, got, missing)
        self._hold(_NOTHING)
        self.data, self.size = data, there - position

    def _wait(self, position: int, kept: Bytes, size: int, least: int) -> None:
        """Hold what has come of a stream by now, up to `size` bytes."""
        data = np.empty(size + PADDING, dtype=np.uint8)
        data[: kept.size] = kept
        there, missing = position + kept.size, least - kept.size
        got = self.file.read_ready(data[kept.size :], there, size - kept.size, missing)
        self._believe(there, got, missing)
        self.data, self.position, self.size = data, position, kept.size + got

    def _hold(self, block: Bytes) -> None:
        if self._held.size > 0:
            self._free.append(self._held)
        self._held = block

    def _read_ahead(self) -> None:
        while len(self._reads) < _READS_AHEAD:
            start = self._reads[-1].stop if self._reads else self.position + self.size
            size = min(WINDOW_BYTES, self.end - start)
            if size <= 0:
                return
            if self._reader is None:
                self._reader = ThreadPoolExecutor(1, "ottla-read")
            block = self._free.pop() if self._free else _block()
            got = self._reader.submit(self.file.read_into, block[WINDOW_BYTES:], start, size)
            self._reads.append(_Read(block, start, size, got))

    def _take(self) -> tuple[Bytes, int]:
        """The block of the first read, and how many bytes it got."""
        read = self._reads.popleft()
        got = read.got.result()
        self._believe(read.start, got, read.size)
        if got < read.size:
            while self._reads:  # nothing is behind the end
                late = self._reads.popleft()
                late.got.result()
                self._free.append(late.block)
        return read.block, got

    def _believe(self, position: int, got: int, wanted: int) -> int:
        """Where the bytes end that a read from `position` gave; a short one is the file's end."""
        if got < wanted:
            self.end = position + got
        return position + got
