"""What salvage writes: a clean partition, the bytes it left out, and the account."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import Row, batch, message
from ottla.log.files.partition import Partition, find_partitions
from ottla.log.salvage.search import find_intact
from ottla.log.salvage.write import _read_spans, write_salvage
from ottla.publish.journal import commit, publish, run_job
from ottla.storage.files import open_file
from ottla.storage.object_store import DEFAULT_OPTIONS
from whole_log import check_partition, plan_salvage

PARTS = [batch([Row(n, n)]) for n in range(40)]
FIRST = len(PARTS[0])
METADATA = b"version: 0\ntopic_id: MkU3OEVBNTcwNTJENDM2Qg"


def test_kept_batches_and_quarantined_bytes_are_the_input(tmp_path: Path) -> None:
    source = tmp_path / "in" / "t-0"
    source.mkdir(parents=True)
    first = b"".join([*PARTS[:10], b"garbage", *PARTS[10:15], PARTS[3], *PARTS[15:20]])
    second = b"".join([*PARTS[20:25], PARTS[25][:-3], *PARTS[26:40], b"tail"])
    (source / f"{0:020d}.log").write_bytes(first)
    (source / f"{20:020d}.log").write_bytes(second)
    (source / "partition.metadata").write_bytes(METADATA)
    (partition,) = find_partitions([tmp_path / "in"])
    out = tmp_path / "out"
    with run_job(str(out), "j") as job:
        finished = write_salvage(partition, plan_salvage(partition), job, DEFAULT_OPTIONS, None)
        commit(job, finished.files, [finished.account])
        publish(job)

    written = {path.name: path.read_bytes() for path in (out / "t-0").iterdir()}
    assert written[f"{0:020d}.log"] == b"".join(PARTS[:20])
    assert written[f"{20:020d}.log"] == b"".join(PARTS[20:25] + PARTS[26:40])
    assert written["partition.metadata"] == METADATA
    assert [child.name for child in out.iterdir()] == ["t-0"]
    (clean,) = find_partitions([out])
    assert [violation.rule for violation in check_partition(clean)] == ["offset-gap"]

    quarantine = tmp_path / "out.ottla" / "j" / "quarantine" / "t-0"
    assert (quarantine / f"{0:020d}.log").read_bytes() == b"garbage" + PARTS[3]
    assert (quarantine / f"{20:020d}.log").read_bytes() == PARTS[25][:-3] + b"tail"
    lines = (quarantine / f"{20:020d}.log.jsonl").read_text().splitlines()
    lost = json.loads(lines[0])
    assert (lost["rule"], lost["position"]) == ("bytes-are-batches", sum(map(len, PARTS[20:25])))
    assert (lost["offset"], lost["lastOffset"]) == (25, 25)

    left_out = len(b"garbage" + PARTS[3] + PARTS[25][:-3] + b"tail")
    account = finished.account
    assert account["readBytes"] == len(first) + len(second)
    assert account["writtenBytes"] + account["quarantinedBytes"] == account["readBytes"]
    assert (account["quarantinedBytes"], account["violations"]) == (left_out, 4)
    assert (account["firstOffset"], account["lastOffset"], account["lostOffsets"]) == (0, 39, 1)


def test_a_partition_of_which_nothing_can_be_saved_is_empty(tmp_path: Path) -> None:
    source = tmp_path / "in" / "t-0"
    source.mkdir(parents=True)
    (source / f"{0:020d}.log").write_bytes(b"nothing here" * 100)
    (partition,) = find_partitions([tmp_path / "in"])
    with run_job(str(tmp_path / "out"), "j") as job:
        finished = write_salvage(partition, plan_salvage(partition), job, DEFAULT_OPTIONS, None)
    names = [f"{0:020d}{kind}" for kind in (".log", ".index", ".timeindex")]
    assert [file.target for file in finished.files] == [
        f"t-0/{name}" for name in (*names, "leader-epoch-checkpoint")
    ]
    assert finished.account["quarantinedBytes"] == 1200


def plan_one(folder: Path, data: bytes) -> tuple[Partition, Path]:
    log = folder / "in" / "t-0" / f"{0:020d}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(data)
    (partition,) = find_partitions([folder / "in"])
    return partition, log


def flip(log: Path, position: int) -> None:
    with log.open("r+b") as stream:
        stream.seek(position)
        (byte,) = stream.read(1)
        stream.seek(position)
        stream.write(bytes([byte ^ 1]))


def replace_log(log: Path) -> None:
    other = log.with_suffix(".swap")
    other.write_bytes(log.read_bytes() * 2)
    other.replace(log)


MESSAGES = [message(Row(n, n), magic=1) for n in range(40)]
BATCHES = [pytest.param(PARTS, id="v2"), pytest.param(MESSAGES, id="v1")]
CHANGES = [
    pytest.param(lambda log: flip(log, 8 * FIRST - 1), "batch at position", id="records"),
    pytest.param(lambda log: flip(log, 7 * FIRST), "batch at position", id="offset"),
    pytest.param(lambda log: flip(log, 7 * FIRST + 11), "batch at position", id="length"),
    pytest.param(lambda log: flip(log, 7 * FIRST + 16), "batch at position", id="magic"),
    pytest.param(lambda log: os.truncate(log, 7 * FIRST), "shrank to", id="shorter"),
    pytest.param(replace_log, "was replaced by another file", id="replaced"),
    pytest.param(Path.unlink, "vanished between listing and reading", id="deleted"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_an_input_that_changed_between_the_readings_is_an_error(
    tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    partition, log = plan_one(tmp_path, b"".join(PARTS[:20]) + b"tail")
    plans = plan_salvage(partition)
    change(log)
    with (
        run_job(str(tmp_path / "out"), "j") as job,
        pytest.raises(OSError, match=f"{log.name} .*{message}"),
    ):
        write_salvage(partition, plans, job, DEFAULT_OPTIONS, None)


@pytest.mark.parametrize("parts", BATCHES)
def test_a_log_that_grew_between_the_readings_is_kept_as_it_was(
    tmp_path: Path, parts: list[bytes]
) -> None:
    partition, log = plan_one(tmp_path, b"".join(parts[:20]))
    plans = plan_salvage(partition)
    with log.open("ab") as stream:
        stream.write(b"".join(parts[20:]))
    with run_job(str(tmp_path / "out"), "j") as job:
        finished = write_salvage(partition, plans, job, DEFAULT_OPTIONS, None)
    assert finished.account["writtenBytes"] == len(b"".join(parts[:20]))
    assert finished.account["violations"] == 0


def test_a_file_that_is_cut_while_it_is_searched_is_an_error(tmp_path: Path) -> None:
    partition, log = plan_one(tmp_path, b"".join(PARTS))
    with open_file(partition.segments[0].log) as file:
        os.truncate(log, 10 * FIRST)
        with pytest.raises(OSError, match=f"{log.name} shrank to {10 * FIRST} bytes"):
            list(find_intact(file, 0, 1 << 20))


def test_quarantined_bytes_that_are_gone_are_an_error(tmp_path: Path) -> None:
    partition, log = plan_one(tmp_path, b"".join(PARTS[:20]) + bytes(100))
    (plan,) = plan_salvage(partition)
    with open_file(partition.segments[0].log) as file:
        os.truncate(log, 20 * FIRST + 10)
        with pytest.raises(OSError, match=f"{log.name} shrank to {20 * FIRST + 10} bytes"):
            list(_read_spans(file, plan.quarantined))
