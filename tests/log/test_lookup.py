"""A lookup by index gives what a scan of every record gives."""

import random
from pathlib import Path

import pytest

import builders
import naive
from builders import Row
from log.generated import random_log
from log.test_segment_writer import write
from ottla.errors import CorruptLogError
from ottla.log.index_builder import SegmentConfig
from ottla.log.lookup import find_offset, find_timestamp
from ottla.log.names import Kind
from ottla.log.partition import Segment, find_partitions

BASE = 7


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Segment, list[dict[str, int]]]:
    """A segment of all magics with many index entries, and the naive reader's lines of it."""
    folder = tmp_path_factory.mktemp("log")
    data = b"".join(random_log(11, count=400, base=BASE))
    write(folder, data, BASE, SegmentConfig(index_interval_bytes=500))
    (partition,) = find_partitions([folder / "out"])
    (segment,) = partition.segments
    assert set(segment.side_files) == {Kind.OFFSET_INDEX, Kind.TIME_INDEX}
    assert segment.side_files[Kind.OFFSET_INDEX].size > 1000
    return segment, naive.decode(data)


def test_every_offset_is_found_where_a_scan_finds_it(
    log: tuple[Segment, list[dict[str, int]]],
) -> None:
    segment, lines = log
    batches = [(line["position"], line["lastOffset"]) for line in lines if line["type"] == "batch"]
    last = batches[-1][1]
    at = 0
    for offset in range(last + 3):
        while at < len(batches) and batches[at][1] < offset:
            at += 1
        expected = batches[at][0] if at < len(batches) else None
        assert find_offset(segment, offset) == expected, offset


def test_a_thousand_timestamps_are_found_where_a_scan_finds_them(
    log: tuple[Segment, list[dict[str, int]]],
) -> None:
    segment, lines = log
    records = [(line["offset"], line["timestamp"]) for line in lines if line["type"] == "record"]
    times = [timestamp for _, timestamp in records if timestamp >= 0]
    chooser = random.Random(2)
    for _ in range(1000):
        wanted = chooser.randrange(min(times) - 100, max(times) + 100)
        expected = next((record for record in records if record[1] >= wanted), None)
        assert find_timestamp(segment, wanted) == expected


def test_a_break_before_the_timestamp_is_an_error_and_no_absence(tmp_path: Path) -> None:
    parts = [builders.batch([Row(at, 1000 + at)]) for at in range(3)]
    (tmp_path / "t-0").mkdir()
    log = tmp_path / "t-0" / f"{0:020d}.log"
    for broken in (
        parts[1][:8] + bytes(4) + parts[1][12:],
        parts[1][:16] + b"\x09" + parts[1][17:],
    ):
        log.write_bytes(parts[0] + broken + parts[2])
        (partition,) = find_partitions([tmp_path])
        assert find_timestamp(partition.segments[0], 1000) == (0, 1000)
        with pytest.raises(CorruptLogError):
            find_timestamp(partition.segments[0], 1002)


def test_zeros_at_the_end_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(builders.batch([Row(0, 1000)]) + bytes(500))
    (partition,) = find_partitions([tmp_path])
    assert find_timestamp(partition.segments[0], 1001) is None


def test_a_broken_index_is_not_believed(log: tuple[Segment, list[dict[str, int]]]) -> None:
    segment, lines = log
    index = Path(segment.side_files[Kind.OFFSET_INDEX].path)
    good = index.read_bytes()
    offset = next(line["offset"] for line in lines if line["type"] == "record" and line["index"])
    expected = find_offset(segment, offset + 500)
    try:
        for bad in (good[:-3], bytes.fromhex("00000001 7fffff00"), good[8:16] + good[:8]):
            index.write_bytes(bad)
            (partition,) = find_partitions([index.parent])
            assert find_offset(partition.segments[0], offset + 500) == expected
    finally:
        index.write_bytes(good)
