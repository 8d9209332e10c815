"""A compaction that meets faults leaves all or nothing, and a second run completes it."""

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from faults import faulty_compact
from faults.faulty_compact import plan
from faults.processes import finish, full_disk, kill_workers, make_room, start
from faults.test_jobs import published, settled_copy
from jobs.compacting import compact_plainly
from jobs.plain import tree
from jobs.topics import write_topic
from ottla.engine.local import LocalEngine
from ottla.jobs.compact.run import compact
from ottla.jobs.engine import Engine
from ottla.publish.journal import open_journals

pytestmark = pytest.mark.faults

BEFORE_COMMIT = ("surveyed", "learnt", "before")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs") / "logs"
    write_topic(folder, "orders", partitions=2, segments=6)
    return folder


@pytest.fixture(scope="module")
def whole(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a compaction writes when nothing goes wrong."""
    out = tmp_path_factory.mktemp("whole") / "out"
    compact_plainly(plan(str(logs), str(out)))
    return tree(out)


@pytest.mark.parametrize(
    ("moment", "killed"),
    [
        ("surveyed", "local"),
        ("learnt", "local"),
        ("learnt", "spark"),
        ("before", "spark"),
        ("during", "local"),
        ("after", "spark"),
    ],
)
def test_a_compaction_killed_on_one_engine_is_finished_by_the_other(
    others: dict[str, Engine],
    logs: Path,
    tmp_path: Path,
    moment: str,
    killed: str,
    counts: Counter[str],
) -> None:
    before, out = tree(logs), tmp_path / "out"
    dying = start(faulty_compact, logs, out, moment, ENGINE=killed)
    assert finish(dying) == -signal.SIGKILL
    (job,) = filter(Path.is_dir, Path(f"{out}.ottla").iterdir())
    now = json.loads((job / "now.json").read_text())
    compact_plainly(plan(str(logs), str(tmp_path / "whole"), now))
    whole = tree(tmp_path / "whole")
    if moment in BEFORE_COMMIT:
        assert published(out) == {}
    assert settled_copy(out) == ({} if moment in BEFORE_COMMIT else whole)
    compact(others[killed], plan(str(logs), str(out), None))
    assert published(out) == whole
    assert open_journals(str(out)) == []
    assert tree(logs) == before
    counts["compact: drivers killed"] += 1


def test_tasks_that_fail_at_random(
    logs: Path, whole: dict[str, bytes], tmp_path: Path, counts: Counter[str]
) -> None:
    before, failed, out = tree(logs), 0, tmp_path / "out"
    while finish(start(faulty_compact, logs, out, FAIL_SHARE="0.3")):
        assert published(out) == {}
        failed += 1
        assert failed < 10
    assert published(out) == whole
    assert tree(logs) == before
    counts["compact: runs failed by tasks that fail at random"] += failed
    counts["compact: runs completed although tasks fail at random"] += 1


def test_workers_killed_while_they_work(
    logs: Path,
    whole: dict[str, bytes],
    tmp_path: Path,
    counts: Counter[str],
) -> None:
    out = tmp_path / "out"
    process = start(faulty_compact, logs, out)
    counts["compact: workers killed"] += kill_workers(process, 6, "compact")
    code = finish(process)
    assert published(out) == ({} if code else whole)
    compact(LocalEngine(), plan(str(logs), str(out)))
    assert published(out) == whole


def test_a_full_disk(
    logs: Path,
    whole: dict[str, bytes],
    tmp_path: Path,
    counts: Counter[str],
) -> None:
    with full_disk(tmp_path, left=30_000) as disk:
        out = disk / "out"
        assert finish(start(faulty_compact, logs, out)) != 0
        assert published(out) == {}
        make_room(disk)
        compact(LocalEngine(), plan(str(logs), str(out)))
        assert published(out) == whole
    counts["compact: runs stopped by a full disk"] += 1
