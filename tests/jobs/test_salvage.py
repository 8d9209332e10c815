"""Salvage by segments gives what the salvage of a whole partition gives."""

import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jobs.plain import records_of, run_plainly, tree
from jobs.test_verify import damage
from jobs.topics import write_topic
from ottla.catalog.selection import Selection
from ottla.errors import PublishError
from ottla.jobs.rewrite.salvage import plan_salvage_job
from ottla.log.files.partition import find_partitions
from ottla.log.salvage.write import write_salvage
from ottla.publish.journal import commit, publish, run_job, staged_path
from whole_log import check_partition, plan_salvage


def damaged_topic(folder: Path, seed: int = 3) -> Path:
    logs = folder / "logs"
    write_topic(logs, "orders", partitions=3)
    chance = random.Random(seed)
    for log in sorted(logs.rglob("*.log"))[::2]:
        damage(log, chance)
    return logs


def salvage_whole(logs: Path, out: Path) -> None:
    with run_job(str(out), "whole") as job:
        files = []
        for partition in find_partitions([logs]):
            plans = plan_salvage(partition)
            files += write_salvage(partition, plans, job, job.storage, None).files
        commit(job, files, [])
        publish(job)


def test_parts_give_what_the_whole_gives(tmp_path: Path) -> None:
    logs = damaged_topic(tmp_path)
    before = tree(logs)
    salvage_whole(logs, tmp_path / "whole")
    run_plainly(plan_salvage_job(Selection((str(logs),)), str(tmp_path / "parts")))
    assert tree(tmp_path / "parts") == tree(tmp_path / "whole")
    assert tree(logs) == before


def test_the_account_covers_every_byte_and_the_output_is_sound(tmp_path: Path) -> None:
    logs = damaged_topic(tmp_path)
    rows = run_plainly(plan_salvage_job(Selection((str(logs),)), str(tmp_path / "out")))
    assert [row["partition"] for row in rows] == [0, 1, 2]
    for row in rows:
        size = sum(path.stat().st_size for path in logs.glob(f"orders-{row['partition']}/*.log"))
        assert row["readBytes"] == size == row["writtenBytes"] + row["quarantinedBytes"]
    for partition in find_partitions([tmp_path / "out"]):
        assert records_of(Path(partition.path))
        severities = {violation.rule.severity for violation in check_partition(partition)}
        assert "error" not in severities


class Unpickled:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


def columns(position: int, size: int) -> bytes:
    """One row of a table of batches."""
    return np.array([position, size, *[0] * 14], dtype="<i8").tobytes()


PLANTED = {
    "empty": b"",
    "not-json": b"{\n",
    "nested": b"[" * 100_000 + b"\n",
    "half-a-row": b"[]\n" + bytes(40),
    "no-rule": b'[[0, {"rule": "no-such-rule"}]]\n' + columns(0, 61),
    "before-the-file": b"[]\n" + columns(-1, 61),
    "past-the-file": b"[]\n" + columns(0, 2**62),
    "past-all-files": b"[]\n" + columns(2**63 - 1, 61),
    "out-of-order": b"[]\n" + np.array([[9, 0]] + [[1, 1]] * 15, dtype="<i8").tobytes(),
}


@pytest.mark.parametrize("planted", ["pickle", *PLANTED])
def test_what_was_found_is_read_as_if_a_stranger_had_written_it(
    tmp_path: Path, planted: str
) -> None:
    """It used to be unpickled: whoever could write to the staging could run code."""
    logs, out = damaged_topic(tmp_path), str(tmp_path / "out")
    plan = plan_salvage_job(Selection((str(logs),)), out)
    data = pickle.dumps(Unpickled(tmp_path / "ran")) if planted == "pickle" else PLANTED[planted]
    with run_job(out, "j") as job:
        finished = {key: plan.stage(job, part) for key, part in plan.parts.items()}
        for part in finished.values():
            Path(staged_path(job, part.account["found"])).write_bytes(data)
        for part in plan.closing(finished).values():
            with pytest.raises(PublishError, match="is not what was found in"):
                plan.close(job, part)
    assert not (tmp_path / "ran").exists()


def test_what_was_found_is_named_inside_of_the_staging(tmp_path: Path) -> None:
    logs, out = damaged_topic(tmp_path), str(tmp_path / "out")
    plan = plan_salvage_job(Selection((str(logs),)), out)
    with run_job(out, "j") as job:
        finished = {key: plan.stage(job, part) for key, part in plan.parts.items()}
        for part in finished.values():
            part.account["found"] = "../../../elsewhere"
        for part in plan.closing(finished).values():
            with pytest.raises(PublishError, match="no name of a file"):
                plan.close(job, part)
