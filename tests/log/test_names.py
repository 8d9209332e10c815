"""Names of kafka-facts 8.1, as LogFileUtils, LocalLog and Snapshots read them."""

import pytest

from ottla.format.names import (
    UNNAMED,
    DirectoryState,
    FileName,
    FileState,
    Kind,
    TopicPartition,
    file_name,
    parse_directory_name,
    parse_file_name,
)

FILES = [
    ("00000000000000000000.log", FileName(0, Kind.LOG)),
    ("00000000000000000170.index", FileName(170, Kind.OFFSET_INDEX)),
    ("00000000000000000170.timeindex", FileName(170, Kind.TIME_INDEX)),
    ("00000000000000000170.txnindex", FileName(170, Kind.TRANSACTION_INDEX)),
    ("09223372036854775807.snapshot", FileName(2**63 - 1, Kind.PRODUCER_SNAPSHOT)),
    ("00000000000000000005.log.deleted", FileName(5, Kind.LOG, FileState.DELETED)),
    ("00000000000000000005.index.cleaned", FileName(5, Kind.OFFSET_INDEX, FileState.CLEANED)),
    ("00000000000000000005.timeindex.swap", FileName(5, Kind.TIME_INDEX, FileState.SWAP)),
]


@pytest.mark.parametrize(("name", "parsed"), FILES)
def test_a_segment_file_name_is_read_and_written(name: str, parsed: FileName) -> None:
    assert parse_file_name(name) == parsed
    assert file_name(parsed.offset, parsed.kind, parsed.state) == name


def test_a_short_offset_is_read_as_kafka_reads_it() -> None:
    assert parse_file_name("7.log") == FileName(7, Kind.LOG)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("00000000000000000007-0000000002.checkpoint", FileState.LIVE),
        ("00000000000000000007-0000000002.checkpoint.deleted", FileState.DELETED),
        ("00000000000000000007-0000000002-123456.checkpoint.part", FileState.PARTIAL),
    ],
)
def test_a_metadata_snapshot_has_an_offset_and_an_epoch(name: str, state: FileState) -> None:
    assert parse_file_name(name) == FileName(7, Kind.METADATA_SNAPSHOT, state, epoch=2)


@pytest.mark.parametrize(
    "name",
    [
        "leader-epoch-checkpoint",
        "partition.metadata",
        "x.log",
        ".log",
        "1.log.bak",
        "-1.log",
        "99999999999999999999.log",
        "1.parquet",
        "٣.log",
    ],
)
def test_other_files_are_named_by_no_offset(name: str) -> None:
    assert parse_file_name(name) is None


DIRECTORIES = [
    ("orders-3", TopicPartition("orders", 3), DirectoryState.LIVE),
    ("a-b.c_d-0", TopicPartition("a-b.c_d", 0), DirectoryState.LIVE),
    ("ends-in-delete-0", TopicPartition("ends-in-delete", 0), DirectoryState.LIVE),
    ("__cluster_metadata-0", TopicPartition("__cluster_metadata", 0), DirectoryState.LIVE),
    ("a.b-1-2.0a1b-delete", TopicPartition("a.b-1", 2), DirectoryState.DELETE),
    ("orders-3.0a1b-future", TopicPartition("orders", 3), DirectoryState.FUTURE),
    ("orders-3.0a1b-stray", TopicPartition("orders", 3), DirectoryState.STRAY),
]


@pytest.mark.parametrize(("name", "partition", "state"), DIRECTORIES)
def test_a_partition_directory_is_read(
    name: str, partition: TopicPartition, state: DirectoryState
) -> None:
    assert parse_directory_name(name) == (partition, state)


@pytest.mark.parametrize(
    "name",
    ["orders", "orders-", "-3", "orders-x", "orders-3-delete", "lost+found", "orders-99999999999"],
)
def test_a_directory_that_stops_a_broker_has_no_name(name: str) -> None:
    assert parse_directory_name(name) == (UNNAMED, DirectoryState.LIVE)
