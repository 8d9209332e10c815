"""Decode slices on several threads and give their batches in order, with little of it waiting."""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final, NamedTuple

import pyarrow as pa

from ottla.catalog.slices import Slice
from ottla.jobs.engine import count_cores
from ottla.jobs.read.rows import without_room

Batches = Iterator[pa.RecordBatch]

MOST_THREADS: Final = 2  # each takes some 50 MB, and they take turns in Python
# Slices are small so that what one holds fits into what may wait of it.
SLICE_BYTES: Final = 1 << 20
_WAITING_BYTES: Final = 8 << 20
_WAITING_BATCHES: Final = 16


class _Filled(NamedTuple):
    """Some batches of a slice: its last, unless more are to come; an error comes after them."""

    batches: list[pa.RecordBatch]
    is_last: bool
    error: Exception | None = None


class _Lane(NamedTuple):
    """A slice that is being read, by one thread at a time, and what comes next of it."""

    batches: Batches
    next: "Future[_Filled]"


def count_threads() -> int:
    """How many slices are decoded at once."""
    return min(MOST_THREADS, count_cores())


def read_in_order(
    slices: Iterator[Slice], read: Callable[[Slice], Batches], threads: int
) -> Generator[pa.RecordBatch]:
    """The batches of all slices, as if they were read one after the other; they may be kept.

    Threads never wait for room: a part of a slice is decoded when the part before it was taken.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="ottla-scan")
    lanes: deque[_Lane] = deque()
    try:
        while True:
            for part in islice(slices, threads - len(lanes)):
                batches = read(part)
                lanes.append(_Lane(batches, pool.submit(_fill, batches)))
            if not lanes:
                return
            lane = lanes.popleft()
            filled = lane.next.result()
            if not filled.is_last:
                lanes.appendleft(_Lane(lane.batches, pool.submit(_fill, lane.batches)))
            yield from filled.batches
            if filled.error is not None:
                raise filled.error
    finally:
        pool.shutdown(cancel_futures=True)


def _fill(batches: Batches) -> _Filled:
    made: list[pa.RecordBatch] = []
    size = 0
    try:
        for batch in batches:
            made.append(without_room(batch))
            size += batch.nbytes
            if size >= _WAITING_BYTES or len(made) >= _WAITING_BATCHES:
                return _Filled(made, is_last=False)
    except Exception as error:  # raised where its place is, by who takes the batches
        return _Filled(made, is_last=True, error=error)
    return _Filled(made, is_last=True)
