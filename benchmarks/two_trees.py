"""Two trees of Ottla side by side: `python -m benchmarks.two_trees OTHER [--quick] [--only TEXT]`.

OTHER is a commit, or the folder of another tree. Each tree has a process of its own, which decodes,
walks and checks the same files, with the libraries of this environment; they take turns, and the
best turn counts. Turns are measured in CPU seconds of all threads: a walk takes milliseconds, and
on two cores the clock says more about who else wants them. The ratio is of this tree to the other:
below 0.95 something has become slower. Give this tree itself as OTHER to see what chance does.

`--guard` takes ten short rows instead (`make bench-guard`).
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.corpus import CODECS, FULL, QUICK, Case, segment
from benchmarks.kafka_records import Answer
from benchmarks.rounds import Turn, best_rates
from benchmarks.table import markdown

HERE = Path(__file__).parents[1]
WHAT = ("decode", "headers", "verify")
WORKS = (*WHAT, "encode")
GUARDED = {Case(codec): ("decode",) for codec in CODECS} | {
    Case("none"): WORKS,
    Case("lz4"): ("decode", "encode"),
    Case("lz4", records_per_batch=1): ("decode",),
}
LIMIT = 0.95
ROUNDS = 3  # times those of a plan: turns are short
# Runs in either tree: only what both have is asked for.
CHILD = """
import sys, time
from pathlib import Path
from benchmarks import ours
from benchmarks.corpus import Case
path = held = rows = None
for line in sys.stdin:
    what, codec, each, name = line.strip().split(" ", 3)
    case = Case(codec, records_per_batch=int(each))
    if path != Path(name):
        path = Path(name)
        held, rows = ours.hold(path.read_bytes()), None
    if what == "encode" and rows is None:
        rows = ours.rows(path, case.records_per_batch)
    work = {"decode": lambda: ours.decode(held), "headers": lambda: ours.walk_headers(path),
            "verify": lambda: ours.verify(path), "encode": lambda: len(ours.encode(rows, case)),
            }[what]
    begin, spent, count = time.process_time(), 0.0, 0
    while spent < 0.1:
        count += work()
        spent = time.process_time() - begin
    print(spent, count, flush=True)
"""


class Tree:
    """A process with one tree's code."""

    def __init__(self, folder: Path) -> None:
        paths = os.pathsep.join([str(folder / "src"), str(folder)])
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def turn(self, what: str, case: Case, path: Path) -> Turn:
        def ask() -> Answer:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.write(f"{what} {case.codec} {case.records_per_batch} {path}\n")
            self.process.stdin.flush()
            seconds, count = self.process.stdout.readline().split()
            return Answer(float(seconds), int(count))

        return ask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--guard", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick or arguments.guard else FULL
    trees = {"this": Tree(HERE), "other": Tree(_folder(arguments.other))}

    def compare(what: str, case: Case) -> float:
        path = segment(case, plan)
        turns = {name: tree.turn(what, case, path) for name, tree in trees.items()}
        best = best_rates(turns, ROUNDS * plan.rounds, warm_ups=1)
        return best["this"] / best["other"]

    rows, slower = [], []
    wanted = [(case, WHAT) for case in plan.cases if arguments.only in str(case)]
    for case, works in GUARDED.items() if arguments.guard else wanted:
        ratios = {what: compare(what, case) for what in works}
        slower += [f"{what} {case}" for what, ratio in ratios.items() if ratio < LIMIT]
        rows.append(
            (str(case), *(f"{ratios[what]:.2f}" if what in ratios else "" for what in WORKS))
        )
        print("  ".join(rows[-1]), flush=True)
    print(
        f"\n{markdown(('file', *WORKS), rows)}\n\nbelow {LIMIT}: {', '.join(slower) or 'nothing'}"
    )
    sys.exit(bool(slower))


def _folder(other: str) -> Path:
    """A folder, or the files of a commit."""
    if Path(other).is_dir():
        return Path(other).resolve()
    base = HERE / "build" / "base"
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", other], cwd=HERE, check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x"], cwd=base, check=True, input=archive.stdout)
    return base


if __name__ == "__main__":
    main()
