"""What a million segments cost before any record is read, against a tenth of them.

By hand: the trees have millions of links, and are deleted afterwards. Every figure is of a process
of its own.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.corpus import QUICK, Plan
from benchmarks.listing_server import BUCKET, PREFIX
from benchmarks.trees import make_tree

HEADING = (
    *("what", "segments", "seconds", "CPU s", "ten times", "seconds", "CPU s"),
    *("ratio", "CPU ratio", "peak MB", "things"),
)
SEGMENTS = 10  # of a partition
LEAST, QUICK_LEAST = 10_000, 100  # partitions, of which ten times as many are tried too
JOBS_LEAST, QUICK_JOBS_LEAST = 2_000, 50
MOST_RATIO = 12.0
MOST_BYTES = 1_000_000_000
JOBS = ("verify plan", "verify", "export plan", "compact plan", "report plan", "sink")


class Cost(NamedTuple):
    """What one process needed."""

    seconds: float
    cpu: float
    peak: int
    count: int


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Listing and planning of segments, then jobs of partitions."""
    quick = plan is QUICK
    least = QUICK_LEAST if quick else LEAST
    yield from (_row(what, least, *costs) for what, costs in compare_listing(least))
    least = QUICK_JOBS_LEAST if quick else JOBS_LEAST
    yield from (_row(what, least, *costs) for what, costs in compare_jobs(least))


def compare_listing(least: int) -> Iterator[tuple[str, tuple[Cost, Cost]]]:
    """`ls` and the planning of a read, of so many partitions and of ten times as many."""
    with _trees(least) as trees:
        for what in ("plan", "ls"):
            yield what, (measure(what, trees[0]), measure(what, trees[1]))
    yield "plan, S3", (plan_remote(least), plan_remote(10 * least))


def compare_jobs(least: int) -> Iterator[tuple[str, tuple[Cost, Cost]]]:
    """What jobs do before their tasks run, and a sink after them."""
    with _trees(least) as trees:
        for what in JOBS:
            small, large = (measure(what, tree, f"{tree}-out") for tree in trees)
            yield what, (small, large)


def plan_remote(partitions: int) -> Cost:
    """The planning of a read from a bucket that is made up."""
    command = [sys.executable, "-m", "benchmarks.listing_server", str(partitions), str(SEGMENTS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "user",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        try:
            return measure("plan", f"s3://{BUCKET}/{PREFIX.rstrip('/')}", environment=environment)
        finally:
            server.terminate()


def measure(
    what: str, path: str | Path, out: str = "", environment: dict[str, str] | None = None
) -> Cost:
    """What one of `scale_work` needs in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale_work", what, str(path), out]
    done = subprocess.run(
        command,
        env=os.environ | (environment or {}),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def _trees(least: int) -> Iterator[tuple[Path, Path]]:
    folder = Path(tempfile.mkdtemp(prefix="ottla-scale-"))
    try:
        small = make_tree(folder / "small", least, SEGMENTS)
        yield small, make_tree(folder / "large", 10 * least, SEGMENTS)
    finally:
        shutil.rmtree(folder)


def _row(what: str, least: int, small: Cost, large: Cost) -> tuple[str, ...]:
    found = large.seconds / small.seconds
    marked = f"{found:.1f}" + ("" if found <= MOST_RATIO else " (!)")
    peak = f"{large.peak / 1e6:.0f}" + ("" if large.peak <= MOST_BYTES else " (!)")
    return (
        what,
        f"{least * SEGMENTS:,}",
        f"{small.seconds:.2f}",
        f"{small.cpu:.2f}",
        f"{10 * least * SEGMENTS:,}",
        f"{large.seconds:.2f}",
        f"{large.cpu:.2f}",
        marked,
        f"{large.cpu / small.cpu:.1f}",
        peak,
        f"{large.count:,}",
    )
