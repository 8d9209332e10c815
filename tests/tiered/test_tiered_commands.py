"""Commands and jobs on remote storage: what they write can be mounted, what they say is exact."""

import json
from pathlib import Path

import pytest

from choosing import choose
from cli.command import run
from jobs.test_extent import JOBS
from ottla.errors import OptionError
from ottla.log.files.checkpoints import read_leader_epochs
from ottla.log.files.identity import read_topic_id
from tiered.encoder import TOPIC_ID, Mode, checkpoint, upload_of, write_plain, write_upload
from tiered.test_lineage import LINEAGE, local_log
from tiered.whole import found_in, records_of

SEALED = Mode(900, compress=True, key_id="key1")
UPLOADS = [
    upload_of(0, range(50), {1: 0, 4: 40}, lineage=LINEAGE[:2]),
    upload_of(1, range(50, 95), {4: 40, 5: 90}, lineage=LINEAGE),
    upload_of(2, range(80, 120), {4: 40, 5: 90}, lineage=LINEAGE, event_ms=5),
]


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    for upload in UPLOADS:
        write_upload(tmp_path / "remote", upload, SEALED)
    return tmp_path / "remote"


@pytest.mark.parametrize("job", ["restore", "convert", "compact", "salvage"])
def test_what_jobs_write_is_a_whole_log_directory(tmp_path: Path, remote: Path, job: str) -> None:
    out = tmp_path / "out"
    JOBS[job](choose(remote), str(out))
    folder = out / "orders-0"
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["orders-0"]
    assert records_of(out) == records_of(remote)
    assert [row for row in found_in(out) if row["severity"] != "note"] == []
    names = {path.name for path in folder.iterdir()}
    assert f"{120:020d}.snapshot" in names
    told = (folder / "partition.metadata").read_bytes()
    assert read_topic_id(told, "") == TOPIC_ID
    epochs = read_leader_epochs((folder / "leader-epoch-checkpoint").read_bytes(), "")
    assert epochs == [tuple(each) for each in LINEAGE]


def test_a_restore_copies_batches_byte_for_byte(tmp_path: Path, remote: Path) -> None:
    JOBS["restore"](choose(remote), str(tmp_path / "out"))
    logs = sorted((tmp_path / "out" / "orders-0").glob("*.log"))
    written = b"".join(path.read_bytes() for path in logs)
    assert written.startswith(UPLOADS[0].log + UPLOADS[1].log)
    assert written.endswith(UPLOADS[2].log[-500:])


def test_both_halves_are_restored_as_one_log(tmp_path: Path, remote: Path) -> None:
    local = local_log(tmp_path / "local", 100, 150, TOPIC_ID)
    done = run("restore", str(remote), str(local), str(tmp_path / "out"), "--engine", "local")
    assert done.status == 0
    assert records_of(tmp_path / "out") == records_of(remote, local)


def test_ls_shows_what_is_remote(tmp_path: Path, remote: Path) -> None:
    local = local_log(tmp_path / "local", 100, 150, TOPIC_ID)
    (row,) = map(json.loads, run("ls", str(remote), str(local), "--json").out.splitlines())
    assert (row["firstOffset"], row["lastOffset"]) == (0, 149)
    assert (row["segments"], row["remoteSegments"]) == (4, 3)
    assert "0..99 " in run("ls", str(remote), str(local)).out
    (row,) = map(json.loads, run("ls", str(local), "--json").out.splitlines())
    assert (row["remoteOffsets"], row["remoteSegments"]) == (100, 0)


def test_dump_reads_a_remote_segment_as_a_file_and_as_a_directory(remote: Path) -> None:
    whole = run("dump", str(remote), "--topic", "orders", "--json")
    offsets = [json.loads(line).get("offset") for line in whole.out.splitlines()]
    assert [each for each in offsets if each is not None] == list(range(120))
    log = next(remote.rglob(f"{50:020d}-*.log"))
    one = run("dump", str(log), "--json")
    offsets = [json.loads(line).get("offset") for line in one.out.splitlines()]
    assert [each for each in offsets if each is not None] == list(range(50, 95))
    assert one.status == 0


@pytest.mark.parametrize(
    ("base", "said"),
    [(0, "its tag is wrong"), (50, "remote-segment-end")],
    ids=["needed", "another-has-its-end"],
)
def test_verify_scrubs_a_bucket(remote: Path, base: int, said: str) -> None:
    assert run("verify", str(remote), "--engine", "local").status == 0
    log = next(remote.rglob(f"{base:020d}-*.log"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    done = run("verify", str(remote), "--engine", "local")
    assert done.status == 1
    assert said in done.out


def test_two_topics_of_one_name_are_told_apart(tmp_path: Path, remote: Path) -> None:
    write_plain(tmp_path / "remote", UPLOADS[0])
    with pytest.raises(OptionError, match="load only one of them"):
        records_of(remote)


def test_an_iceberg_table_is_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table"
    for name in ("data/part-0.parquet", "metadata/v1.metadata.json", "metadata/snap-1.avro"):
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).write_bytes(b"x")
    assert run("ls", table).status == 2
    assert "an Iceberg table" in capsys.readouterr().err


def test_what_a_broker_wrote_of_epochs_is_read_as_it_is(tmp_path: Path) -> None:
    write_plain(tmp_path, UPLOADS[1])
    path = next(tmp_path.rglob("*.leader_epoch_checkpoint"))
    assert path.read_bytes() == checkpoint(LINEAGE)
    JOBS["restore"](choose(tmp_path), str(tmp_path.with_name("restored")))
    restored = tmp_path.with_name("restored") / "orders-0" / "leader-epoch-checkpoint"
    assert restored.read_bytes() == checkpoint(LINEAGE)


def test_verify_says_what_it_did_not_read(
    tmp_path: Path, remote: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local = local_log(tmp_path / "local", 100, 150, TOPIC_ID)
    run("verify", local, "--engine", "local")
    assert "offsets 0..99 of orders-0 are in remote storage only" in capsys.readouterr().err
    run("verify", remote, local, "--engine", "local")
    assert "remote storage only" not in capsys.readouterr().err
