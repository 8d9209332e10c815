"""A remote log and a local one of the same topic id are one log; states of the metadata count."""

import json
from pathlib import Path

import pytest

from builders import Row, batch
from cli.here import run
from ottla.errors import OptionError, Rule
from ottla.internal.encode import encode_framed
from ottla.log.files.partition import Partition, find_partitions
from tiered.encoder import TOPIC_ID, Mode, Upload, segment_id, upload_of, write_plain, write_upload
from tiered.test_lineage import LINEAGE, local_log
from tiered.whole import found_in, offsets_of, records_of, rules_in

UPLOADS = [
    upload_of(0, range(50), {1: 0, 4: 40}, lineage=LINEAGE[:2], tag=b"remote"),
    upload_of(1, range(50, 95), {4: 40, 5: 90}, lineage=LINEAGE, tag=b"remote"),
    upload_of(2, range(95, 120), {5: 90}, lineage=LINEAGE, tag=b"remote"),
]
STARTED, FINISHED, DELETING = range(3)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    for upload in UPLOADS:
        write_upload(tmp_path / "remote", upload, Mode(700, compress=True))
    return tmp_path / "remote"


@pytest.mark.parametrize("start", [30, 50, 95, 100, 110])
def test_remote_up_to_the_local_start_and_local_from_there(
    tmp_path: Path, remote: Path, start: int
) -> None:
    """Wherever the local log begins: at the border of a remote segment or inside of one."""
    local = local_log(tmp_path / "local", start, 150, TOPIC_ID)
    table = records_of(remote, local)
    assert table.column("offset").to_pylist() == list(range(150))
    values = table.column("value").to_pylist()
    assert values[0].startswith(b"remote")
    assert values[-1].startswith(b" value")
    assert len(find_partitions([remote, local])) == 1
    found = {row["rule"] for row in found_in(remote, local) if row["severity"] == "error"}
    assert found == set()


def test_a_gap_before_the_local_start_is_told(tmp_path: Path, remote: Path) -> None:
    local = local_log(tmp_path / "local", 130, 150, TOPIC_ID)
    (gap,) = [row for row in found_in(remote, local) if row["rule"] == str(Rule.REMOTE_GAP)]
    assert (gap["offset"], gap["lastOffset"]) == (120, 129)
    assert offsets_of(remote, local) == [*range(120), *range(130, 150)]


@pytest.mark.parametrize("topic_id", [None, "AAAAAAAAAAAAAAAAAAAAAQ"])
def test_a_local_log_of_another_topic_is_not_joined(
    tmp_path: Path, remote: Path, topic_id: str | None
) -> None:
    local = local_log(tmp_path / "local", 95, 150, topic_id)
    assert len(find_partitions([remote, local])) == 2
    with pytest.raises(OptionError, match="orders-0 is in"):
        offsets_of(remote, local)


def test_a_dead_branch_is_judged_by_the_local_epochs(tmp_path: Path) -> None:
    """The bucket alone would take the later epoch for the log's; the broker knows better."""
    write_plain(tmp_path / "remote", upload_of(0, range(40), {1: 0}))
    dead = upload_of(1, range(40, 95), {9: 40}, lineage=[(1, 0), (9, 40)])
    write_plain(tmp_path / "remote", dead)
    write_plain(tmp_path / "remote", upload_of(2, range(40, 95), {4: 40, 5: 90}, lineage=LINEAGE))
    local = local_log(tmp_path / "local", 95, 150, TOPIC_ID)
    assert offsets_of(tmp_path / "remote", local) == list(range(150))
    told = [row for row in found_in(tmp_path / "remote", local) if row["severity"] != "note"]
    assert [row["rule"] for row in told] == [str(Rule.REMOTE_LINEAGE)]


def metadata(root: Path, states: list[tuple[int, int]]) -> Path:
    """The topic of a broker that says so of segments, by number, one after another."""
    folder = root / "__remote_log_metadata-0"
    folder.mkdir(parents=True)
    rows = []
    for at, (number, state) in enumerate(states):
        home = {"name": "orders", "id": TOPIC_ID, "partition": 0}
        identity = {"topicIdPartition": home, "id": segment_id(number)}
        told = {"remoteLogSegmentId": identity, "remoteLogSegmentState": state}
        kind = 0 if state == STARTED else 1
        value = encode_framed("__remote_log_metadata", kind, 0, told)
        rows.append(batch([Row(at, 0, None, value)]))
    (folder / f"{0:020d}.log").write_bytes(b"".join(rows))
    return root


