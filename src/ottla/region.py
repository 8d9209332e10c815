"""Bytes that remember the file and position they came from, so that every error can say where."""

from dataclasses import dataclass

import numpy as np

from ottla.errors import Rule, Violation
from ottla.format.arrays import PADDING, Bytes

__all__ = ["PADDING", "Bytes", "Region", "padded", "read_only"]


@dataclass(frozen=True, slots=True)
class Region:
    """`size` bytes of `path` from `position` on; `data` holds them and PADDING bytes more."""

    data: Bytes
    size: int
    path: str
    position: int

    def violation(
        self, rule: Rule, detail: str, *, at: int, **known: int | str | None
    ) -> Violation:
        """Name a broken rule at byte `at` of this region."""
        return Violation(rule, detail, self.path, self.position + at, **known)  # type: ignore[arg-type]


def read_only(data: Bytes) -> Bytes:
    """The same bytes as a mapped file has them, so that a kernel compiles once for both."""
    view = data.view()
    view.flags.writeable = False
    return view


def padded(data: bytes | bytearray | memoryview) -> Bytes:
    """Copy bytes into an array that kernels may read PADDING bytes past.

    >>> padded(b"abc").size
    67
    """
    array = np.zeros(len(data) + PADDING, dtype=np.uint8)
    array[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    return array
