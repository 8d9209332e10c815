"""A segment of 1 GiB: the walk over its headers against touching the same pages, and the check of
every CRC against reading the file with preadv.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import ours
from benchmarks.bench_scan import read_with_preadv
from benchmarks.corpus import FULL, SEGMENTS, Case, Plan, segment
from benchmarks.rounds import best_rates, timed
from benchmarks.table import ratio
from benchmarks.targets import VERIFY_TO_PREADV, WALK_TO_TOUCHING

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
    for name, least, target in (
        ("walk", "touch", WALK_TO_TOUCHING),
        ("verify", "preadv", VERIFY_TO_PREADV),
    ):
        figures = (f"{best[key] / 1e9:.1f}" for key in (name, least))
        yield (f"{name}, against {least}", *figures, *ratio(best[name], best[least], target))


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
