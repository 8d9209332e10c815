"""Two trees of Ottla side by side: `python -m benchmarks.two_trees OTHER [--quick] [--only TEXT]`.

OTHER is a clone or worktree of another commit with its own .venv. Each tree has a process of its
own, which decodes, walks and checks the same files; they take turns, and the best turn counts.
Turns are measured in CPU seconds of all threads: a walk takes milliseconds, and on two cores the
clock says more about who else wants them. The ratio is of this tree to the other: below 0.95
something has become slower. Give this tree itself as OTHER to see what chance does.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.corpus import FULL, QUICK, segment
from benchmarks.kafka_records import Answer
from benchmarks.rounds import Turn, best_rates
from benchmarks.table import markdown

HERE = Path(__file__).parents[1]
WHAT = ("decode", "headers", "verify")
LIMIT = 0.95
ROUNDS = 3  # times those of a plan: turns are short
# Runs in either tree: only what both have is asked for.
CHILD = """
import sys, time
from pathlib import Path
from benchmarks import ours
path = held = None
for line in sys.stdin:
    what, name = line.split(" ", 1)
    if path != Path(name.strip()):
        path = Path(name.strip())
        held = ours.hold(path.read_bytes())
    work = {"decode": lambda: ours.decode(held), "headers": lambda: ours.walk_headers(path),
            "verify": lambda: ours.verify(path)}[what]
    begin, spent, count = time.process_time(), 0.0, 0
    while spent < 0.1:
        count += work()
        spent = time.process_time() - begin
    print(spent, count, flush=True)
"""


class Tree:
    """A process with one tree's code."""

    def __init__(self, folder: Path) -> None:
        command = [str(folder / ".venv/bin/python"), "-c", CHILD]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, text=True)

    def turn(self, what: str, path: Path) -> Turn:
        def ask() -> Answer:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.write(f"{what} {path}\n")
            self.process.stdin.flush()
            seconds, count = self.process.stdout.readline().split()
            return Answer(float(seconds), int(count))

        return ask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    trees = {"this": Tree(HERE), "other": Tree(arguments.other)}
    rows, slower = [], 0
    for case in (case for case in plan.cases if arguments.only in str(case)):
        path, ratios = segment(case, plan), []
        for what in WHAT:
            turns = {name: tree.turn(what, path) for name, tree in trees.items()}
            best = best_rates(turns, ROUNDS * plan.rounds, warm_ups=1)
            ratios.append(best["this"] / best["other"])
        slower += min(ratios) < LIMIT
        rows.append((str(case), *(f"{ratio:.2f}" for ratio in ratios)))
        print("  ".join(rows[-1]), flush=True)
    print(f"\n{markdown(('file', *WHAT), rows)}\n\n{slower} rows below {LIMIT}")
    sys.exit(slower > 0)


if __name__ == "__main__":
    main()
