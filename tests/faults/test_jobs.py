"""Faults while jobs run: never a partial output, never a changed input, and a second run completes.

The last line of the run says how many faults of which kind there were and what came of them.
"""

import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from faults import faulty_job
from faults.faulty_job import JOBS, plan_job
from faults.processes import finish, full_disk, kill_workers, make_room, start
from jobs.plain import run_plainly, tree
from jobs.topics import write_topic
from ottla.engine.local import LocalEngine
from ottla.jobs.engine import Engine
from ottla.jobs.run import run_output_job
from ottla.publish.journal import open_journals, settle

pytestmark = pytest.mark.faults

MOMENTS = ("before", "during", "after")
ENGINES = ("local", "spark")
# Every moment and every job on both engines, not each with each.
KILLED = [
    (name, moment, ENGINES[(number + at) % 2])
    for number, name in enumerate(JOBS)
    for at, moment in enumerate(MOMENTS)
]


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


def run_again(engine: Engine, name: str, logs: Path, out: Path) -> None:
    run_output_job(engine, plan_job(name, str(logs), str(out)))


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


@pytest.mark.parametrize(("name", "moment", "killed"), KILLED)
def test_a_job_killed_on_one_engine_around_its_commit_is_finished_by_the_other(
    others: dict[str, Engine],
    logs: Path,
    whole: dict[str, dict[str, bytes]],
    tmp_path: Path,
    name: str,
    moment: str,
    killed: str,
    counts: Counter[str],
) -> None:
    before, out = tree(logs), tmp_path / "out"
    dying = start(faulty_job, name, logs, out, moment, ENGINE=killed)
    assert finish(dying) == -signal.SIGKILL
    if moment == "before":
        assert published(out) == {}
    assert len(open_journals(str(out))) == 1
    assert settled_copy(out) == ({} if moment == "before" else whole[name])
    run_again(others[killed], name, logs, out)
    assert published(out) == whole[name]
    assert open_journals(str(out)) == []
    assert tree(logs) == before
    counts[f"drivers killed {moment} the commit"] += 1


@pytest.mark.parametrize(("name", "killed"), list(zip(JOBS, ENGINES * 2, strict=True)))
def test_a_driver_killed_at_a_random_moment(
    others: dict[str, Engine],
    logs: Path,
    whole: dict[str, dict[str, bytes]],
    tmp_path: Path,
    name: str,
    killed: str,
    counts: Counter[str],
) -> None:
    before, out = tree(logs), tmp_path / "out"
    process = start(faulty_job, name, logs, out, ENGINE=killed)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(random.Random(name).uniform(0.5, 4) if killed == "spark" else 0.05)
    process.kill()
    ended = finish(process)
    settled = published(out) if open_journals(str(out)) == [] else {}
    assert settled in ({}, whole[name])
    run_again(others[killed], name, logs, out)
    assert published(out) == whole[name]
    assert tree(logs) == before
    counts["drivers killed at a random moment" if ended else "drivers done before they died"] += 1


@pytest.mark.parametrize("name", JOBS)
def test_tasks_that_fail_at_random(
    logs: Path,
    whole: dict[str, dict[str, bytes]],
    tmp_path: Path,
    name: str,
    counts: Counter[str],
) -> None:
    before, failed, out = tree(logs), 0, tmp_path / "out"
    while finish(start(faulty_job, name, logs, out, FAIL_SHARE="0.3")):
        assert published(out) == {}
        failed += 1
        assert failed < 10
    assert published(out) == whole[name]
    assert tree(logs) == before
    counts["runs failed by tasks that fail at random"] += failed
    counts["runs completed although tasks fail at random"] += 1


@pytest.mark.parametrize("name", JOBS)
def test_workers_killed_while_they_work(
    logs: Path,
    whole: dict[str, dict[str, bytes]],
    tmp_path: Path,
    name: str,
    counts: Counter[str],
) -> None:
    before, out = tree(logs), tmp_path / "out"
    process = start(faulty_job, name, logs, out)
    killed = kill_workers(process, 6, name)
    code = finish(process)
    assert published(out) == (whole[name] if code == 0 else {})
    if code:
        run_again(LocalEngine(), name, logs, out)
    assert published(out) == whole[name]
    assert tree(logs) == before
    counts["workers killed"] += killed
    counts[f"runs {'failed' if code else 'completed'} although workers were killed"] += 1


@pytest.mark.parametrize(("name", "stopped"), list(zip(JOBS, ENGINES * 2, strict=True)))
def test_a_full_disk(
    others: dict[str, Engine],
    logs: Path,
    whole: dict[str, dict[str, bytes]],
    tmp_path: Path,
    name: str,
    stopped: str,
    counts: Counter[str],
) -> None:
    before = tree(logs)
    with full_disk(tmp_path, left=30_000) as disk:
        out = disk / "out"
        assert finish(start(faulty_job, name, logs, out, ENGINE=stopped)) != 0
        assert published(out) == {}
        make_room(disk)
        run_again(others[stopped], name, logs, out)
        assert published(out) == whole[name]
    assert tree(logs) == before
    counts["runs stopped by a full disk"] += 1
