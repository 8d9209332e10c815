"""Millions of small batches, and their salvage in a process that says what memory it took."""

import json
import re
import sys
import time
from pathlib import Path

import numpy as np

import builders
from builders import Row

ORDERS = ("one-run", "one-far-ahead", "in-disorder")
SEGMENTS = 4


def write(folder: Path, order: str, count: int) -> None:
    """Segments of batches of one record each. No CRC covers a base offset, so all have one."""
    template = np.frombuffer(builders.batch([Row(0, 1, None, b"")]), dtype=np.uint8)
    (folder / "t-0").mkdir(parents=True)
    each = count // SEGMENTS
    for base in range(0, each * SEGMENTS, each):
        offsets = _offsets(order, base, each)
        batches = np.tile(template, (each, 1))
        batches[:, :8] = offsets.astype(">i8").view(np.uint8).reshape(-1, 8)
        batches.tofile(folder / "t-0" / f"{base:020d}.log")


def _offsets(order: str, base: int, count: int) -> np.ndarray:
    """`in-disorder`: of ten, three are shuffled among all others of the segment."""
    offsets = np.arange(base, base + count)
    if order == "one-far-ahead" and base == 0:
        offsets[5] = 1 << 40
    if order == "in-disorder":
        chooser = np.random.default_rng(base)
        moved = np.sort(chooser.choice(count, count * 3 // 10, replace=False))
        offsets[moved] = chooser.permutation(offsets[moved])
    return offsets


def peak() -> int:
    """The most memory that this process held; `ru_maxrss` would count whoever started it too."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) * 1024


def main(logs: str, out: str) -> None:
    from choosing import choose
    from jobs.plain import run_plainly
    from ottla.jobs.rewrite.salvage import plan_salvage_job

    began = time.perf_counter()
    (row,) = run_plainly(plan_salvage_job(choose(logs), out))
    found = {
        "batches": row["readBatches"],
        "kept": row["writtenBatches"],
        "violations": row["violations"],
        "seconds": round(time.perf_counter() - began, 1),
        "peak": peak(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
