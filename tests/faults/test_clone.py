"""Faults while a cluster is cloned: nothing half-made looks whole, and a second run completes.

What a clone holds depends on where it lies, so that each is compared with one that was made there.
"""

import os
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cli.here import run
from faults import faulty_job
from faults.faulty_job import plan_job
from faults.fuzzing import NOBODY
from faults.processes import finish, full_disk, make_room, start
from jobs.plain import tree
from jobs.topics import write_topic
from ottla.engine.local import LocalEngine
from ottla.jobs.run import run_output_job
from ottla.publish.journal import open_journals

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs") / "logs"
    write_topic(folder, "orders", partitions=3)
    return folder


def clone(logs: Path, out: Path) -> dict[str, bytes]:
    """Run it, or what is left of it, to the end."""
    run_output_job(LocalEngine(quiet=True), plan_job("clone", str(logs), str(out)))
    return tree(out)


def clone_and_take_away(logs: Path, out: Path) -> dict[str, bytes]:
    whole = clone(logs, out)
    shutil.rmtree(out)
    shutil.rmtree(f"{out}.ottla")
    return whole


def published(out: Path) -> dict[str, bytes]:
    return tree(out) if out.exists() else {}


@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_clone_killed_around_its_commit_is_finished(
    logs: Path, tmp_path: Path, moment: str, counts: Counter[str]
) -> None:
    before, out = tree(logs), tmp_path / "out"
    whole = clone_and_take_away(logs, out)
    assert finish(start(faulty_job, "clone", logs, out, moment, ENGINE="local")) == -signal.SIGKILL
    assert len(open_journals(str(out))) == 1
    if moment == "before":
        assert published(out) == {}
        assert clone(logs, out) == whole
    else:
        assert run("finish", out).status == 0
        assert published(out) == whole
    assert out.stat().st_mode & 0o777 == 0o700
    assert open_journals(str(out)) == []
    assert tree(logs) == before
    counts[f"clones killed {moment} the commit"] += 1


def test_clones_killed_at_random_moments_are_finished(
    logs: Path, tmp_path: Path, counts: Counter[str]
) -> None:
    before, out = tree(logs), tmp_path / "out"
    whole = clone_and_take_away(logs, out)
    for seed in range(4):
        process = start(faulty_job, "clone", logs, out, ENGINE="local")
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.3))
        process.kill()
        ended = finish(process)
        left = published(out)
        if open_journals(str(out)):
            assert left.items() <= whole.items()  # what is there is as it will be
        else:
            assert left in ({}, whole)
        counts["clones killed" if ended else "clones done before they died"] += 1
    assert clone(logs, out) == whole
    assert tree(logs) == before


def test_a_clone_begun_on_spark_is_finished_here(
    logs: Path, tmp_path: Path, counts: Counter[str]
) -> None:
    out = tmp_path / "out"
    whole = clone_and_take_away(logs, out)
    assert finish(start(faulty_job, "clone", logs, out, "before", ENGINE="spark")) != 0
    assert published(out) == {}
    assert clone(logs, out) == whole
    counts["clones begun on Spark"] += 1


def test_a_full_disk_stops_a_clone_and_room_lets_it_go_on(
    logs: Path, tmp_path: Path, counts: Counter[str]
) -> None:
    before = tree(logs)
    with full_disk(tmp_path, left=60_000) as disk:
        out = disk / "out"
        assert finish(start(faulty_job, "clone", logs, out, ENGINE="local")) != 0
        assert published(out) == {}
        make_room(disk)
        made = clone(logs, out)
        assert made == {name: data for name, data in made.items() if name.startswith("node-")}
        shutil.rmtree(out)
        shutil.rmtree(f"{out}.ottla")
        assert clone(logs, out) == made
    assert tree(logs) == before
    counts["clones stopped by a full disk"] += 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not read")
def test_a_segment_that_can_not_be_read_stops_a_clone_and_rights_let_it_go_on(
    logs: Path, tmp_path: Path
) -> None:
    # Whom we become finds kernels compiled and modules loaded, where our files are not theirs.
    assert run("clone", logs, tmp_path / "warm").status == 0
    assert run("clone", tmp_path / "nothing", tmp_path / "out").status == 2
    # Not below pytest's folder, which lets in nobody but its owner.
    with TemporaryDirectory(prefix="ottla-clone-") as folder:
        copy, out = Path(folder) / "logs", Path(folder) / "out"
        shutil.copytree(logs, copy)
        for path in (Path(folder), *Path(folder).rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        segment = max((copy / "orders-1").glob("*.log"))
        segment.chmod(0)
        status, said = run_as_nobody("clone", copy, out)
        assert status == 2
        assert f"orders-1/{segment.name}" in said
        assert published(out) == {}
        segment.chmod(0o600)
        status, said = run_as_nobody("clone", copy, out)
        assert (status, tree(copy)) == (0, tree(logs)), said
        assert open_journals(str(out)) == []
        assert {path.name for path in out.glob("node-1/data/orders-*")} == {
            f"orders-{partition}" for partition in range(3)
        }


def run_as_nobody(*words: object) -> tuple[int, str]:
    """The exit code and the messages of a command that another user runs, as a fork of this."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        ran = run(*words)
        os.write(writing, ran.err.encode()[-4000:])
        os._exit(ran.status)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        text = said.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text