def finished(*numbers: int) -> list[tuple[int, int]]:
    return [(number, state) for number in numbers for state in (STARTED, FINISHED)]


def write_all(root: Path, *uploads: Upload) -> Path:
    for upload in uploads:
        write_upload(root, upload, Mode(700))
    return root


def test_what_the_metadata_calls_not_finished_is_not_read(tmp_path: Path, remote: Path) -> None:
    orphan = upload_of(7, range(50, 95), {4: 40, 5: 90}, lineage=LINEAGE, event_ms=99, tag=b"no")
    write_all(remote, orphan)
    told = metadata(tmp_path / "broker", [*finished(0, 1, 2), (7, STARTED)])
    assert any(b"no" in value for value in records_of(remote).column("value").to_pylist())
    rows = [row for row in records_of(remote, told).to_pylist() if row["value"] is not None]
    orders = [row["offset"] for row in rows if row["value"].startswith(b"remote")]
    assert orders == list(range(120))
    (row,) = [row for row in found_in(remote, told) if row["severity"] == "warning"]
    assert row["rule"] == str(Rule.REMOTE_OBJECT_FINISHED)
    assert segment_id(7) in str(row["file"])


def orders_of(*paths: Path) -> Partition:
    (found,) = [each for each in find_partitions(paths) if each.name.topic == "orders"]
    return found


def test_what_an_older_copy_of_the_metadata_does_not_know_is_read(
    tmp_path: Path, remote: Path
) -> None:
    """That a copy begins is written first: whoever does not know of it lacks records."""
    told = metadata(tmp_path / "broker", finished(0, 1))
    orders = orders_of(remote, told)
    assert [segment.base_offset for segment in orders.segments] == [0, 50, 95]
    (note,) = orders.findings
    assert (note.rule, note.offset, note.last_offset) == (Rule.REMOTE_STATE_KNOWN, 95, 119)
    words = ["--topic", "orders", "--engine", "local", "--json"]
    done = run("restore", remote, told, tmp_path / "out", *words)
    (row,) = map(json.loads, done.out.splitlines())
    assert (done.status, row["writtenRecords"]) == (0, 120)


@pytest.mark.parametrize("others", [0, 1])
def test_by_broken_metadata_nothing_is_judged(tmp_path: Path, remote: Path, others: int) -> None:
    """Unless another copy of it is whole."""
    told = metadata(tmp_path / "broker", [*finished(0, 1, 2), (1, DELETING)])
    (log,) = told.rglob("*.log")
    data = bytearray(log.read_bytes())
    data[100] ^= 1  # of the batch that says that the copy of segment 0 began
    log.write_bytes(data)
    paths = [remote, told]
    if others:
        paths.append(metadata(tmp_path / "other", [*finished(0, 1, 2), (1, DELETING)]))
    orders = orders_of(*paths)
    found = {each.rule for each in orders.findings}
    bases = [segment.base_offset for segment in orders.segments]
    if others:
        assert bases == [0, 95]
        assert found == {Rule.REMOTE_OBJECT_FINISHED, Rule.REMOTE_GAP}
    else:
        assert bases == [0, 50, 95]
        assert found == {Rule.REMOTE_STATE_KNOWN}


def test_what_is_being_deleted_is_not_read(tmp_path: Path, remote: Path) -> None:
    told = metadata(tmp_path / "broker", [*finished(0, 1, 2), (0, DELETING)])
    assert offsets_of(remote, told)[0] == 50
    assert str(Rule.REMOTE_OBJECT_FINISHED) in rules_in(remote, told)


def test_a_segment_that_only_the_metadata_has_is_told(tmp_path: Path, remote: Path) -> None:
    told = metadata(tmp_path / "broker", finished(0, 1, 2, 3))
    (row,) = [row for row in found_in(remote, told) if row["severity"] == "error"]
    assert (row["rule"], row["found"]) == (str(Rule.REMOTE_OBJECT_COMPLETE), segment_id(3))


def test_metadata_of_other_partitions_says_nothing(tmp_path: Path, remote: Path) -> None:
    folder = tmp_path / "broker" / "__remote_log_metadata-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(batch([Row(0, 0, None, b"no frame")]))
    assert offsets_of(remote, tmp_path / "broker") == list(range(120))
