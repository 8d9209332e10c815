"""Faults while jobs run: never a partial output, never a changed input, and a second run completes.

Each test prints how many faults of which kind it made and what came of them.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults import faulty_job
from faults.faulty_job import JOBS, plan_job
from jobs.plain import run_plainly, tree
from jobs.topics import write_topic
from ottla.log.publish import open_journals, settle
from ottla.spark.run import run_output_job

pytestmark = pytest.mark.faults

TESTS = Path(__file__).parents[1]
MOMENTS = ("before", "during", "after")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs") / "logs"
    write_topic(folder, "orders", partitions=3)
    return folder


@pytest.fixture(scope="module")
def whole(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What each job writes when nothing goes wrong."""
    folder = tmp_path_factory.mktemp("whole")
    for name in JOBS:
        run_plainly(plan_job(name, str(logs), f"{folder}/{name}"))
    return {name: tree(folder / name) for name in JOBS}


def start(name: str, logs: Path, out: Path, *more: str, **settings: str) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    environment = os.environ | {"PYTHONPATH": paths, **settings}
    command = [sys.executable, faulty_job.__file__, name, str(logs), str(out), *more]
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[bytes]) -> int:
    process.communicate()
    end_group(process)
    return process.returncode


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what a dead driver left: its JVM and workers are in the group that we started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def run_again(spark: SparkSession, name: str, logs: Path, out: Path) -> None:
    run_output_job(spark, plan_job(name, str(logs), str(out)))


def settled_copy(out: Path) -> dict[str, bytes]:
    """What another command than the killed one would make of what is left."""
    copy = out.with_name("copy")
    shutil.copytree(f"{out}.ottla", f"{copy}.ottla")
    if out.exists():
        shutil.copytree(out, copy)
    settle(str(copy))
    return published(copy)


def published(out: Path) -> dict[str, bytes]:
    return tree(out) if out.exists() else {}


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_driver_killed_around_its_commit(
    spark: SparkSession,
    logs: Path,
    whole: dict[str, dict[str, bytes]],
    tmp_path: Path,
    name: str,
    moment: str,
) -> None:
    before, out = tree(logs), tmp_path / "out"
    assert finish(start(name, logs, out, moment)) == -signal.SIGKILL
    left = len(published(out))
    if moment == "before":
        assert left == 0
    assert len(open_journals(str(out))) == 1
    assert settled_copy(out) == ({} if moment == "before" else whole[name])
    run_again(spark, name, logs, out)
    assert published(out) == whole[name]
    assert open_journals(str(out)) == []
    assert tree(logs) == before
    print(f"{name}: driver killed {moment} the commit: {left} files there, then {len(whole[name])}")


@pytest.mark.parametrize("name", JOBS)
def test_a_driver_killed_at_a_random_moment(
    spark: SparkSession, logs: Path, whole: dict[str, dict[str, bytes]], tmp_path: Path, name: str
) -> None:
    before, out = tree(logs), tmp_path / "out"
    process = start(name, logs, out)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(random.Random(name).uniform(0.5, 4))
    process.kill()
    killed = finish(process) != 0
    settled = published(out) if open_journals(str(out)) == [] else {}
    assert settled in ({}, whole[name])
    run_again(spark, name, logs, out)
    assert published(out) == whole[name]
    assert tree(logs) == before
    print(f"{name}: driver killed at a random moment: {'yes' if killed else 'it was done before'}")


@pytest.mark.parametrize("name", JOBS)
def test_tasks_that_fail_at_random(
    spark: SparkSession, logs: Path, whole: dict[str, dict[str, bytes]], tmp_path: Path, name: str
) -> None:
    before, runs, out = tree(logs), Counter[str](), tmp_path / "out"
    while not runs["completed"]:
        code = finish(start(name, logs, out, FAIL_SHARE="0.3"))
        runs["failed" if code else "completed"] += 1
        assert published(out) == (whole[name] if code == 0 else {})
        assert runs["failed"] < 10
    assert tree(logs) == before
    print(f"{name}: 30% of tasks fail: {dict(runs)}")


@pytest.mark.parametrize("name", JOBS)
def test_workers_killed_while_they_work(
    spark: SparkSession, logs: Path, whole: dict[str, dict[str, bytes]], tmp_path: Path, name: str
) -> None:
    before, out = tree(logs), tmp_path / "out"
    process = start(name, logs, out)
    chance, killed = random.Random(name), 0
    while process.poll() is None and killed < 6:
        time.sleep(chance.uniform(0.05, 0.4))
        for worker in workers_of(process.pid)[:1]:
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed += 1
    code = finish(process)
    assert published(out) == (whole[name] if code == 0 else {})
    if code:
        run_again(spark, name, logs, out)
    assert published(out) == whole[name]
    assert tree(logs) == before
    print(f"{name}: {killed} workers killed; first run {'failed' if code else 'completed'}")


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


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of 300 kB, where we may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("name", JOBS)
def test_a_full_disk(
    spark: SparkSession,
    logs: Path,
    whole: dict[str, dict[str, bytes]],
    small_disk: Path,
    name: str,
) -> None:
    before, out = tree(logs), small_disk / "out"
    filler = small_disk / "filler"
    filler.write_bytes(bytes(270_000))
    code = finish(start(name, logs, out))
    assert code != 0
    assert published(out) == {}
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    run_again(spark, name, logs, out)
    assert published(out) == whole[name]
    assert tree(logs) == before
    print(f"{name}: a full disk stopped the first run; the second completed")
