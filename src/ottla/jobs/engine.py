"""The seam between what a job does and what runs it: parts are mapped, then rows may meet.

A job describes steps; an engine runs their tasks, in this process (`ottla.engine.local`) or on
Spark (`ottla.spark.engine`). No job knows which, and the engine is no part of a job's name: what
one has begun the other finishes. Tasks of a step know nothing of each other and run in any order.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from ottla.errors import Row


def count_cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):  # a container may have less than the machine
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class JobStep:
    """A task for each part: what `work` makes of it are rows of `schema`.

    `sizes` are the bytes of the parts, for those who wait.
    """

    title: str
    parts: Sequence[Any]
    sizes: Sequence[int]
    work: Callable[[Any], Iterable[pa.RecordBatch]]
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class Grouping:
    """Rows meet whose column `by` is equal modulo `count`, in the order of some columns of numbers.

    `work` is called for each meeting. A row is small work for Python: a window of a log, not a
    record.
    """

    by: str
    count: int
    order: Sequence[str]
    work: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]
    schema: pa.Schema


class Engine(Protocol):
    """Runs the steps of jobs."""

    @property
    def cores(self) -> int:
        """How many tasks run at once."""

    def run(self, step: JobStep, *groupings: Grouping) -> Iterator[Row]:
        """The rows of a step, or what became of them when they met."""
