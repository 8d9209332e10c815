"""What two replicas have in common, against a naive model of leaders, followers and crashes."""

import random
from collections import Counter
from pathlib import Path

import pytest

from builders import Row, batch
from log.generated import write_partition
from log.histories import Replica, compare, end_of, history, write_replica
from ottla.log.compare.replicas import Comparison, compare_replicas
from ottla.log.files.partition import find_partitions
from ottla.storage.object_store import DEFAULT_OPTIONS

HISTORIES = 200


def written(folder: Path, replicas: list[Replica], seed: int) -> Comparison:
    chooser = random.Random(seed)
    for name, replica in zip("ab", replicas, strict=True):
        write_replica(replica, folder / name / "t-0", chooser)
    (first,) = find_partitions([str(folder / "a")])
    (second,) = find_partitions([str(folder / "b")])
    return compare_replicas(first, second, DEFAULT_OPTIONS)


def alone(found: Comparison, side: int) -> int:
    return sum(pair[side].records for pair in (found.before, found.inside, found.after))


def test_random_histories_are_compared_as_the_model_compares_them(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(HISTORIES):
        replicas = history(seed)
        expected = compare(*replicas)
        found = written(tmp_path / str(seed), replicas, seed)
        assert found.divergence == expected.divergence, seed
        assert [alone(found, side) for side in (0, 1)] == [len(each) for each in expected.alone]
        assert found.problems == ([], []), seed
        if expected.divergence is not None:
            assert found.equal_to == expected.divergence[0]
            seen["diverged"] += 1
        elif any(expected.alone):
            seen["alone"] += 1
        else:
            seen["equal"] += 1
        seen["inside"] += any(each.records for each in found.inside)
    assert min(seen[word] for word in ("diverged", "alone", "equal", "inside")) >= 20, seen


def test_equal_replicas_are_equal_to_their_end(tmp_path: Path) -> None:
    replica = history(1)[0]
    found = written(tmp_path, [replica, replica], 1)
    assert (found.is_equal, found.equal_to) == (True, end_of(replica))


@pytest.mark.parametrize("change", ["key", "value", "timestamp", "headers"])
def test_another_record_of_the_same_epoch_is_named_to_the_offset(
    tmp_path: Path, change: str
) -> None:
    rows = [Row(at, 1000 + at, b"k", b"v", ((b"h", b"1"),)) for at in range(100)]
    others = {
        "key": rows[57]._replace(key=b"x"),
        "value": rows[57]._replace(value=None),
        "timestamp": rows[57]._replace(timestamp=5),
        "headers": rows[57]._replace(headers=((b"h", None),)),
    }
    changed = [*rows[:57], others[change], *rows[58:]]
    for name, data in (("a", batch(rows)), ("b", batch(changed))):
        write_partition(tmp_path / name, "t-0", 0, data)
    (first,) = find_partitions([str(tmp_path / "a")])
    (second,) = find_partitions([str(tmp_path / "b")])
    found = compare_replicas(first, second, DEFAULT_OPTIONS)
    assert found.divergence == (57, (0, 0))
    assert [each.records for each in found.after] == [43, 43]


def test_damage_in_a_replica_is_named(tmp_path: Path) -> None:
    data = batch([Row(0)]) + batch([Row(1)]) + batch([Row(2)])
    write_partition(tmp_path / "a", "t-0", 0, data)
    write_partition(tmp_path / "a", "t-0", 3, batch([Row(3)]))
    damaged = bytearray(data)
    size = len(data) // 3
    damaged[size + 8 : size + 12] = b"\xff\xff\xff\xff"
    write_partition(tmp_path / "b", "t-0", 0, bytes(damaged))
    write_partition(tmp_path / "b", "t-0", 3, batch([Row(3)]))
    (first,) = find_partitions([str(tmp_path / "a")])
    (second,) = find_partitions([str(tmp_path / "b")])
    found = compare_replicas(first, second, DEFAULT_OPTIONS)
    assert found.problems[0] == []
    assert f"@ {size}: no batch begins here" in found.problems[1][0]
    assert (found.inside[0].records, found.is_equal) == (2, False)
