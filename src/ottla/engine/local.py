"""The engine for small work: tasks on threads of this process; kernels run without the GIL.

Rows of a step are given in the order of its parts, so that two runs give the same. Where rows meet
they wait in memory for each other, up to a limit; more than that is an error, and it comes before
anything is published. Tasks work in some memory beside that, which does not grow with the logs.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.engine.progress import progress_bar
from ottla.errors import OptionError, Row, Term
from ottla.extras import install_command
from ottla.jobs.engine import Grouping, JobStep, count_cores
from ottla.options.engine import DEFAULT_MEMORY
from ottla.options.texts import format_bytes

_Result = list[pa.RecordBatch]


class LocalEngine(NamedTuple):
    """Runs the steps of jobs here; no more than `memory` bytes of rows wait for others."""

    memory: int = DEFAULT_MEMORY
    quiet: bool = False

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        return count_cores()

    def run(self, step: JobStep, *groupings: Grouping) -> Iterator[Row]:
        """The rows of a step, or what became of them when they met."""
        waiting = _Waiting(self.memory)
        with _threads(self.cores) as pool:
            batches = self._map(pool, step, waiting)
            for grouping in groupings:
                batches = _meet(pool, list(batches), grouping, waiting)
            for batch in batches:
                waiting.leave(batch.nbytes)
                yield from batch.to_pylist()

    def _map(
        self, pool: ThreadPoolExecutor, step: JobStep, waiting: "_Waiting"
    ) -> Iterator[pa.RecordBatch]:
        calls = [partial(_collect, step.work, part, waiting) for part in step.parts]
        with progress_bar(step.title, sum(step.sizes), quiet=self.quiet) as show:
            for result, done in zip(_in_order(pool, calls), accumulate(step.sizes), strict=True):
                if show is not None:
                    show(done)
                yield from result


class _Waiting:
    """How many bytes of rows are held for tasks that come later."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.lock = threading.Lock()

    def enter(self, size: int) -> None:
        with self.lock:
            self.size += size
            if self.size > self.limit:
                raise _too_much(self.limit)

    def leave(self, size: int) -> None:
        with self.lock:
            self.size -= size


def _too_much(limit: int) -> OptionError:
    first = "" if find_spec("pyspark") else f" after {install_command('spark')}"
    return OptionError(
        f"more than {format_bytes(limit)} would have to wait in memory; nothing was written. Allow"
        " more with ",
        Term.MEMORY,
        ", or run the same command on Spark, which sorts on disk, with ",
        Term.ENGINE,
        f" spark{first}",
    )


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """A pool that leaves no task running, unless the user has no time for that."""
    pool, waits = ThreadPoolExecutor(count, thread_name_prefix="ottla"), True
    try:
        yield pool
    except KeyboardInterrupt:
        waits = False
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=True)


def _in_order(
    pool: ThreadPoolExecutor, calls: Iterable[Callable[[], _Result]]
) -> Iterator[_Result]:
    futures = deque(pool.submit(call) for call in calls)
    while futures:
        yield futures.popleft().result()


def _collect(
    work: Callable[[Any], Iterable[pa.RecordBatch]], part: Any, waiting: _Waiting
) -> _Result:
    result = []
    for batch in work(part):
        waiting.enter(batch.nbytes)
        result.append(batch)
    return result


def _meet(
    pool: ThreadPoolExecutor, batches: _Result, grouping: Grouping, waiting: _Waiting
) -> Iterator[pa.RecordBatch]:
    size = sum(batch.nbytes for batch in batches)
    calls = [
        partial(_collect, grouping.work, rows, waiting) for rows in _meetings(batches, grouping)
    ]
    for result in _in_order(pool, calls):
        yield from result
    waiting.leave(size)


def _meetings(
    batches: Sequence[pa.RecordBatch], grouping: Grouping
) -> list[Iterator[pa.RecordBatch]]:
    """The rows that meet, each as a batch of its own: nothing is copied."""
    if not batches:
        return []

    def column(name: str) -> np.ndarray:
        return np.concatenate([batch.column(name).to_numpy() for batch in batches])

    meeting = column(grouping.by) % grouping.count
    order = np.lexsort((*map(column, reversed(grouping.order)), meeting))
    owner = np.repeat(np.arange(len(batches)), [batch.num_rows for batch in batches])
    row = np.concatenate([np.arange(batch.num_rows) for batch in batches])
    starts = np.flatnonzero(np.diff(meeting[order], prepend=-1))
    return [
        (batches[owner[at]].slice(row[at], 1) for at in rows)
        for rows in np.split(order, starts[1:])
        if rows.size
    ]
