"""What a manifest says hides no other segment; of two copies the whole one is read."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import CorruptLogError, Rule
from ottla.format.names import TopicPartition
from ottla.log.files.partition import find_partitions
from ottla.log.tiered.manifest import MAX_MANIFEST_BYTES, read_manifest
from tiered.encoder import (
    TOPIC_ID,
    Mode,
    Upload,
    manifest_of,
    stored_chunks,
    upload_of,
    write_upload,
)
from tiered.test_join import UPLOADS
from tiered.test_lineage import LINEAGE, local_log
from tiered.test_tiered_damage import MODES, beside, rewrite
from tiered.whole import found_in, offsets_of, records_of, rules_in

END = str(Rule.REMOTE_SEGMENT_END)
COMPLETE = str(Rule.REMOTE_OBJECT_COMPLETE)
MANIFEST = str(Rule.REMOTE_MANIFEST_READABLE)
LOST = str(Rule.REMOTE_GAP)


def write(root: Path, *uploads: Upload, mode: Mode | None = None) -> list[Path]:
    return [write_upload(root, each, mode or Mode(700, compress=True)) for each in uploads]


def set_end(log: Path, end: int) -> None:
    def edit(told: dict[str, Any]) -> None:
        told["remoteLogSegmentMetadata"]["endOffset"] = end

    rewrite(beside(log, ".rsm-manifest"), edit)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("end", [10**15, 10**5])
def test_an_end_that_is_too_late_hides_nothing(
    tmp_path: Path, mode: Mode, number: int, end: int
) -> None:
    logs = write(tmp_path / "remote", *UPLOADS, mode=mode)
    set_end(logs[number], end)
    local = local_log(tmp_path / "local", 95, 150, TOPIC_ID)
    for paths, count in (([tmp_path / "remote"], 120), ([tmp_path / "remote", local], 150)):
        assert offsets_of(*paths) == list(range(count))
        (row,) = [row for row in found_in(*paths) if row["severity"] != "note"]
        expected = row["rule"], row["file"], row["found"], row["expected"]
        assert expected == (END, str(logs[number]), str(end), str(UPLOADS[number].end))


def test_an_end_that_is_another_segments_hides_nothing(tmp_path: Path) -> None:
    """What compaction makes too: the bytes end before, and the next segment begins there."""
    logs = write(tmp_path, *UPLOADS)
    set_end(logs[0], 94)
    assert offsets_of(tmp_path) == list(range(120))
    assert rules_in(tmp_path) == set()


@pytest.mark.parametrize("end", [92, 100])
def test_an_end_that_is_too_early_makes_no_gap_and_no_record_twice(
    tmp_path: Path, end: int
) -> None:
    overlap = upload_of(7, range(70, 120), {4: 40, 5: 90}, lineage=LINEAGE)
    last = upload_of(8, range(120, 150), {5: 90}, lineage=LINEAGE)
    logs = write(tmp_path, *UPLOADS[:2], overlap, last)
    which, real = (logs[1], 94) if end == 92 else (logs[2], 119)
    set_end(which, end)
    assert offsets_of(tmp_path) == list(range(150))
    (row,) = [row for row in found_in(tmp_path) if row["severity"] == "error"]
    assert (row["rule"], row["expected"]) == (END, str(real))


def test_a_compacted_segment_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    """Compaction takes batches from its end; the end that Kafka writes stays."""
    upload = upload_of(0, range(40), {1: 0})
    upload.end = 49
    write(tmp_path, upload, upload_of(1, range(50, 100), {1: 0}))
    assert offsets_of(tmp_path) == [*range(40), *range(50, 100)]
    assert {row["severity"] for row in found_in(tmp_path)} <= {"note"}


def test_an_empty_segment_has_no_offsets(tmp_path: Path) -> None:
    write(tmp_path, UPLOADS[0], UPLOADS[1])
    empty = Upload(9, b"", 95, 10**15, {5: 95}, LINEAGE, {}, event_ms=99)
    write(tmp_path, empty, UPLOADS[2])
    assert offsets_of(tmp_path) == list(range(120))
    assert END in rules_in(tmp_path)


def test_a_wrong_end_makes_no_dead_branch(tmp_path: Path) -> None:
    """An end behind the next epoch would say that another leader wrote the segment."""
    logs = write(tmp_path, *UPLOADS)
    set_end(logs[0], 91)
    assert offsets_of(tmp_path) == list(range(120))
    assert Rule.REMOTE_LINEAGE not in rules_in(tmp_path)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("cut", [0, 1])
def test_a_cut_copy_gives_way_to_a_whole_one(tmp_path: Path, mode: Mode, cut: int) -> None:
    logs = write(
        tmp_path, *(upload_of(n, range(100), {1: 0}, event_ms=n) for n in range(2)), mode=mode
    )
    logs[cut].write_bytes(logs[cut].read_bytes()[:100])
    assert offsets_of(tmp_path) == list(range(100))
    assert COMPLETE in rules_in(tmp_path)


def test_a_cut_copy_is_read_where_no_whole_one_has_its_offsets(tmp_path: Path) -> None:
    """Of one that lost its last byte, up to where others begin, and behind them."""
    logs = write(
        tmp_path,
        upload_of(0, range(100), {1: 0}, tag=b"cut"),
        upload_of(1, range(40, 60), {1: 0}, tag=b"whole"),
        mode=Mode(700),
    )
    logs[0].write_bytes(logs[0].read_bytes() + b"?")  # it has all, and another size
    table = records_of(tmp_path)
    assert table.column("offset").to_pylist() == list(range(100))
    tags = [value.split()[0] for value in table.column("value").to_pylist()]
    assert tags == [b"cut"] * 40 + [b"whole"] * 20 + [b"cut"] * 40
    logs[0].write_bytes(logs[0].read_bytes()[:-2])
    with pytest.raises(CorruptLogError):
        offsets_of(tmp_path)


@pytest.mark.parametrize("start", [30, 50, 60, 95, 100, 110])
def test_from_its_start_on_the_local_log_is_read(tmp_path: Path, start: int) -> None:
    write(tmp_path / "remote", *UPLOADS)
    local = local_log(tmp_path / "local", start, 150, TOPIC_ID)
    values = records_of(tmp_path / "remote", local).column("value").to_pylist()
    is_local = [not value.startswith(b"remote") for value in values]
    assert is_local == [False] * start + [True] * (150 - start)


def test_a_batch_over_the_local_start_is_told(tmp_path: Path) -> None:
    """No broker has such a log: batches are the same in all replicas."""
    write(tmp_path / "remote", *UPLOADS)
    local = local_log(tmp_path / "local", 97, 150, TOPIC_ID)
    assert offsets_of(tmp_path / "remote", local) == [*range(95), *range(97, 150)]
    (gap,) = [row for row in found_in(tmp_path / "remote", local) if row["rule"] == LOST]
    assert (gap["offset"], gap["lastOffset"]) == (95, 96)


@pytest.mark.parametrize("field", ["topic", "suffix", "partition"])
@pytest.mark.parametrize("prefix", ["", "tiered-"])
def test_one_manifest_does_not_rename_a_partition(tmp_path: Path, field: str, prefix: str) -> None:
    logs = write(tmp_path, *UPLOADS)

    def edit(told: dict[str, Any]) -> None:
        identity = told["remoteLogSegmentMetadata"]["remoteLogSegmentId"]
        home = identity["topicIdPartition"]["topicPartition"]
        name = {"topic": ("topic", "payments"), "suffix": ("topic", "s"), "partition": (field, 7)}
        home.update([name[field]])

    rewrite(beside(logs[0], ".rsm-manifest"), edit)
    folder = logs[0].parent.parent
    folder.rename(folder.with_name(f"{prefix}{folder.name}"))
    (partition,) = find_partitions([tmp_path])
    assert partition.name == TopicPartition("orders", 0)
    assert [segment.base_offset for segment in partition.segments] == [50, 95]
    (found,) = partition.findings
    assert (found.rule, found.expected) == (
        Rule.REMOTE_MANIFEST_READABLE,
        f"orders-0 {TOPIC_ID}",
    )


@pytest.mark.parametrize("compress", [False, True])
def test_chunks_that_are_too_many_are_not_counted(compress: bool) -> None:
    upload, mode = upload_of(0, range(10), {5: 0}), Mode(1000, compress=compress)
    told, _ = manifest_of(upload, mode, "orders", 0, stored_chunks(upload.log, mode))
    told["chunkIndex"].update(originalChunkSize=1, originalFileSize=2**31 - 1)
    told["chunkIndex"].update(transformedChunkSize=1, finalTransformedChunkSize=1)
    with pytest.raises(CorruptLogError, match=f"found {2**31 - 1} chunks, expected at most"):
        read_manifest(json.dumps(told).encode(), "manifest")


def test_a_manifest_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    logs = write(tmp_path, *UPLOADS)
    data = b"[" + b"[]," * (MAX_MANIFEST_BYTES // 3) + b"[]]"
    beside(logs[1], ".rsm-manifest").write_bytes(data)
    tracemalloc.start()
    rows = found_in(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    (row,) = [row for row in rows if row["rule"] == MANIFEST]
    assert row["file"] == str(beside(logs[1], ".rsm-manifest"))


def test_a_segment_is_cut_with_its_indexes(tmp_path: Path) -> None:
    """The remote one that reaches over the local start leads on nowhere behind it."""
    epochs = dict(LINEAGE)
    write(tmp_path / "remote", upload_of(0, range(100), epochs), mode=Mode(700))
    local = local_log(tmp_path / "local", 50, 150, TOPIC_ID)
    (partition,) = find_partitions([tmp_path / "remote", local])
    first, second = partition.segments
    assert first.log.size == len(upload_of(0, range(50), dict(LINEAGE[:2])).log)
    assert (first.base_offset, second.base_offset) == (0, 50)
    names = [str(name.kind) for name, _ in partition.named if name.offset == 100]
    assert names == []  # the snapshot of what is behind its end is not of this end
    assert {row["severity"] for row in found_in(tmp_path / "remote", local)} <= {"note"}
