"""Jobs in processes of their own, which tests start, break and end."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).parents[1]
PATIENCE = 60


def start(script: ModuleType, *arguments: object, **settings: str) -> subprocess.Popen[bytes]:
    """A script of this folder in a session of its own; `settings` are its environment."""
    assert script.__file__ is not None
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    return subprocess.Popen(
        [sys.executable, script.__file__, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": paths, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[bytes]) -> int:
    """Wait for the driver, and until nothing of its session is left to hold a lock."""
    process.communicate()
    deadline = time.monotonic() + PATIENCE
    while left := session_of(process.pid):
        assert time.monotonic() < deadline, left
        for each in left:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.1)
    return process.returncode


def session_of(leader: int) -> list[int]:
    """The living processes of the session that we started with `leader`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(folder.name))
    return found


def kill_workers(process: subprocess.Popen[bytes], most: int, seed: str) -> int:
    """Kill Python workers of a driver while it runs; how many."""
    chance, killed = random.Random(seed), 0
    while process.poll() is None and killed < most:
        time.sleep(chance.uniform(0.05, 0.4))
        for worker in workers_of(process.pid)[:1]:
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed += 1
    return killed


def workers_of(driver: int) -> list[int]:
    """The Python workers of a driver: forks of its daemon, in the session that we started."""
    parents, daemons = {}, set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) != driver:
                continue
            parents[int(folder.name)] = int(fields[1])
            if b"\0-m\0ottla.spark.daemon\0" in (folder / "cmdline").read_bytes():
                daemons.add(int(folder.name))
        except (OSError, ValueError):
            continue
    return [each for each, parent in parents.items() if parent in daemons and each in daemons]


@contextmanager
def full_disk(folder: Path, *, left: int) -> Iterator[Path]:
    """A file system of 300 kB that has `left` bytes of room, where we may mount one."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a tmpfs")
    try:
        (disk / "filler").write_bytes(bytes(300_000 - left))
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def make_room(disk: Path) -> None:
    """Let the file system of `full_disk` grow."""
    subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
