"""Offsets to read, and which batches and records lie within them."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ottla.format.arrays import Bools
from ottla.kernels.tables import Batches, Int64s


@dataclass(frozen=True, slots=True)
class Bounds:
    """Offsets to read, the last exclusive; None is as far as the bytes go."""

    start: int | None = None
    stop: int | None = None


EVERYTHING: Final = Bounds()


def may_hold(batches: Batches, bounds: Bounds) -> Bools:
    """Which batches may have records within the bounds.

    The base of a wrapper is not known before it is opened: it is smaller than that of any record.
    """
    wanted = np.ones(batches.position.size, dtype=np.bool_)
    if bounds.start is not None:
        wanted &= batches.last_offset >= bounds.start
    if bounds.stop is not None:
        wanted &= batches.base_offset < bounds.stop
    return wanted


def within(offsets: Int64s, bounds: Bounds) -> Bools:
    """Which offsets are within the bounds."""
    kept = np.ones(offsets.size, dtype=np.bool_)
    if bounds.start is not None:
        kept &= offsets >= bounds.start
    if bounds.stop is not None:
        kept &= offsets < bounds.stop
    return kept
