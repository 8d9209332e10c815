"""What the second core gives: scan, verify, export and convert on the engine of this process.

Two processes take turns: one may use two cores, the other was held to one before it began, so that
it has one thread for tasks, and the thread that reads ahead gains nothing.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpus import SEGMENTS, Case, Plan, link_partitions, segment, size_of
from benchmarks.kafka_records import Answer
from benchmarks.rounds import best_rates
from benchmarks.table import ratio
from benchmarks.targets import TWO_CORES_TO_ONE

HEADING = ("what", "two cores, MB/s", "one core", "ratio", "target")
CODECS = ("none", "lz4")
WORKS = ("scan", "verify", "export", "convert")
PARTITIONS = 16
MOST_ROUNDS = 5
CHILD = """
import os, sys
os.sched_setaffinity(0, set(map(int, sys.argv[1].split(","))))
import shutil, time
import ottla
from ottla.catalog.catalog import list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.engine.local import LocalEngine
from ottla.jobs.verify.plan import VerifyOptions
from ottla.jobs.verify.run import verify
from ottla.log.files.partition import find_partitions

def scan(root, out):
    for _ in ottla.open(root).scan("orders").to_reader(): pass

def check(root, out):
    for _ in verify(LocalEngine(quiet=True), find_partitions([root]), VerifyOptions(), []): pass

WORKS = {
    "scan": scan,
    "verify": check,
    "export": lambda root, out: ottla.open(root).export(out),
    "convert": lambda root, out: ottla.open(root).convert(out, codec="zstd"),
}
for line in sys.stdin:
    what, root, out = line.split()
    begin = time.perf_counter()
    WORKS[what](root, out)
    seconds = time.perf_counter() - begin
    for made in (out, out + ".ottla"): shutil.rmtree(made, ignore_errors=True)
    print(seconds, flush=True)
"""


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Every kind of work for two codecs."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    assert len(cores) == 2, "this needs two cores"
    two, one = _child(cores), _child(cores[:1])
    for codec in CODECS:
        source = segment(Case(codec), plan)
        root = SEGMENTS / "threads" / source.stem
        link_partitions(source, root, PARTITIONS)
        for what in WORKS:
            size = size_of(root)
            best = best_rates(
                {
                    "two": lambda what=what, root=root, size=size: _ask(two, what, root, size),
                    "one": lambda what=what, root=root, size=size: _ask(one, what, root, size),
                },
                min(plan.rounds, MOST_ROUNDS),
                warm_ups=1,
            )
            figures = (f"{best[name] / 1e6:.0f}" for name in ("two", "one"))
            yield (f"{codec}: {what}", *figures, *ratio(best["two"], best["one"], TWO_CORES_TO_ONE))
    for child in (two, one):
        child.communicate()


def _child(cores: list[int]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, ",".join(map(str, cores))]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def _ask(child: subprocess.Popen[str], what: str, root: Path, size: int) -> Answer:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(f"{what} {root} {SEGMENTS / 'threads-out'}\n")
    child.stdin.flush()
    return Answer(float(child.stdout.readline()), size)
