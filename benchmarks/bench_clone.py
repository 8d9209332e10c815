"""`ottla clone` of gigabytes that no cache has, and `cp -r` with `sync` of the same.

The command runs as a user runs it, with the embedded engine: it checks every CRC, writes indexes
and snapshots anew, and all of it is durable when it ends. Both read from the disk and write to the
same one. What a turn wrote is gone before the next, and so are all pages of the input.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.corpus import SEGMENTS, Case, Plan, segment, size_of
from benchmarks.kafka_records import Answer
from benchmarks.rounds import Turn, best_rates, timed
from benchmarks.table import ratio
from benchmarks.targets import CLONE_TO_COPY

HEADING = ("what", "clone MB/s", "cp -r and sync", "ratio", "target")
CASE = Case("lz4")
FULL_BYTES = 4 << 30
QUICK_BYTES = 256 << 20
MOST_ROUNDS = 3  # a turn takes up to half a minute
OUT = SEGMENTS / "cloned"
JOURNAL = OUT.with_name(f"{OUT.name}.ottla")
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """One line: a log directory whose partitions have a segment each."""
    root = log_directory(plan)
    size = size_of(root)
    clone = [sys.executable, "-m", "ottla.cli", "clone", str(root), str(OUT), "--quiet"]
    turns = {
        "clone": _cold(root, lambda: _run([*clone, "--engine", "local"], size)),
        "copy": _cold(root, lambda: _copy(root, size)),
    }
    best = best_rates(turns, min(plan.rounds, MOST_ROUNDS), warm_ups=0)
    _remove_output()
    what = f"{CASE.codec}, {size / 2**30:.2f} GiB in {len(list(root.iterdir()))} partitions"
    told = [f"{best[name] / 1e6:.0f}" for name in ("clone", "copy")]
    yield (what, *told, *ratio(best["clone"], best["copy"], CLONE_TO_COPY))


def log_directory(plan: Plan) -> Path:
    """The same segment under many names, with the indexes that a broker's segments have.

    Each has bytes of its own on the disk.
    """
    source = segment(CASE, replace(plan, uncompressed_bytes=10 * plan.uncompressed_bytes))
    wanted = FULL_BYTES if plan.rounds > MOST_ROUNDS else QUICK_BYTES
    root = SEGMENTS / "clone" / f"{source.stem}-{wanted}"
    if not root.exists():
        unfinished = root.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        plain = unfinished / "plain" / "orders-0"
        plain.mkdir(parents=True)
        (plain / f"{0:020d}.log").hardlink_to(source)
        whole = unfinished / "with-indexes"
        restore = [sys.executable, "-m", "ottla.cli", "restore", plain, whole, "--quiet"]
        subprocess.run([*restore, "--engine", "local"], check=True)
        for number in range(-(-wanted // source.stat().st_size)):
            shutil.copytree(whole / "orders-0", unfinished / "logs" / f"orders-{number}")
        (unfinished / "logs").rename(root)
        shutil.rmtree(unfinished)
    return root


def _cold(root: Path, work: Callable[[], int]) -> Turn:
    turn = timed(work)

    def run() -> Answer:
        _remove_output()
        os.sync()
        _drop_caches(root)
        return turn()

    return run


def _remove_output() -> None:
    for path in (OUT, JOURNAL):
        shutil.rmtree(path, ignore_errors=True)


def _drop_caches(root: Path) -> None:
    """All of them if we may, else what is known of the input."""
    if os.geteuid() == 0:
        DROP_CACHES.write_text("1")
        return
    for path in root.rglob("*.log"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _run(command: list[str], size: int) -> int:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return size


def _copy(root: Path, size: int) -> int:
    _run(["cp", "-r", str(root), str(OUT)], size)
    return _run(["sync"], size)
