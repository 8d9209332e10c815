"""A lookup by index gives what a scan of every record gives."""

import random
import struct
from pathlib import Path

import pytest

import naive
from builders import Row, batch
from log.generated import random_log
from log.test_segment_writer import write
from ottla.catalog.positions import find_start, find_timestamp
from ottla.format.names import Kind
from ottla.log.files.partition import Partition, Segment, find_partitions
from ottla.log.write.index_builder import SegmentConfig
from ottla.storage.object_store import DEFAULT_OPTIONS

BASE = 7
Log = tuple[Partition, list[dict[str, int]]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A segment of all magics with many index entries, and the naive reader's lines of it."""
    folder = tmp_path_factory.mktemp("log")
    data = b"".join(random_log(11, count=400, base=BASE))
    write(folder, data, BASE, SegmentConfig(index_interval_bytes=500))
    (partition,) = find_partitions([folder / "out"])
    (segment,) = partition.segments
    assert set(segment.side_files) == {Kind.OFFSET_INDEX, Kind.TIME_INDEX}
    assert segment.side_files[Kind.OFFSET_INDEX].size > 1000
    return partition, naive.decode(data)


def scanned(segment: Segment, lines: list[dict[str, int]], offset: int) -> int:
    """Where the first batch begins that reaches the offset; the size of the file if none does."""
    reaching = (
        line["position"]
        for line in lines
        if line["type"] == "batch" and line["lastOffset"] >= offset
    )
    return next(reaching, segment.log.size)


def test_every_offset_is_found_where_a_scan_finds_it(log: Log) -> None:
    partition, lines = log
    (segment,) = partition.segments
    last = max(line["lastOffset"] for line in lines if line["type"] == "batch")
    for offset in range(last + 3):
        found = find_start(segment, offset, DEFAULT_OPTIONS)
        assert found == scanned(segment, lines, offset), offset


def test_a_thousand_timestamps_are_found_where_a_scan_finds_them(log: Log) -> None:
    partition, lines = log
    records = [(line["offset"], line["timestamp"]) for line in lines if line["type"] == "record"]
    times = [timestamp for _, timestamp in records if timestamp >= 0]
    chooser = random.Random(2)
    for _ in range(1000):
        wanted = chooser.randrange(min(times) - 100, max(times) + 100)
        expected = next((offset for offset, timestamp in records if timestamp >= wanted), None)
        assert find_timestamp(partition, wanted, DEFAULT_OPTIONS) == expected


def test_a_broken_index_is_not_believed(log: Log) -> None:
    partition, lines = log
    (segment,) = partition.segments
    index = Path(segment.side_files[Kind.OFFSET_INDEX].path)
    good = index.read_bytes()
    offset = next(line["offset"] for line in lines if line["type"] == "record" and line["index"])
    try:
        for bad in (good[:-3], bytes.fromhex("00000001 7fffff00"), good[8:16] + good[:8]):
            index.write_bytes(bad)
            (again,) = find_partitions([index.parent])
            found = find_start(again.segments[0], offset + 500, DEFAULT_OPTIONS)
            assert found == scanned(segment, lines, offset + 500)
    finally:
        index.write_bytes(good)


def test_a_time_behind_damage_is_found_by_the_index(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    first = batch([Row(0, 1000)])
    (folder / f"{0:020d}.log").write_bytes(first + bytes(40) + batch([Row(2, 3000)]))
    (folder / f"{0:020d}.index").write_bytes(struct.pack(">ii", 2, len(first) + 40))
    (found,) = find_partitions([folder])
    assert find_timestamp(found, 2000, DEFAULT_OPTIONS) == 2
