"""Verify by parts gives what a check from beginning to end gives, however segments are cut."""

import random
from pathlib import Path

import pytest

from builders import Row, batch
from jobs.topics import write_topic
from ottla.errors import Rule, Violation
from ottla.jobs.verify.plan import VerifyOptions, plan_verify, see_part, validate_partitions
from ottla.log.files.partition import Partition, find_partitions
from whole_log import check_partition

SPLITS = [300, 4096, 1 << 26]


def verify(partitions: list[Partition], options: VerifyOptions) -> list[dict[str, object]]:
    parts = plan_verify(partitions, options)
    random.Random(1).shuffle(parts)
    rows = [row for part in parts for batch in see_part(part, options) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["log"], row["segment"], row["start"], row["window"]))
    return [
        row for batch in validate_partitions(rows, partitions, options) for row in batch.to_pylist()
    ]


def violations(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    found = [row for row in rows if row.pop("account") is None]
    return sorted(found, key=lambda row: (row["file"], row["position"], row["rule"]))


def expected(partitions: list[Partition]) -> list[dict[str, object]]:
    found: list[Violation] = [
        violation for partition in partitions for violation in check_partition(partition)
    ]
    rows = [violation.as_row() for violation in found]
    return sorted(rows, key=lambda row: (row["file"], row["position"], row["rule"]))


def damage(log: Path, chance: random.Random) -> None:
    """A flipped byte, a wrong length, an unknown magic, a hole of zeros, or a lost end."""
    data = bytearray(log.read_bytes())
    at = chance.randrange(len(data))
    kind = chance.randrange(4)
    if kind == 0:
        data[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    elif kind == 2:
        data[at : at + 12] = chance.randbytes(len(data[at : at + 12]))
    else:
        del data[at:]
    log.write_bytes(data)


def test_a_part_that_is_broken_from_end_to_end_is_told_in_pieces(tmp_path: Path) -> None:
    """Its violations alone are more than an Arrow batch shall hold."""
    broken = bytearray(batch([Row(0, 0, b"k", b"v")]))
    broken[-1] ^= 1
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(broken * 60_000)
    (part,) = plan_verify(find_partitions([tmp_path]), VerifyOptions())
    told = list(see_part(part, VerifyOptions()))
    assert len(told) > 1
    assert sum(each.num_rows for each in told) > len(told)


@pytest.mark.parametrize("split", SPLITS)
def test_sound_partitions_give_the_verdict_of_a_whole_check(tmp_path: Path, split: int) -> None:
    write_topic(tmp_path, "orders", partitions=2)
    partitions = find_partitions([tmp_path])
    found = violations(verify(partitions, VerifyOptions(split_bytes=split)))
    assert found == expected(partitions)
    assert not any(row["severity"] == "error" and row["stage"] == "crc" for row in found)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("seed", range(12))
def test_damage_gives_the_verdict_of_a_whole_check(tmp_path: Path, split: int, seed: int) -> None:
    write_topic(tmp_path, "orders", partitions=2)
    chance = random.Random(seed)
    for log in sorted(tmp_path.rglob("*.log")):
        damage(log, chance)
    partitions = find_partitions([tmp_path])
    rows = violations(verify(partitions, VerifyOptions(split_bytes=split)))
    assert rows == expected(partitions)
    assert any(row["severity"] == "error" for row in rows)


def test_a_directory_without_a_log_is_judged_too(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{5:020d}.index").write_bytes(b"")
    (row,) = violations(verify(find_partitions([tmp_path]), VerifyOptions()))
    assert row["rule"] == Rule.SIDE_FILE_HAS_LOG


def test_a_quick_look_finds_a_flipped_byte_and_opens_no_record(tmp_path: Path) -> None:
    write_topic(tmp_path, "orders", partitions=1)
    log = sorted(tmp_path.rglob("*.log"))[3]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    rows = violations(verify(find_partitions([tmp_path]), VerifyOptions(quick=True)))
    assert [row["file"] for row in rows if row["rule"] == Rule.CRC_MATCHES] == [str(log)]
    assert not [row for row in rows if row["stage"] in ("records", "record")]


@pytest.mark.parametrize(
    ("files", "named"),
    [
        pytest.param("*.log", "orders-0/00000000000000000000.log", id="log"),
        pytest.param("*.index", "orders-0", id="index"),
    ],
)
def test_a_file_that_vanishes_is_a_violation_and_other_partitions_are_checked(
    tmp_path: Path, files: str, named: str
) -> None:
    write_topic(tmp_path, "orders", partitions=2)
    partitions = find_partitions([tmp_path])
    sorted((tmp_path / "orders-0").glob(files))[0].unlink()
    rows = verify(partitions, VerifyOptions())
    assert len([row for row in rows if row["account"]]) == 2
    (lost,) = [row for row in violations(rows) if row["rule"] == Rule.SLICE_COMPLETE]
    assert (lost["file"], lost["topic"], lost["partition"]) == (f"{tmp_path}/{named}", "orders", 0)
    assert "vanished" in str(lost["detail"])
