"""What remote storage has lost is told by whoever writes logs, and takes nothing else with it."""

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from cli.here import run
from ottla.errors import CorruptLogError, Rule
from ottla.format.names import TopicPartition
from ottla.jobs.verify.findings import Remedy, advice_on
from ottla.log.files.partition import find_partitions
from ottla.log.tiered.manifest import read_manifest
from ottla.log.tiered.names import Home
from ottla.log.tiered.segments import RemoteLog, RemoteSegment
from ottla.log.tiered.settle import choose_segments
from ottla.storage.kept import chunks
from ottla.storage.kept.chunks import MAX_CHUNK_BYTES, Chunked, ChunkSizes
from ottla.storage.kept.envelope import KEYS_VARIABLE
from ottla.storage.listing import Entry
from ottla.storage.object_store import DEFAULT_OPTIONS
from tiered.encoder import (
    KEYS,
    TOPIC_ID,
    Mode,
    manifest_of,
    stored_chunks,
    upload_of,
    write_plain,
    write_upload,
)
from tiered.test_join import FINISHED, STARTED, UPLOADS, metadata
from tiered.test_tiered_damage import beside, rewrite, three
from tiered.whole import found_in, offsets_of, rules_in

EPOCHS = [(1, 0), (2, 100), (3, 200)]
JOBS = [
    ["restore"],
    ["convert", "--codec", "zstd"],
    ["compact"],
    ["salvage"],
    ["export"],
    ["clone"],
]


def three_epochs(root: Path) -> list[Path]:
    """The logs of three segments, each of a leader of its own."""
    return [
        write_upload(
            root,
            upload_of(number, range(at, at + 100), {epoch: at}, lineage=EPOCHS[: number + 1]),
            Mode(1000),
        )
        for number, (epoch, at) in enumerate(EPOCHS)
    ]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: str(job[0]))
