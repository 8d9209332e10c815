"""Salvage by segments gives what the salvage of a whole partition gives."""

import random
from pathlib import Path

from jobs.plain import records_of, run_plainly, tree
from jobs.test_verify import damage
from jobs.topics import write_topic
from ottla.jobs.salvage import plan_salvage_job
from ottla.jobs.selection import Selection
from ottla.log.check import check_partition
from ottla.log.partition import find_partitions
from ottla.log.publish import commit, publish, run_job
from ottla.log.salvage import plan_salvage
from ottla.log.salvage_writer import write_salvage


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
            files += write_salvage(partition, plans, job, job.storage).files
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
