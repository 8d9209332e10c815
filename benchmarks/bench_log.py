"""A segment of 1 GiB: the walk over its headers against touching the same pages, and the check of
every CRC against reading the file with preadv, from the page cache and from the disk.
"""

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks import ours
from benchmarks.bench_scan import read_with_preadv
from benchmarks.corpus import FULL, SEGMENTS, Case, Plan, segment
from benchmarks.kafka_records import Answer
from benchmarks.rounds import Turn, best_rates, timed
from benchmarks.table import ratio
from benchmarks.targets import COLD_VERIFY_TO_PREADV, VERIFY_TO_PREADV, WALK_TO_TOUCHING

HEADING = ("1 GiB, none, 100 B, 500 per batch", "Ottla GB/s", "the least", "ratio", "target")
_SIZE = 1 << 30


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Measure both on one file."""
    path = _large_segment()
    positions = ours.header_positions(path)
    best = best_rates(
        {
            "walk": timed(lambda: ours.walk(path)),
            "touch": timed(lambda: touch_pages(path, positions)),
            "verify": timed(lambda: ours.verify(path)),
            "preadv": timed(lambda: read_with_preadv(path)),
        },
        plan.rounds,
    )
    best |= best_rates(
        {
            "cold verify": _cold(path, lambda: ours.verify(path)),
            "cold preadv": _cold(path, lambda: read_with_preadv(path)),
        },
        plan.rounds,
        warm_ups=1,
    )
    for name, least, target in (
        ("walk", "touch", WALK_TO_TOUCHING),
        ("verify", "preadv", VERIFY_TO_PREADV),
        ("cold verify", "cold preadv", COLD_VERIFY_TO_PREADV),
    ):
        figures = (f"{best[key] / 1e9:.1f}" for key in (name, least))
        yield (f"{name}, against {least}", *figures, *ratio(best[name], best[least], target))


def _cold(path: Path, work: Callable[[], int]) -> Turn:
    """A turn on a file that the page cache has nothing of."""

    def turn() -> Answer:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # what is not on the disk yet stays in the cache
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
        return timed(work)()

    return turn


def _large_segment() -> Path:
    """One file again and again: offsets begin anew, which neither of the two minds."""
    path = SEGMENTS / "large.log"
    if not path.exists():
        piece = segment(Case("none"), FULL).read_bytes()
        with path.open("wb") as file:
            for _ in range(_SIZE // len(piece)):
                file.write(piece)
    return path


def touch_pages(path: Path, positions: np.ndarray) -> int:
    """Read one byte of each header through a fresh mapping; returns the bytes passed."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        data = np.frombuffer(mapped, dtype=np.uint8)
        assert int(data[positions + 16].sum()) == 2 * positions.size
        size = data.size
        del data
    return size
