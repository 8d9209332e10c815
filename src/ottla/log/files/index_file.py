"""Files of fixed entries: whole entries out of bytes, and where a preallocated tail begins.

The indexes of an active segment are preallocated with zeros, and after a crash they stay so
(AbstractIndex.resize). A real entry is never all zeros: position 0 is never indexed, and a time
entry of zeros answers every lookup as no entry does.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.errors import Rule, Violation
from ottla.kernels.tables import Batches, Int64s, allocate_batches

Entries = npt.NDArray[Any]


class Landmarks(NamedTuple):
    """What an index can say of the batches of a segment, in order of position."""

    position: Int64s
    last_offset: Int64s
    max_timestamp: Int64s


def landmarks_of(batches: Batches) -> Landmarks:
    """By themselves: the other columns of a whole segment would be held for nothing."""
    columns = (batches.position, batches.last_offset, batches.max_timestamp)
    return Landmarks(*(column.copy() for column in columns))


def concat_landmarks(tables: Sequence[Landmarks]) -> Landmarks:
    """Tables one after another."""
    if not tables:
        return landmarks_of(allocate_batches(0))
    return Landmarks(*(np.concatenate(columns) for columns in zip(*tables, strict=True)))


def read_entries(data: bytes, layout: np.dtype[np.void]) -> Entries:
    """The whole entries of a file; bytes after the last are left out."""
    return np.frombuffer(data, dtype=layout, count=len(data) // layout.itemsize)


def without_tail(entries: Entries) -> Entries:
    """The entries before the first that is all zeros."""
    return entries[: _first_zero(entries)]


def _first_zero(entries: Entries) -> int:
    zero = np.ones(entries.size, dtype=np.bool_)
    for field in entries.dtype.names or ():
        zero &= entries[field] == 0
    return int(zero.argmax()) if zero.any() else entries.size


def check_entries(data: bytes, layout: np.dtype[np.void], file: str) -> Iterator[Violation]:
    """An index holds whole entries, and nothing after the first zero."""
    excess = len(data) % layout.itemsize
    if excess:
        yield Violation(
            Rule.INDEX_SIZE,
            "the size is no multiple of the entry size",
            file,
            position=len(data) - excess,
            size=excess,
            found=str(len(data)),
            expected=f"a multiple of {layout.itemsize}",
        )
    tail = _first_zero(read_entries(data, layout)) * layout.itemsize
    rest = np.frombuffer(data, dtype=np.uint8)[tail:]
    used = np.flatnonzero(rest)
    if used.size and rest[: layout.itemsize].size == layout.itemsize:
        yield Violation(
            Rule.INDEX_TAIL,
            "an entry of zeros ends the index, and more follows",
            file,
            position=tail + int(used[0]),
            size=int(used[-1] - used[0]) + 1,
        )


def rows_that_do_not_rise(values: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Rows whose value is not above the one before."""
    return np.flatnonzero(values[1:] <= values[:-1]) + 1
