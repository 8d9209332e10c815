"""A piece of a file that moves forward, while the piece after it is read by another thread.

Checking and decoding a window takes about as long as reading one, and on an object store a request
takes longer than both; kernels and reads hold no lock, so the two go on side by side.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Self

import numpy as np

from ottla.region import PADDING, Bytes, Region
from ottla.storage import File

WINDOW_BYTES: Final = 2 << 20

_NOTHING: Final = np.empty(0, dtype=np.uint8)


def _block() -> Bytes:
    """Room for what is carried over from the window before, for a window, and for padding."""
    return np.empty(2 * WINDOW_BYTES + PADDING, dtype=np.uint8)


class Buffer:
    """Holds `data[:size]`, the bytes from `position` on. No byte of the file is read twice."""

    def __init__(self, file: File, start: int, end: int) -> None:
        self.file = file
        self.end = end
        self.position = start
        self.size = 0
        self.data: Bytes = np.zeros(PADDING, dtype=np.uint8)
        self._held = _NOTHING  # the block that `data` lies in
        self._spare = _NOTHING  # the block that is read into
        self._reader: ThreadPoolExecutor | None = None
        self._reading: Future[int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.shutdown(cancel_futures=True)

    def region(self) -> Region:
        """What is held; it is overwritten after the next `advance`."""
        return Region(self.data, self.size, self.file.path, self.position)

    def advance(self, position: int, size: int) -> None:
        """Drop what is before `position`; hold `size` bytes or more from there, or all there is."""
        stop = self.position + self.size
        kept = self.data[min(position, stop) - self.position : self.size]
        wanted = min(size, self.end - position)
        if kept.size >= wanted:
            self.data = self.data[self.size - kept.size :]
            self.position, self.size = position, kept.size
            return
        ahead = self._take_ahead(stop)[max(0, position - stop) :]
        if ahead.size > 0 and kept.size <= WINDOW_BYTES and wanted <= kept.size + ahead.size:
            begin = WINDOW_BYTES - kept.size + max(0, position - stop)
            self._spare[begin : begin + kept.size] = kept
            self.data, self.size = self._spare[begin:], kept.size + ahead.size
            self._held, self._spare = self._spare, self._held
        else:
            self._gather(kept, ahead, position, wanted)
        self.position = position
        self._read_ahead()

    def _gather(self, kept: Bytes, ahead: Bytes, position: int, wanted: int) -> None:
        """The first window, one after a jump, and one for a large batch have room of their own."""
        there = kept.size + ahead.size
        data = np.empty(max(wanted, there) + PADDING, dtype=np.uint8)
        data[: kept.size] = kept
        data[kept.size : there] = ahead
        if there < wanted:
            got = self.file.read_into(data[there:], position + there, wanted - there)
            there = self._believe(position + there, got, wanted - there) - position
        self.data, self.size = data, there

    def _read_ahead(self) -> None:
        stop = self.position + self.size
        size = min(WINDOW_BYTES, self.end - stop)
        if size <= 0:
            return
        if self._reader is None:
            self._reader = ThreadPoolExecutor(1, "ottla-read")
        if self._spare.size == 0:
            self._spare = _block()
        target = self._spare[WINDOW_BYTES:]
        self._reading = self._reader.submit(self.file.read_into, target, stop, size)

    def _take_ahead(self, stop: int) -> Bytes:
        """The bytes after `stop` that were read meanwhile."""
        if self._reading is None:
            return _NOTHING
        size = min(WINDOW_BYTES, self.end - stop)
        reading, self._reading = self._reading, None
        got = self._believe(stop, reading.result(), size) - stop
        return self._spare[WINDOW_BYTES : WINDOW_BYTES + got]

    def _believe(self, position: int, got: int, wanted: int) -> int:
        """Where the bytes end that a read from `position` gave; a short one is the file's end."""
        if got < wanted:
            self.end = position + got
        return position + got