def test_jobs_that_write_tell_a_gap(
    tmp_path: Path, job: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    logs = three(tmp_path / "remote")
    beside(logs[1], ".rsm-manifest").unlink()
    name, *flags = job
    words = [name, tmp_path / "remote", tmp_path / "out", *flags, "--engine", "local"]
    done = run(*words)
    assert done.status == 1
    assert "orders-0: offsets 100..199: remote-gap" in caplog.records[0].getMessage()
    assert "remote-object-finished" in caplog.text
    assert "PROBLEMS" in done.out


def test_jobs_on_whole_logs_tell_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    three(tmp_path / "remote")
    done = run("restore", tmp_path / "remote", tmp_path / "out", "--engine", "local")
    assert (done.status, caplog.records) == (0, [])


@pytest.mark.parametrize(("start", "lost"), [(None, 100), ("150", 50), ("200", 0)])
def test_a_restore_counts_what_is_lost(tmp_path: Path, start: str | None, lost: int) -> None:
    logs = three(tmp_path / "remote")
    beside(logs[1], ".rsm-manifest").unlink()
    words = ["restore", tmp_path / "remote", tmp_path / "out", "--json", "--engine", "local"]
    done = run(*words, *(["--from", start] if start else []))
    (row,) = map(json.loads, done.out.splitlines())
    assert (row["lostOffsets"], row["violations"]) == (lost, 1)


def test_many_losses_are_told_in_few_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(20):
        at = number * 10
        upload = upload_of(number, range(at, at + 10), {5: 0})
        path = write_upload(tmp_path / "remote", upload, Mode())
        if number % 2:
            path.unlink()
    done = run("restore", tmp_path / "remote", tmp_path / "out", "--engine", "local")
    assert done.status == 1
    assert len(caplog.records) == 6
    assert "offsets 10..19: remote-gap" in caplog.records[0].getMessage()
    assert "14 more such findings, which verify lists" in caplog.records[5].getMessage()


def test_no_rule_of_remote_objects_advises_to_restore_them() -> None:
    rules = [rule for rule in Rule if str(rule).startswith("remote-")]
    assert len(rules) > 5
    assert Remedy.RESTORE not in {advice_on(rule, rule.stage).remedy for rule in rules}


@pytest.mark.parametrize("gone", [[2], [1, 2], [0, 1, 2]], ids=str)
def test_lost_indexes_make_no_dead_branches(tmp_path: Path, gone: list[int]) -> None:
    logs = three_epochs(tmp_path)
    for number in gone:
        beside(logs[number], ".indexes").unlink()
    assert rules_in(tmp_path) == {str(Rule.REMOTE_OBJECT_COMPLETE)}
    assert offsets_of(tmp_path) == list(range(300))
    (partition,) = find_partitions([tmp_path])
    kept = partition.others["leader-epoch-checkpoint"].kept
    assert kept is not None
    with kept.open(partition.others["leader-epoch-checkpoint"], DEFAULT_OPTIONS) as file:
        assert file.read() == b"0\n3\n1 0\n2 100\n3 200\n"


def test_an_epoch_begins_where_its_first_segment_does(tmp_path: Path) -> None:
    """Of the last segment alone the epoch would begin with it."""
    for number, at in enumerate((0, 100, 200)):
        epochs = {1: 0} if number == 0 else {2: 100}
        path = write_upload(tmp_path, upload_of(number, range(at, at + 100), epochs), Mode())
        beside(path, ".indexes").unlink()
    assert offsets_of(tmp_path) == list(range(300))


def test_a_dead_branch_stays_one_without_its_indexes(tmp_path: Path) -> None:
    write_upload(tmp_path, upload_of(0, range(60), {1: 0}), Mode())
    dead = upload_of(1, range(60, 90), {2: 60}, lineage=[(1, 0), (2, 60)])
    write_upload(tmp_path, dead, Mode())
    after = write_upload(tmp_path, upload_of(2, range(60, 120), {3: 60}), Mode())
    beside(after, ".indexes").unlink()
    assert str(Rule.REMOTE_LINEAGE) in rules_in(tmp_path)
    assert offsets_of(tmp_path) == list(range(120))


def test_a_segment_without_epochs_is_judged_by_its_offsets(tmp_path: Path) -> None:
    for number in range(3):
        at = number * 50
        path = write_plain(tmp_path, upload_of(number, range(at, at + 50), {5: 0}))
        if number == 1:
            path.with_suffix(".leader_epoch_checkpoint").unlink()
    assert offsets_of(tmp_path) == list(range(150))
    assert str(Rule.REMOTE_LINEAGE) not in rules_in(tmp_path)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_copy_of_the_metadata_that_is_behind_changes_nothing(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    for upload in UPLOADS:
        write_upload(tmp_path / "remote", upload, Mode(700))
    whole = [(number, state) for number in range(3) for state in (STARTED, FINISHED)]
    metadata(tmp_path / names[0], whole)
    metadata(tmp_path / names[1], whole[:-1])
    paths = (tmp_path / "remote", tmp_path / "a", tmp_path / "b")
    (orders,) = [each for each in find_partitions(paths) if each.name.topic == "orders"]
    assert [segment.base_offset for segment in orders.segments] == [0, 50, 95]
    assert orders.findings == ()


def chunk_table(count: int) -> str:
    body = struct.pack(">iiB", count, 0, 1) + bytes(count - 1) + struct.pack(">i", 0)
    return base64.b64encode(zstandard.ZstdCompressor().compress(body)).decode()


@pytest.mark.parametrize(("claimed", "held"), [(10_000_000, 10_000_000), (10, 10_000_000)])
def test_a_table_of_millions_of_chunks_is_not_kept(claimed: int, held: int) -> None:
    upload, mode = upload_of(0, range(10), {5: 0}), Mode(1000, compress=True)
    told, _ = manifest_of(upload, mode, "orders", 0, stored_chunks(upload.log, mode))
    told["chunkIndex"].update(originalFileSize=claimed * 200, originalChunkSize=200)
    told["chunkIndex"]["transformedChunks"] = chunk_table(held)
    with pytest.raises(CorruptLogError, match=f"found {held} chunks, expected"):
        read_manifest(json.dumps(told).encode(), "manifest")


def test_a_look_at_the_end_of_a_chunk_does_not_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk that is too large to be held is too large to be looked into."""
    size = MAX_CHUNK_BYTES + 1
    packed = b"".join(_packed(size))
    path = tmp_path / "bomb.log"
    path.write_bytes(packed)
    stored = Entry(str(path), len(packed), 0)
    kept = Chunked(stored, 0, size, size, ChunkSizes(1, len(packed), len(packed)), compressed=True)
    entry = Entry(str(path), size, 0, kept=kept)

    def expand(*_: Any, **__: Any) -> None:
        raise AssertionError("it is expanded")

    with kept.open(entry, DEFAULT_OPTIONS) as file:
        target = np.zeros(61, dtype=np.uint8)
        assert file.peek_into(target, 100, 61) == 61
        monkeypatch.setattr(chunks.zstandard, "ZstdDecompressor", expand)
        file.peek_into(target, size - 100, 61)
        assert [each.rule for each in file.damages] == [Rule.REMOTE_CHUNK_OPENS]


def _packed(size: int) -> list[bytes]:
    packer = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    part = bytes(1 << 20)
    parts = [packer.compress(part) for _ in range(size >> 20)]
    return [*parts, packer.compress(b"\0"), packer.flush()]


@pytest.mark.parametrize("name", ["leaderEpoch", "timestamp", "transaction"])
def test_a_side_file_of_a_size_that_is_merely_claimed_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The second segment is cut, and the third has the checkpoint that counts."""
    held: list[int] = []
    allocate = np.empty

    logs = [
        write_upload(tmp_path, upload_of(number, offsets, {5: 0}, lineage=[(5, 0)]), Mode(1000))
        for number, offsets in enumerate((range(100), range(50, 200), range(200, 300)))
    ]

    def claim(told: dict[str, Any]) -> None:
        told["segmentIndexes"][name] = {"position": 0, "size": 400 << 20}

    for log in logs[1:]:
        rewrite(beside(log, ".rsm-manifest"), claim)

    def count(shape: Any, *words: Any, **more: Any) -> Any:
        held.append(int(np.prod(shape)))
        return allocate(shape, *words, **more)

    monkeypatch.setattr(np, "empty", count)
    assert offsets_of(tmp_path) == list(range(300))
    found = found_in(tmp_path)
    assert max(held, default=0) < 64 << 20
    if name != "leaderEpoch":
        assert str(Rule.SIDE_FILE_SIZE) in {row["rule"] for row in found}


def test_what_remote_storage_has_past_the_local_end_is_told(tmp_path: Path) -> None:
    """A log directory that is behind hides the end of the bucket: no overlap, but a loss."""
    for number in range(4):
        at = number * 50
        write_upload(tmp_path / "remote", upload_of(number, range(at, at + 50), {1: 0}), Mode())
    folder = tmp_path / "local" / "orders-0"
    folder.mkdir(parents=True)
    upload = upload_of(0, range(50, 100), {1: 0})
    (folder / f"{50:020d}.log").write_bytes(upload.log)
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    paths = tmp_path / "remote", tmp_path / "local"
    found = {(row["rule"], row["offset"], row["lastOffset"]) for row in found_in(*paths)}
    assert found == {
        (str(Rule.REMOTE_OVERLAP), 50, 99),
        (str(Rule.REMOTE_GAP), 100, 199),
    }
    done = run("restore", *paths, tmp_path / "out", "--json", "--engine", "local")
    (row,) = map(json.loads, done.out.splitlines())
    assert (done.status, row["lostOffsets"]) == (1, 100)


def test_a_segment_that_vanishes_while_it_is_listed_is_told(tmp_path: Path) -> None:
    first = write_plain(tmp_path, upload_of(0, range(100), {1: 0}))
    entries = [
        Entry(str(first), first.stat().st_size, 0),
        Entry(str(tmp_path / "gone.log"), 1000, 0),
    ]
    segments = tuple(
        RemoteSegment("", at, at + 99, (), 0, entry, {}, None, None)
        for at, entry in zip((0, 50), entries, strict=True)
    )
    home = Home(TopicPartition("orders", 0), TOPIC_ID)
    chosen = choose_segments(RemoteLog("bucket", home, segments, ()), (), None, DEFAULT_OPTIONS)
    assert [segment.base_offset for segment in chosen.segments] == [0]
    (found,) = chosen.findings
    assert found.rule is Rule.REMOTE_OBJECT_COMPLETE
    assert (found.offset, found.last_offset) == (100, 149)


def test_a_key_that_comes_later_opens_what_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is not remembered: a process may live on when it comes."""
    keys = tmp_path / "keys"
    keys.mkdir()
    monkeypatch.setenv(KEYS_VARIABLE, str(keys))
    three(tmp_path / "remote")
    assert str(Rule.REMOTE_CHUNK_OPENS) in rules_in(tmp_path / "remote")
    (keys / "key1.pem").write_bytes((KEYS / "key1.pem").read_bytes())
    assert rules_in(tmp_path / "remote") == set()
    assert offsets_of(tmp_path / "remote") == list(range(300))
