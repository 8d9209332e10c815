"""What is found in directories of every shape that kafka-facts 8.1 names."""

from pathlib import Path

import pytest

from ottla.format.names import DirectoryState, FileState, Kind, TopicPartition
from ottla.format.sentinels import NO_OFFSET
from ottla.log.files.partition import find_partitions, read_log_directories

EMPTY = {
    "kafka/.kafka_cleanshutdown": "",
    "kafka/meta.properties": "",
    "kafka/recovery-point-offset-checkpoint": "",
    "kafka/unrelated.txt": "",
    "kafka/a-b.c-0/00000000000000000010.log": "",
    "kafka/a-b.c-0/00000000000000000010.index": "",
    "kafka/a-b.c-0/00000000000000000002.log": "",
    "kafka/a-b.c-0/00000000000000000010.log.deleted": "",
    "kafka/a-b.c-0/leader-epoch-checkpoint": "",
    "kafka/old-3.77aa-delete/00000000000000000000.log": "",
    "kafka/__cluster_metadata-0/00000000000000000000.log": "",
    "kafka/__cluster_metadata-0/00000000000000000007-0000000002.checkpoint": "",
    "kafka/remote-log-index-cache/x.index": "",
    "kafka/lost+found/x": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in EMPTY:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_a_log_directory_has_partitions_files_and_strangers(folder: Path) -> None:
    (found,) = read_log_directories([folder / "kafka"])
    assert [(partition.name, partition.state) for partition in found.partitions] == [
        (TopicPartition("__cluster_metadata", 0), DirectoryState.LIVE),
        (TopicPartition("a-b.c", 0), DirectoryState.LIVE),
        (TopicPartition("old", 3), DirectoryState.DELETE),
    ]
    assert set(found.files) == {
        ".kafka_cleanshutdown",
        "meta.properties",
        "recovery-point-offset-checkpoint",
    }
    assert found.strangers == (f"{folder}/kafka/lost+found",)


def test_segments_are_in_the_order_of_their_base_and_live(folder: Path) -> None:
    (partition,) = find_partitions([folder / "kafka" / "a-b.c-0"])
    assert [segment.base_offset for segment in partition.segments] == [2, 10]
    assert set(partition.segments[1].side_files) == {Kind.OFFSET_INDEX}
    assert [partition.next_base_offset(index) for index in (0, 1)] == [10, None]
    states = [name.state for name, _ in partition.named if name.offset == 10]
    assert states.count(FileState.DELETED) == 1
    assert set(partition.others) == {"leader-epoch-checkpoint"}


def test_a_partition_by_itself_knows_its_log_directory_s_files(folder: Path) -> None:
    (found,) = read_log_directories([folder / "kafka" / "a-b.c-0"])
    assert found.path == f"{folder}/kafka"
    assert ".kafka_cleanshutdown" in found.files


def test_a_metadata_snapshot_is_no_segment(folder: Path) -> None:
    (partition,) = find_partitions([folder / "kafka" / "__cluster_metadata-0"])
    assert [segment.base_offset for segment in partition.segments] == [0]
    assert [name.epoch for name, _ in partition.named if name.epoch is not None] == [2]


def test_a_segment_by_itself_has_its_indexes_and_its_topic(folder: Path) -> None:
    path = folder / "kafka" / "a-b.c-0" / "00000000000000000010.log"
    (partition,) = find_partitions([path])
    (segment,) = partition.segments
    assert partition.name == TopicPartition("a-b.c", 0)
    assert (segment.base_offset, set(segment.side_files)) == (10, {Kind.OFFSET_INDEX})


def test_a_file_of_any_name_is_a_segment_without_a_base(tmp_path: Path) -> None:
    (tmp_path / "some.log").touch()
    (partition,) = find_partitions([tmp_path / "some.log"])
    assert [segment.base_offset for segment in partition.segments] == [NO_OFFSET]


def test_segments_deep_under_a_prefix_are_found(folder: Path) -> None:
    assert len(find_partitions([folder])) == 3


def test_several_log_directories_are_read_together(folder: Path) -> None:
    other = folder / "disk2" / "t-0"
    other.mkdir(parents=True)
    (other / "00000000000000000000.log").touch()
    found = read_log_directories([folder / "kafka", folder / "disk2"])
    assert [directory.path for directory in found] == [f"{folder}/kafka", f"{folder}/disk2"]
