"""Exports to tables in processes that are killed: reads a line of JSON for each, says what came.

A line is a list of runs that begin at once: `{"words": [...], "kill": SECONDS, "die": MOMENT}`.
Each is a command in a fork of this process, which has imported all that a command needs: what is
killed is the work. MOMENT is where a run kills itself: `moved` when files lie below the table,
`told` when the table has them.
"""

import json
import os
import signal
import sys
import time
from typing import Any

import deltalake  # noqa: F401  before the forks
import pyiceberg.catalog.sql
import pyiceberg.io.pyarrow  # noqa: F401
import sqlalchemy  # noqa: F401

import ottla
from ottla.cli import export, main, report  # noqa: F401
from ottla.jobs.export.lake import commit, delta, iceberg, plan  # noqa: F401
from ottla.jobs.run import run_output_job  # noqa: F401


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arrange_death(moment: str) -> None:
    """Replace the step at which this process shall die."""
    if moment == "moved":
        commit.measure_files = die
    elif moment == "told":
        commit.write_file = die


def begin(run: dict[str, Any]) -> int:
    """Fork a process that runs a command and ends with its code."""
    child = os.fork()
    if child:
        return child
    status = 3
    try:
        arrange_death(run.get("die", ""))
        status = main(run["words"])
    except SystemExit as stop:
        status = int(stop.code or 0)
    finally:
        os._exit(status)


def serve() -> None:
    """Answer each line with how long the runs took and how each of them ended."""
    list(ottla.open(sys.argv[1]).scan().to_arrow().to_pylist())  # kernels are loaded
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        runs = json.loads(line)
        began = time.perf_counter()
        children = [begin(run) for run in runs]
        for child, run in zip(children, runs, strict=True):
            if "kill" in run:
                time.sleep(max(0.0, run["kill"] - (time.perf_counter() - began)))
                os.kill(child, signal.SIGKILL)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps([time.perf_counter() - began, codes]), flush=True)


if __name__ == "__main__":
    serve()
