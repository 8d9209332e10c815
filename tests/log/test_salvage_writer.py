"""What salvage writes: a clean partition, the bytes it left out, and the account."""

import json
from pathlib import Path

from builders import Row, batch
from ottla.log.files.partition import find_partitions
from ottla.log.salvage.write import write_salvage
from ottla.publish.journal import commit, publish, run_job
from ottla.storage.object_store import DEFAULT_OPTIONS
from whole_log import check_partition, plan_salvage

PARTS = [batch([Row(n, n)]) for n in range(40)]
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
