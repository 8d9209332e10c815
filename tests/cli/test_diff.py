"""`ottla diff`: rows, words, exit codes."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from builders import Row, batch
from cli.here import run
from log.generated import write_partition


def replica(folder: Path, *batches: tuple[int, int]) -> Path:
    """A partition t-0 whose batches are (offset, epoch)."""
    data = b"".join(batch([Row(at, 1000)], leader_epoch=epoch) for at, epoch in batches)
    base = batches[0][0] if batches else 0
    write_partition(folder, "t-0", base, data)
    return folder


def rows(*paths: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("diff", *paths, "--json").out.splitlines()]


SAME = [(at, 0) for at in range(4)]


@pytest.mark.parametrize(
    ("other", "state", "equal_to"),
    [
        pytest.param(SAME, "equal", 4, id="equal"),
        pytest.param(SAME[:2], "behind", 2, id="behind"),
        pytest.param(SAME[2:], "starts later", 4, id="later"),
        pytest.param([SAME[0], SAME[3]], "holes", 4, id="holes"),
    ],
)
def test_a_replica_has_a_state(
    tmp_path: Path, other: list[tuple[int, int]], state: str, equal_to: int
) -> None:
    paths = [replica(tmp_path / "a", *SAME), replica(tmp_path / "b", *other)]
    (row,) = rows(*paths)
    assert (row["state"], row["equalTo"]) == (state, equal_to)
    assert row["best"] == str(tmp_path / "a" / "t-0")
    text = run("diff", *paths)
    assert text.status == int(state != "equal")
    assert state in text.out
    assert run("diff", *paths, "--quiet") == (text.status, "", "")


def test_the_higher_epoch_is_right_though_it_is_shorter(tmp_path: Path) -> None:
    old = replica(tmp_path / "a", *SAME, (4, 0), (5, 0))
    new = replica(tmp_path / "b", *SAME, (4, 2))
    (row,) = rows(old, new)
    assert row["best"] == str(new / "t-0")
    assert (row["state"], row["equalTo"]) == ("diverged", 4)
    assert row["divergence"] == {"offset": 4, "epoch": 0, "bestEpoch": 2}
    assert (row["lacks"]["after"]["records"], row["alone"]["after"]["records"]) == (1, 2)
    assert "0, best 2" in run("diff", old, new).out


def test_three_replicas_are_two_rows(tmp_path: Path) -> None:
    paths = [replica(tmp_path / name, *SAME[: 4 - at]) for at, name in enumerate("abc")]
    assert [row["equalTo"] for row in rows(*paths)] == [3, 2]


def test_of_three_places_partitions_that_are_in_one_are_not_compared(tmp_path: Path) -> None:
    first, second, third = (replica(tmp_path / name, *SAME) for name in "abc")
    write_partition(first, "u-0", 0, batch([Row(0)]))
    ran = run("diff", first, second, third)
    assert (ran.status, "1 partition in one place only: not compared" in ran.err) == (0, True)
    alone = run("diff", first)
    assert (alone.status, "no partition is here twice" in alone.err) == (2, True)


@pytest.mark.parametrize("records", [3, 0])
def test_a_partition_that_one_of_two_places_lacks_is_a_difference(
    tmp_path: Path, records: int
) -> None:
    first, second = replica(tmp_path / "a", *SAME), replica(tmp_path / "b", *SAME)
    write_partition(second, "u-0", 0, b"".join(batch([Row(at)]) for at in range(records)))
    for paths in ([first, second], [second, first]):
        same, row = rows(*paths)
        assert (same["state"], row["topic"], row["state"]) == ("equal", "u", "missing")
        assert (row["replica"], row["best"]) == (str(first / "u-0"), str(second / "u-0"))
        assert row["lacks"].get("after", {"records": 0})["records"] == records
        ran = run("diff", *paths)
        assert (ran.status, ran.err) == (1, "")
        assert "1 differ" in ran.out
    of_one = run("diff", first / "t-0", second)
    assert (of_one.status, "1 partition in one place only" in of_one.err) == (0, True)


def test_replicas_of_two_topics_of_one_name_differ(tmp_path: Path) -> None:
    paths = [replica(tmp_path / name, *SAME) for name in "ab"]
    ids = ["Zk3vQ1cJS0uW0Yq2yH8n4g", "AAECAwQFBgcICQoLDA0ODw"]
    for path, topic_id in zip(paths, ids, strict=True):
        (path / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    (row,) = rows(*paths)
    assert (row["state"], row["bestTopicId"], row["topicId"]) == ("another topic", *ids)
    ran = run("diff", *paths)
    assert ran.status == 1
    assert f"its id is {ids[1]}, that of the best {ids[0]}" in ran.err
    (paths[1] / "t-0" / "partition.metadata").write_text("broken")
    assert run("diff", *paths).status == 0  # who does not say whose it is may be the same


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a process reads")
def test_equal_replicas_are_compared_by_headers_alone(tmp_path: Path) -> None:
    data = b"".join(batch([Row(at, 1000, None, bytes(1 << 20))]) for at in range(24))
    for name in "ab":
        write_partition(tmp_path / name, "t-0", 0, data)
        write_partition(tmp_path / name, "t-0", 24, batch([Row(24)]))
    run("diff", tmp_path / "a", tmp_path / "b")  # loads kernels
    before = read_so_far()
    assert run("diff", tmp_path / "a", tmp_path / "b").status == 0
    assert read_so_far() - before < len(data) // 4


def read_so_far() -> int:
    (count,) = re.findall(r"^rchar: (\d+)$", Path("/proc/self/io").read_text(), re.M)
    return int(count)
