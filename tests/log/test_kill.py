"""kill -9 while partitions are written and published: OUT is the old or the new state."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from log import killed_job
from ottla.publish.journal import open_journals, settle

PARTITIONS = 12
OLD = {f"t-{n}/00000000000000000000.log": b"old %d" % n for n in range(PARTITIONS)}
NEW = OLD | killed_job.new_state(PARTITIONS)


def content(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }


def make_old_state(out: Path) -> None:
    for name, data in OLD.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)


def start(out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, killed_job.__file__, str(out), str(PARTITIONS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def kill_many(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Kill the job `count` times at random moments; what state each kill left, after settling."""
    started = time.monotonic()
    start_out = folder / "whole"
    make_old_state(start_out)
    process = start(start_out)
    begun = time.monotonic()
    process.wait()
    duration = time.monotonic() - begun
    assert content(start_out) == NEW, f"after {time.monotonic() - started} s"
    moments = random.Random(seed)
    outcomes = {"old": 0, "new": 0, "before the end": 0}
    for number in range(count):
        out = folder / str(number)
        make_old_state(out)
        process = start(out)
        time.sleep(moments.uniform(0, duration))
        process.kill()
        outcomes["before the end"] += process.wait() != 0
        if number % 2:
            # The next command is the same job: it goes on and ends in the new state.
            assert subprocess.run([*process.args], check=True).returncode == 0  # type: ignore[misc]
            assert content(out) == NEW
        settle(str(out))
        assert open_journals(str(out)) == []
        state = content(out)
        assert state in (OLD, NEW)
        outcomes["new" if state == NEW else "old"] += 1
    return outcomes


def test_a_killed_job_leaves_the_old_or_the_new_state(tmp_path: Path) -> None:
    assert kill_many(tmp_path, 6, seed=1)["before the end"]


@pytest.mark.soak
def test_two_hundred_killed_jobs_leave_the_old_or_the_new_state(tmp_path: Path) -> None:
    print("kill -9:", kill_many(tmp_path, 200, seed=time.time_ns()))
