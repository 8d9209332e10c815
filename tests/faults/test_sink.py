"""Faults while the sink writes: no row is lost or repeated, and no half of a save is ever seen."""

import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults import faulty_sink
from faults.faulty_sink import COUNT, PARTITIONS, save, stream
from faults.processes import finish, full_disk, kill_workers, make_room, start
from jobs.plain import records_of
from ottla.log.files.partition import find_partitions
from ottla.publish.journal import open_journals, settle
from whole_log import check_partition

pytestmark = pytest.mark.faults

MOMENTS = ("before", "during", "after")


def values_of(out: Path) -> list[int]:
    """All values, when offsets are right and keys are together."""
    values, homes = [], {}
    for partition in range(PARTITIONS):
        folder = out / f"t-{partition}"
        records = records_of(folder) if folder.exists() else []
        assert [record[0] for record in records] == list(range(len(records)))
        values += [int(record[3] or b"") for record in records]
        for record in records:
            assert homes.setdefault(record[2], partition) == partition
    return sorted(values)


def settled_copy(out: Path) -> Path:
    """What another command would make of what a dead driver left."""
    copy = out.with_name("copy")
    shutil.copytree(f"{out}.ottla", f"{copy}.ottla")
    if out.exists():
        shutil.copytree(out, copy)
    settle(str(copy))
    assert open_journals(str(copy)) == []
    return copy


def assert_sound(out: Path) -> None:
    found = [each for one in find_partitions([out]) for each in check_partition(one)]
    assert [each for each in found if each.rule.severity != "note"] == []
    assert open_journals(str(out)) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_save_whose_driver_is_killed_around_the_commit(
    spark: SparkSession, tmp_path: Path, moment: str, counts: Counter[str]
) -> None:
    out, whole = tmp_path / "out", list(range(COUNT))
    assert finish(start(faulty_sink, "save", out, DIE_AT=moment)) == -signal.SIGKILL
    assert len(open_journals(str(out))) == 1
    assert values_of(settled_copy(out)) == ([] if moment == "before" else whole)
    save(spark, str(out))
    assert values_of(out) == whole
    assert_sound(out)
    counts["sink: drivers killed around the commit"] += 1


def test_a_save_whose_tasks_fail_at_random(tmp_path: Path, counts: Counter[str]) -> None:
    out, runs = tmp_path / "out", Counter[str]()
    while not runs["completed"]:
        code = finish(start(faulty_sink, "save", out, FAIL_SHARE="0.3"))
        runs["failed" if code else "completed"] += 1
        assert values_of(out) == ([] if code else list(range(COUNT)))
        assert runs["failed"] < 10
    assert_sound(out)
    counts["sink: saves with 30 % of failing tasks"] += runs.total()


def test_a_save_whose_workers_are_killed(
    spark: SparkSession, tmp_path: Path, counts: Counter[str]
) -> None:
    out = tmp_path / "out"
    process = start(faulty_sink, "save", out)
    counts["sink: workers killed"] += kill_workers(process, 4, "sink")
    code = finish(process)
    assert values_of(out) == ([] if code else list(range(COUNT)))
    save(spark, str(out))
    assert values_of(out) == list(range(COUNT))
    assert_sound(out)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_stream_whose_driver_is_killed_around_the_commit_of_a_batch(
    spark: SparkSession, tmp_path: Path, moment: str, counts: Counter[str]
) -> None:
    files, out = tmp_path / "files", tmp_path / "out"
    files.mkdir()
    for number in range(4):
        rows = range(100 * number, 100 * number + 100)
        lines = [json.dumps({"key": str(value % 7), "value": str(value)}) for value in rows]
        (files / f"{number}.json").write_text("\n".join(lines))
        os.utime(files / f"{number}.json", (number, number))  # Spark takes them in this order
    assert finish(start(faulty_sink, "stream", out, files, DIE_AT=moment)) == -signal.SIGKILL
    seen = values_of(settled_copy(out))
    assert seen == list(range(200 if moment == "before" else 300))
    stream(spark, str(out), str(files))
    assert values_of(out) == list(range(400))
    assert_sound(out)
    counts["sink: streams killed around the commit of a batch"] += 1


def test_a_save_to_a_full_disk(tmp_path: Path, counts: Counter[str]) -> None:
    with full_disk(tmp_path, left=4_000) as disk:
        out = disk / "out"
        assert finish(start(faulty_sink, "save", out)) != 0
        assert values_of(out) == []
        make_room(disk)
        assert finish(start(faulty_sink, "save", out)) == 0  # no worker of ours holds the disk
        assert values_of(out) == list(range(COUNT))
        assert_sound(out)
    counts["sink: saves stopped by a full disk"] += 1
