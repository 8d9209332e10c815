"""The demo's logs: the same bytes each time, and something to see for every command."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.here import run
from ottla.jobs.demo import DAMAGED, HANGING_PRODUCER, make_logs


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "kafka-logs"
    make_logs(str(path))
    return path


def rows(*words: object) -> list[dict[str, Any]]:
    ran = run(*words, "--format", "jsonl", "--quiet")
    assert ran.status in (0, 1), ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def contents(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def test_they_are_small_and_the_same_each_time(logs: Path, tmp_path: Path) -> None:
    make_logs(str(tmp_path / "again"))
    made = contents(logs)
    assert contents(tmp_path / "again") == made
    assert sum(map(len, made.values())) < 1_700_000


def test_a_second_demo_finds_them_as_they_are(logs: Path) -> None:
    made = contents(logs)
    make_logs(str(logs))
    assert contents(logs) == made


def test_groups_are_behind_and_one_waits_for_what_hangs(logs: Path) -> None:
    lags = {(row["group"], row["topic"], row["partition"]): row for row in rows("groups", logs)}
    (hanging,) = [row for row in rows("transactions", logs) if row["type"] == "open"]
    assert (hanging["producerId"], hanging["hanging"]) == (HANGING_PRODUCER, True)
    assert lags["billing", "orders", 1]["offset"] == hanging["firstOffset"]
    assert lags["billing", "orders", 2]["lag"] == 0
    assert lags["clickstream", "clicks", 0]["lag"] == 2000
    assert {group for group, _, _ in lags} == {"billing", "clickstream"}
    states = {row["group"]: row["state"] for row in rows("groups", logs, "--state")}
    assert states == {"billing": "Stable", "clickstream": "Empty"}


def test_topics_are_known_with_their_ids_and_configs(logs: Path) -> None:
    topics = {row["topic"]: row for row in rows("topics", logs)}
    for name, topic in topics.items():
        for partition in topic["partitions"]:
            folder = logs / f"{name}-{partition['partition']}"
            assert topic["topicId"] in (folder / "partition.metadata").read_text()
    there = {folder.name.rpartition("-")[0] for folder in logs.iterdir()}
    assert {*topics} == there - {"__cluster_metadata"}
    assert topics["users"]["configs"]["cleanup.policy"] == "compact"
    assert [one["isr"] for one in topics["payments"]["partitions"]] == [[1]]


def test_only_one_partition_is_damaged(logs: Path) -> None:
    found = [row for row in rows("verify", logs, "--engine", "local") if row["type"] == "violation"]
    assert {f"{row['topic']}-{row['partition']}" for row in found} == {DAMAGED}
    assert {row["rule"] for row in found} >= {"crc-matches", "log-tail"}


def test_the_cleaner_has_something_to_do(logs: Path, tmp_path: Path) -> None:
    (row,) = rows("compact", logs, tmp_path / "out", "--topic", "users", "--explain")
    assert 0 < row["remainingBytes"] < row["cleanedBytes"] / 3
    assert row["tombstones"] > 0
    assert "active segment" in [each["cause"] for each in row["obstacles"]]
