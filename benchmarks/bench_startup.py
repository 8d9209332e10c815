"""The first minute: CPU seconds (user and system, of all descendants) of commands on the demo.

The unit is what importing Numba and Arrow costs in the same run.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.corpus import Plan
from ottla.jobs.demo import make_logs

HEADING = ("command", "CPU s", "above import", "ratio", "target")

IMPORT = (sys.executable, "-c", "import numba, pyarrow")
HELP_TO_IMPORT = 0.3
LOOK_ABOVE = 0.6
JOB_ABOVE = 2.5
REPORT = 6.0
FIRST_DUMP = 15.0
COMMANDS = (
    ("ls", "logs", LOOK_ABOVE),
    ("dump --format text", "logs", LOOK_ABOVE),
    ("dump --format jsonl", "logs", LOOK_ABOVE),
    ("inspect", "log", None),
    ("transactions", "logs", None),
)
# LOGS and OUT stand for paths; every run has an OUT of its own. One topic of the demo is damaged.
JOBS = (
    "verify LOGS",
    "export LOGS OUT --mode DROPMALFORMED",
    "salvage LOGS OUT",
    "convert LOGS OUT --topic orders --topic users --codec zstd",
    "restore LOGS OUT --topic orders --topic users",
    "compact LOGS OUT --topic users --include-active",
    "report LOGS -o OUT",
)


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Commands with their kernels kept, then the first dump without any."""
    with tempfile.TemporaryDirectory() as folder:
        logs = os.path.join(folder, "kafka-logs")
        make_logs(logs)
        unit = measure(IMPORT, os.environ, plan.rounds)
        yield ("import numba, pyarrow", f"{unit:.2f}", "", "", "")
        most = HELP_TO_IMPORT * unit
        yield _row("ls --help", _ottla("ls", "--help"), unit, plan.rounds, most)
        log = os.path.join(logs, "orders-1", "00000000000000000000.log")
        for name, path, above in COMMANDS:
            command = _ottla(*name.split(), log if path == "log" else logs)
            _cpu_seconds(command, os.environ)  # compiles what it needs
            most = None if above is None else unit + above
            yield _row(name, command, unit, plan.rounds, most)
        yield from _job_rows(logs, folder, unit, plan.rounds)
        yield _first_dump(logs, folder, unit)


def _job_rows(logs: str, folder: str, unit: float, rounds: int) -> Iterator[tuple[str, ...]]:
    """Jobs in one process: whoever starts a JVM leaves a word instead."""
    started = Path(folder, "java-started")
    environment = _without_java(Path(folder, "no-java"), started)
    for job in JOBS:
        name = job.split()[0]
        found = [_job_seconds(job, logs, folder, environment) for _ in range(rounds + 1)]
        least = min(found[1:])  # the first one compiles what it needs
        most = REPORT if name == "report" else unit + JOB_ABOVE
        target = _target(least, most) + (" (a JVM!)" if started.exists() else "")
        yield (name, f"{least:.2f}", f"{least - unit:+.2f}", f"{least / unit:.2f}", target)
        started.unlink(missing_ok=True)


def _without_java(home: Path, started: Path) -> dict[str, str]:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\necho "$@" >> {started}\nexit 1\n')
    java.chmod(0o755)
    path = f"{java.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "JAVA_HOME": str(home), "PATH": path}


def _job_seconds(job: str, logs: str, folder: str, environment: Mapping[str, str]) -> float:
    out = os.path.join(tempfile.mkdtemp(dir=folder), "out")
    places = {"LOGS": logs, "OUT": out}
    words = [places.get(word, word) for word in job.split()]
    return _cpu_seconds(_ottla(*words, "--engine", "local"), environment)


def _ottla(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "ottla.cli", *words)


def _row(
    name: str, command: tuple[str, ...], unit: float, rounds: int, most: float | None
) -> tuple[str, ...]:
    found = measure(command, os.environ, rounds)
    return (
        name,
        f"{found:.2f}",
        f"{found - unit:+.2f}",
        f"{found / unit:.2f}",
        _target(found, most),
    )


def _first_dump(logs: str, folder: str, unit: float) -> tuple[str, ...]:
    empty = os.path.join(folder, "kernels")
    command = _ottla("dump", "--format", "text", logs)
    found = measure(command, os.environ | {"NUMBA_CACHE_DIR": empty}, 1)
    figures = (f"{found:.2f}", f"{found - unit:+.2f}", f"{found / unit:.2f}")
    return ("first dump", *figures, _target(found, FIRST_DUMP))


def _target(found: float, most: float | None) -> str:
    return "" if most is None else f"at most {most:.2f}" + ("" if found <= most else " (!)")


def measure(command: tuple[str, ...], environment: Mapping[str, str], rounds: int) -> float:
    """The least CPU seconds of some runs."""
    return min(_cpu_seconds(command, environment) for _ in range(rounds))


def _cpu_seconds(command: tuple[str, ...], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    if done.returncode > 1:  # 1: something is wrong with the demo's logs, as is meant
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
