"""Faults while `ottla verify` runs: the file of violations is there whole or not at all."""

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from faults import faulty_job
from faults.processes import finish, full_disk, kill_workers, make_room, start
from jobs.plain import tree
from jobs.test_salvage import damaged_topic
from ottla.log.files.partition import find_partitions
from whole_log import check_partition

pytestmark = pytest.mark.faults

FOUND_ERRORS = 1  # the exit code of a verify that did its work


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damaged_topic(tmp_path_factory.mktemp("damaged"))


@pytest.fixture(scope="module")
def whole(logs: Path) -> list[str]:
    """What a check in one process finds."""
    found = [each for partition in find_partitions([logs]) for each in check_partition(partition)]
    return sorted(json.dumps(each.as_row(), sort_keys=True) for each in found)


def violations(out: Path) -> list[str]:
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in out.open())


def test_a_driver_killed_before_its_file_is_named(
    logs: Path, whole: list[str], tmp_path: Path, counts: Counter[str]
) -> None:
    before, out = tree(logs), tmp_path / "out.jsonl"
    assert finish(start(faulty_job, "verify", logs, out, "before")) == -signal.SIGKILL
    assert not out.exists()
    assert finish(start(faulty_job, "verify", logs, out)) == FOUND_ERRORS
    assert violations(out) == whole
    assert tree(logs) == before
    counts["drivers killed before the commit"] += 1


def test_tasks_that_fail_at_random(
    logs: Path, whole: list[str], tmp_path: Path, counts: Counter[str]
) -> None:
    out, failed = tmp_path / "out.jsonl", 0
    while finish(start(faulty_job, "verify", logs, out, FAIL_SHARE="0.3")) != FOUND_ERRORS:
        assert not out.exists()
        failed += 1
        assert failed < 10
    assert violations(out) == whole
    counts["runs failed by tasks that fail at random"] += failed
    counts["runs completed although tasks fail at random"] += 1


def test_workers_killed_while_they_work(
    logs: Path, whole: list[str], tmp_path: Path, counts: Counter[str]
) -> None:
    out = tmp_path / "out.jsonl"
    process = start(faulty_job, "verify", logs, out)
    counts["workers killed"] += kill_workers(process, 6, "verify")
    failed = finish(process) != FOUND_ERRORS
    assert out.exists() != failed
    counts[f"runs {'failed' if failed else 'completed'} although workers were killed"] += 1
    if failed:
        assert finish(start(faulty_job, "verify", logs, out)) == FOUND_ERRORS
    assert violations(out) == whole


def test_a_full_disk(logs: Path, whole: list[str], tmp_path: Path, counts: Counter[str]) -> None:
    with full_disk(tmp_path, left=0) as disk:
        out = disk / "out.jsonl"
        assert finish(start(faulty_job, "verify", logs, out)) > FOUND_ERRORS
        assert not out.exists()
        make_room(disk)
        assert finish(start(faulty_job, "verify", logs, out)) == FOUND_ERRORS
        assert violations(out) == whole
    counts["runs stopped by a full disk"] += 1
