"""What lies in remote storage only is shown as that: not as missing, not as empty."""

import json
from pathlib import Path

import pytest

from builders import Row, batch
from cli.here import run
from ottla.internal.encode import encode_framed
from ottla.internal.snapshot import SnapshotRecord, snapshot_name, write_snapshot
from tiered.encoder import TOPIC_ID, segment_id
from tiered.test_lineage import local_log

STARTED, FINISHED, DELETING = range(3)
SPANS = [(0, 39), (40, 94), (95, 119), (120, 140)]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A broker whose log begins at 100 and starts at 0, with the metadata of its cluster."""
    root = local_log(tmp_path / "disk", 100, 150, TOPIC_ID)
    places = {"replicas": [1], "isr": [1], "leader": 1, "leaderEpoch": 5, "partitionEpoch": 0}
    config = {"resourceType": 2, "resourceName": "orders", "value": "true"}
    records = [
        SnapshotRecord("TOPIC_RECORD", 0, {"name": "orders", "topicId": TOPIC_ID}),
        *(
            SnapshotRecord("PARTITION_RECORD", 0, {"partitionId": at, "topicId": TOPIC_ID} | places)
            for at in (0, 1)
        ),
        SnapshotRecord("CONFIG_RECORD", 0, config | {"name": "remote.storage.enable"}),
    ]
    folder = root / "__cluster_metadata-0"
    folder.mkdir()
    (folder / snapshot_name(99, 1)).write_bytes(write_snapshot(records, 1, 1000))
    return root


def add_metadata(root: Path, states: list[tuple[int, int]]) -> None:
    """Segments by number, and what became of each, as the topic of remote storage has it."""
    rows = []
    for at, (number, state) in enumerate(states):
        home = {"name": "orders", "id": TOPIC_ID, "partition": 0}
        told = {
            "remoteLogSegmentId": {"topicIdPartition": home, "id": segment_id(number)},
            "remoteLogSegmentState": state,
        }
        if state == STARTED:
            told |= {"startOffset": SPANS[number][0], "endOffset": SPANS[number][1]}
        value = encode_framed("__remote_log_metadata", int(state != STARTED), 0, told)
        rows.append(batch([Row(at, 0, None, value)]))
    folder = root / "__remote_log_metadata-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(b"".join(rows))


def ranges(disk: Path) -> list[list[int] | None]:
    (row,) = map(json.loads, run("topics", disk, "--topic", "orders", "--json").out.splitlines())
    return [partition["remoteRange"] for partition in row["partitions"]]


def test_topics_shows_what_is_before_the_first_segment(disk: Path) -> None:
    assert ranges(disk) == [[0, 99], None]
    lines = run("topics", disk, "--topic", "orders").out.splitlines()
    assert [line.split()[-1] for line in lines[:3]] == ["REMOTE", "0..99", "enabled"]


def test_topics_shows_what_the_metadata_calls_finished(disk: Path) -> None:
    whole = [(number, state) for number in range(3) for state in (STARTED, FINISHED)]
    add_metadata(disk, [*whole, (0, DELETING), (3, STARTED)])
    assert ranges(disk) == [[40, 119], None]


def test_ls_shows_copies_of_what_is_still_here(disk: Path) -> None:
    """Only the metadata of remote storage knows of them; what was deleted there counts no more."""
    add_metadata(disk, [(at, state) for at in range(3) for state in (STARTED, FINISHED)])
    (row,) = map(json.loads, run("ls", disk, "--topic", "orders", "--json").out.splitlines())
    assert (row["remoteOffsets"], row["remoteRange"]) == (100, [0, 119])
    assert "0..119" in run("ls", disk, "--topic", "orders").out


def test_a_report_shows_what_it_did_not_read(disk: Path, tmp_path: Path) -> None:
    words = ["--topic", "orders", "--json", "--engine", "local", "-o", tmp_path / "page.html"]
    lines = map(json.loads, run("report", disk, *words).out.splitlines())
    (row,) = [line for line in lines if line["type"] == "partition"]
    assert (row["firstOffset"], row["remoteOffsets"], row["remoteRange"]) == (100, 100, [0, 99])


def test_the_recovery_of_a_broker_keeps_the_start(disk: Path) -> None:
    said = run("verify", disk, "--recovery", "--topic", "orders", "--json", "--engine", "local")
    (log,) = [row for row in map(json.loads, said.out.splitlines()) if row["type"] == "log"]
    assert (log["logStartOffset"], log["logEndOffset"]) == (0, 150)


@pytest.mark.parametrize("job", [["restore"], ["convert", "--codec", "zstd"], ["compact"]])
def test_an_account_says_what_stays_in_remote_storage(
    disk: Path, tmp_path: Path, job: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    name, *flags = job
    words = [name, disk, tmp_path / "out", "--topic", "orders", *flags, "--engine", "local"]
    assert run(*words).status == 0
    assert "orders-0: offsets 0 to 99 are in remote storage only" in caplog.text
    starts = (tmp_path / "out" / "log-start-offset-checkpoint").read_text()
    assert "orders 0 0" in starts
