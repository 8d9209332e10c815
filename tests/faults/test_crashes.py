"""After a crash at any system call OUT is the old or the new state, whatever was not synced."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from faults import crashes
from faults.crashes import Kept
from log import killed_job
from ottla.jobs.finish import finish_journals
from ottla.publish.journal import open_journals

pytestmark = pytest.mark.faults

PARTITIONS = 2
ADDED = killed_job.new_state(PARTITIONS)
CASES = {"begun": {}, "appended": {f"t-0/{0:020d}.log": b"old"}}


def content(out: Path) -> dict[str, bytes]:
    files = [path for path in out.rglob("*") if path.is_file()]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def record(folder: Path, trace: Path) -> None:
    """A run of a job that publishes, and its system calls."""
    strace = ["strace", "-f", "-y", "-s", "1000000", "-e", f"trace={crashes.CALLS}", "-o"]
    job = [sys.executable, killed_job.__file__, str(folder / "out"), str(PARTITIONS)]
    if shutil.which("strace") is None:
        pytest.skip("no strace (Debian: apt-get install strace)")
    done = subprocess.run([*strace, str(trace), *job], capture_output=True, check=False)
    if b"ptrace" in done.stderr:
        pytest.skip("no right to trace a process")
    assert done.returncode == 0, done.stderr


def recover(folder: Path, old: dict[str, bytes], *, again: bool) -> str:
    """What is left in OUT after the next command: the same job again, or `ottla finish`."""
    out = folder / "out"
    if again:
        killed_job.main(str(out), PARTITIONS)
    elif out.exists() or (folder / "out.ottla").exists():
        finish_journals(str(out))
    assert open_journals(str(out)) == []
    state = content(out)
    assert state in (old, old | ADDED)
    return "old" if state == old else "new"


@pytest.mark.parametrize("kept", Kept)
@pytest.mark.parametrize("old", CASES.values(), ids=CASES)
def test_every_crash_leaves_the_old_or_the_new_state(
    tmp_path: Path, old: dict[str, bytes], kept: Kept, counts: Counter[str]
) -> None:
    folder, disk = tmp_path / "run", tmp_path / "disk"
    folder.mkdir()
    for name, data in old.items():
        (folder / "out" / name).parent.mkdir(parents=True)
        (folder / "out" / name).write_bytes(data)
    root = crashes.load(folder)
    record(folder, tmp_path / "trace")
    ends = []
    for call in crashes.replay(tmp_path / "trace", folder, root):
        for again in (True, False):
            crashes.build(root, disk, kept)
            state = recover(disk, old, again=again)
            assert state == "new" or not again, call
            shutil.rmtree(disk)
        ends.append(state)
    assert ends == sorted(ends, reverse=True), "what was new once is never old again"
    assert {"old", "new"} == set(ends)
    assert content(folder / "out") == old | ADDED
    counts["crashes at a system call"] += len(ends)
