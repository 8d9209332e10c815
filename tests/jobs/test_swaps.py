"""Whoever reads a log gets what a broker would have, wherever it died while it replaced segments.

The truth is the same log, laid out as it is after the broker's start.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from choosing import choose
from cli.command import run
from jobs.plain import run_plainly, tree
from jobs.test_extent import JOBS
from jobs.test_read import read
from jobs.test_verify import verify, violations
from log.swap_states import CRASHES, SWAPS, State, segment
from ottla.jobs.export.plan import plan_export
from ottla.jobs.verify.plan import VerifyOptions
from ottla.log.files.partition import find_partitions
from ottla.options.export import ExportOptions, FileFormat

Reader = Callable[[Path, Path], Any]


def settled(state: State) -> State:
    """As a broker leaves it."""
    files: dict[str, bytes] = {}
    aborts = any(".txnindex" in name for name in state.files)
    for base, data in state.logs.items():
        files |= segment(base, data, aborts=aborts)
    return State(state.title, files, state.logs)


def list_logs(logs: Path, _: Path) -> Any:
    row, *segments = run("ls", logs, "--segments", "--format", "jsonl").lines
    for each in (row, *segments):
        for name in ("path", "problems", "file", "sideFiles"):
            each.pop(name, None)
    return row, segments


def dump(logs: Path, _: Path) -> Any:
    return [row | {"file": None} for row in run("dump", "--format", "jsonl", logs).of("record")]


def check(logs: Path, _: Path) -> Any:
    rows = verify(find_partitions([logs]), VerifyOptions())
    apart = ("swap-finished", "side-file-has-log")
    return [
        (row["rule"], row["offset"], row["found"])
        for row in violations(rows)
        if row["rule"] not in apart
    ]


def connect(logs: Path, _: Path) -> Any:
    """What Spark's source reads, by tasks of one batch each."""
    return read(logs, splitbytes="100")


def export(logs: Path, out: Path) -> Any:
    plan = plan_export(choose(logs), str(out), ExportOptions(FileFormat.JSONL))
    run_plainly(plan)
    return {name.rpartition("/")[0]: data for name, data in tree(out).items()}


def write(job: str) -> Reader:
    def run_job(logs: Path, out: Path) -> Any:
        JOBS[job](choose(logs), str(out))
        return tree(out)

    return run_job


READERS: Final[dict[str, Reader]] = {
    "ls": list_logs,
    "dump": dump,
    "verify": check,
    "spark": connect,
}
WRITERS: Final[dict[str, Reader]] = {
    "export": export,
    **{job: write(job) for job in ("as-it-is", "restore", "compact", "salvage")},
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_reader_gets_what_a_broker_would_have(tmp_path: Path, reader: Reader) -> None:
    compare(tmp_path, reader, CRASHES)


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_a_job_takes_what_a_broker_would_have(tmp_path: Path, writer: Reader) -> None:
    """It lists files as all others do; what it costs to write them decides how often."""
    compare(tmp_path, writer, SWAPS)


def compare(tmp_path: Path, reader: Reader, states: list[State]) -> None:
    for number, state in enumerate(states):
        found, truth = tmp_path / f"{number}.found", tmp_path / f"{number}.truth"
        expected = reader(settled(state).write(truth / "logs"), truth / "out")
        assert reader(state.write(found / "logs"), found / "out") == expected, state.title


def test_a_command_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = SWAPS[0]
    listed = run("ls", "--format", "jsonl", state.write(tmp_path / "logs"))
    assert listed.status == 0  # nothing is lost
    (row,) = listed.lines
    assert [problem["rule"] for problem in row["problems"]] == ["swap-finished"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
