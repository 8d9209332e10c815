"""What the plugin's own classes wrote is read back byte for byte, and each layout as a log."""

from pathlib import Path

import pyarrow as pa
import pytest

import ottla
from ottla.catalog.slices import plan_tasks
from ottla.format.names import Kind, TopicPartition
from ottla.jobs.read.records import read_slice
from ottla.log.files.identity import read_topic_id
from ottla.log.files.partition import find_partitions
from ottla.options.read import parse_read_options
from ottla.storage.files import read_bytes
from tiered.encoder import GOLDEN, TOPIC_ID, Mode, upload_of, write_plain, write_upload
from tiered.whole import records_of

MODES = ["plain", "zstd", "aes", "zstd-aes"]
ORIGINAL = GOLDEN / "original"
EVERY_MODE = [
    Mode(),
    Mode(chunk_size=100, compress=True),
    Mode(chunk_size=333, key_id="key1"),
    Mode(chunk_size=4096, compress=True, key_id="key1"),
    Mode(chunk_size=1 << 20, compress=True, key_id="key1"),
]


@pytest.mark.parametrize("mode", MODES)
def test_golden_objects_are_read_back_byte_for_byte(mode: str) -> None:
    (partition,) = find_partitions([GOLDEN / mode])
    (segment,) = partition.segments
    assert partition.name == TopicPartition("orders", 0)
    assert read_bytes(segment.log) == (ORIGINAL / f"{1000:020d}.log").read_bytes()
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX):
        if kind in segment.side_files:
            found = read_bytes(segment.side_files[kind])
            assert found == (ORIGINAL / f"{1000:020d}{kind}").read_bytes()
    assert (Kind.TRANSACTION_INDEX in segment.side_files) == ("aes" in mode)
    named = {(name.offset, name.kind): entry for name, entry in partition.named}
    snapshot = read_bytes(named[1200, Kind.PRODUCER_SNAPSHOT])
    assert snapshot == (ORIGINAL / f"{1200:020d}.snapshot").read_bytes()
    epochs = read_bytes(partition.others["leader-epoch-checkpoint"])
    assert epochs == (ORIGINAL / "leader-epoch-checkpoint").read_bytes()
    metadata = partition.others["partition.metadata"]
    assert read_topic_id(read_bytes(metadata), metadata.path) == TOPIC_ID


@pytest.mark.parametrize("mode", MODES)
def test_a_remote_log_that_is_named_by_itself_is_a_segment(mode: str) -> None:
    (path,) = (GOLDEN / mode).rglob("*.log")
    expected = list(ottla.read_segment(ORIGINAL / f"{1000:020d}.log", columns=["offset", "value"]))
    found = list(ottla.read_segment(path, columns=["offset", "value"]))
    assert pa.Table.from_batches(found) == pa.Table.from_batches(expected)
    assert sum(batch.num_rows for batch in ottla.read_batches(path)) == 20


@pytest.mark.parametrize("mode", EVERY_MODE, ids=str)
def test_what_the_encoder_makes_is_read_like_the_log(tmp_path: Path, mode: Mode) -> None:
    log = tmp_path / "log" / "orders-0"
    log.mkdir(parents=True)
    for number in range(3):
        upload = upload_of(number, range(number * 100, number * 100 + 100), {5: 0})
        write_upload(tmp_path / "remote", upload, mode)
        write_plain(tmp_path / "copies", upload)
        (log / f"{upload.start:020d}.log").write_bytes(upload.log)
    expected = records_of(tmp_path / "log")
    assert expected.column("offset").to_pylist() == list(range(300))
    assert records_of(tmp_path / "remote") == expected
    assert records_of(tmp_path / "copies") == expected
    assert records_of(tmp_path / "remote" / f"orders-{TOPIC_ID}" / "0") == expected


def test_slices_of_chunks_give_every_record_once(tmp_path: Path) -> None:
    upload = upload_of(0, range(2000), {5: 0})
    write_upload(tmp_path, upload, Mode(chunk_size=3000, compress=True, key_id="key1"))
    for split in ("1000", "10000", "50000"):
        options = parse_read_options({"path": str(tmp_path), "splitBytes": split})
        tasks = [*plan_tasks(options)]
        assert len(tasks) > 3
        offsets = [
            offset
            for task in tasks
            for part in task
            for reading in read_slice(part, ("offset",), options.access)
            if (batch := reading.to_arrow(("offset",))) is not None
            for offset in batch.column("offset").to_pylist()
        ]
        assert offsets == list(range(2000))


def test_pinterests_uploads_are_a_log_directory(tmp_path: Path) -> None:
    """prefix/hash/cluster/topic-partition/offset.log, with their own file of offsets."""
    upload = upload_of(0, range(50), {5: 0})
    folder = tmp_path / "prefix" / "a1b2" / "cluster" / "orders-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(upload.log)
    (folder / f"{0:020d}.index").write_bytes(upload.indexes["offset"])
    (folder / "offset.wm").write_bytes(b"50")
    assert records_of(tmp_path / "prefix").column("offset").to_pylist() == list(range(50))


def test_the_topic_is_that_of_the_manifest_where_a_prefix_is_glued_to_its_folder(
    tmp_path: Path,
) -> None:
    path = write_upload(tmp_path, upload_of(0, range(9), {5: 0}), Mode(), topic="orders")
    home = path.parent.parent
    home.rename(home.with_name(f"backup{home.name}"))
    (partition,) = find_partitions([tmp_path])
    assert partition.name == TopicPartition("orders", 0)
