"""Rolling and indexing by kafka-facts 8.5 and 8.6, against a slow loop written from them."""

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import builders
import naive
from builders import Row
from log.generated import marker, random_log
from log.walked import walked
from ottla.kernels.tables import Batches, concat_batches, take_batches
from ottla.log.read.walk import walk_file
from ottla.log.write.index_builder import SegmentConfig, build_indexes
from ottla.log.write.segment_writer import SegmentWriter
from ottla.publish.journal import commit, publish, run_job
from ottla.region import Region, padded
from ottla.storage.files import open_file


def walk(path: Path) -> Batches:
    with open_file(path) as file:
        return walked(file)


def whole(data: bytes) -> Region:
    return Region(padded(data), len(data), "source", 0)


class Slow(NamedTuple):
    """What a broker's loop would have written for one segment."""

    base: int
    positions: list[int]
    offset_entries: list[tuple[int, int]]
    time_entries: list[tuple[int, int]]


def slow_segments(data: bytes, base: int, config: SegmentConfig) -> list[Slow]:
    """LogSegment.append and shouldRoll, batch by batch, from kafka-facts."""
    segments = [Slow(base, [], [], [])]
    size = since = 0
    first_ts = newest = newest_offset = -1
    for line in naive.decode(data):
        if line["type"] != "batch":
            continue
        last, batch_size, stamp = line["lastOffset"], line["size"], line["maxTimestamp"]
        now = segments[-1]
        full = (
            size > config.segment_bytes - batch_size
            or (first_ts >= 0 and stamp - first_ts > config.segment_ms)
            or len(now.offset_entries) >= config.segment_index_bytes // 8
            or len(now.time_entries) >= config.segment_index_bytes // 12 - 1
            or last - now.base > 2**31 - 1
        )
        if size and full:
            if newest > (now.time_entries[-1][0] if now.time_entries else -1):
                now.time_entries.append((newest, newest_offset))
            now = Slow(line["baseOffset"], [], [], [])
            segments.append(now)
            size = since = 0
            newest = -1
        if size == 0:
            first_ts = stamp
        if stamp > newest:
            newest, newest_offset = stamp, last
        if since > config.index_interval_bytes:
            now.offset_entries.append((last, size))
            if newest > (now.time_entries[-1][0] if now.time_entries else -1):
                now.time_entries.append((newest, newest_offset))
            since = 0
        since += batch_size
        size += batch_size
        now.positions.append(line["position"])
    now = segments[-1]
    if newest > (now.time_entries[-1][0] if now.time_entries else -1):
        now.time_entries.append((newest, newest_offset))
    return segments


def write(folder: Path, data: bytes, base: int, config: SegmentConfig) -> Path:
    source = folder / "source"
    source.write_bytes(data)
    with run_job(str(folder / "out"), "j") as job:
        writer = SegmentWriter(job, "t-0", base, config)
        with open_file(source) as file:
            for part in walk_file(file):
                writer.append(whole(data), part.batches)
        commit(job, writer.close(), [])
        publish(job)
    return folder / "out" / "t-0"


CONFIGS = [
    pytest.param(SegmentConfig(), id="defaults"),
    pytest.param(SegmentConfig(segment_bytes=20_000), id="by-size"),
    pytest.param(SegmentConfig(segment_ms=500), id="by-time"),
    pytest.param(SegmentConfig(segment_index_bytes=40), id="index-full"),
    pytest.param(
        SegmentConfig(segment_index_bytes=48, index_interval_bytes=0), id="time-index-full"
    ),
    pytest.param(SegmentConfig(segment_bytes=14), id="tiny"),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_segments_and_indexes_are_those_of_a_broker(tmp_path: Path, config: SegmentConfig) -> None:
    data = b"".join(part for part in random_log(3, count=120) if part[16] == 2)
    directory = write(tmp_path, data, 0, config)
    expected = slow_segments(data, 0, config)
    logs = sorted(directory.glob("*.log"))
    assert [int(path.stem) for path in logs] == [segment.base for segment in expected]
    assert b"".join(path.read_bytes() for path in logs) == data
    for path, segment in zip(logs, expected, strict=True):
        entries = [(offset - segment.base, at) for offset, at in segment.offset_entries]
        packed = b"".join(struct.pack(">ii", *entry) for entry in entries)
        assert path.with_suffix(".index").read_bytes() == packed
        times = [(stamp, offset - segment.base) for stamp, offset in segment.time_entries]
        packed = b"".join(struct.pack(">qi", *entry) for entry in times)
        assert path.with_suffix(".timeindex").read_bytes() == packed


@pytest.mark.parametrize("config", CONFIGS)
def test_batches_that_come_one_by_one_are_cut_as_those_that_come_together(
    tmp_path: Path, config: SegmentConfig
) -> None:
    data = b"".join(random_log(3, count=120))
    together = write(tmp_path, data, 0, config)
    batches = walk(tmp_path / "source")
    with run_job(str(tmp_path / "one-by-one"), "j") as job:
        writer = SegmentWriter(job, "t-0", 0, config)
        for row in range(batches.position.size):
            writer.append(whole(data), take_batches(batches, slice(row, row + 1)))
        commit(job, writer.close(), [])
        publish(job)
    apart = tmp_path / "one-by-one" / "t-0"
    names = sorted(path.name for path in together.iterdir())
    assert sorted(path.name for path in apart.iterdir()) == names
    for name in names:
        assert (apart / name).read_bytes() == (together / name).read_bytes(), name


def test_an_offset_out_of_reach_rolls(tmp_path: Path) -> None:
    far = 2**31
    data = (
        builders.batch([Row(5)]) + builders.batch([Row(5 + far)]) + builders.batch([Row(6 + far)])
    )
    directory = write(tmp_path, data, 5, SegmentConfig())
    names = [int(path.stem) for path in sorted(directory.glob("*.log"))]
    assert names == [5, 5 + far]


def test_a_first_batch_out_of_reach_of_the_base_begins_its_own_segment(tmp_path: Path) -> None:
    directory = write(tmp_path, builders.batch([Row(2**40)]), 0, SegmentConfig())
    assert [int(path.stem) for path in directory.glob("*.log")] == [2**40]


def test_leader_epochs_are_written_where_they_rise(tmp_path: Path) -> None:
    epochs = [0, 0, 3, 3, 2, 4]
    data = b"".join(builders.batch([Row(n * 10)], leader_epoch=e) for n, e in enumerate(epochs))
    directory = write(tmp_path, data, 0, SegmentConfig())
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n3 20\n4 50\n"


def test_rebuilt_indexes_are_those_of_the_writer(tmp_path: Path) -> None:
    data = b"".join(random_log(5, count=400))
    directory = write(tmp_path, data, 0, SegmentConfig(index_interval_bytes=300))
    (log,) = directory.glob("*.log")
    offsets, times = build_indexes(walk(log), 0, index_interval_bytes=300)
    stored = np.frombuffer(log.with_suffix(".index").read_bytes(), dtype=">i4").reshape(-1, 2)
    assert np.array_equal(stored, np.stack([offsets.offset, offsets.position], axis=1))
    assert len(log.with_suffix(".timeindex").read_bytes()) == 12 * times.offset.size


def test_only_the_batches_that_are_given_are_written(tmp_path: Path) -> None:
    parts = [builders.batch([Row(n)]) for n in range(6)]
    (tmp_path / "source").write_bytes(b"".join(parts))
    chosen = walk(tmp_path / "source")
    chosen = Batches(*(column[[0, 1, 4]] for column in chosen))
    with run_job(str(tmp_path / "out"), "j") as job:
        writer = SegmentWriter(job, "t-0", 0, SegmentConfig())
        writer.append(whole(b"".join(parts)), chosen)
        commit(job, writer.close(), [])
        publish(job)
    written = (tmp_path / "out" / "t-0" / f"{0:020d}.log").read_bytes()
    assert written == parts[0] + parts[1] + parts[4]


@pytest.mark.parametrize("size", [40, 3000, 40_000, 300_000])
def test_a_walk_sees_what_the_naive_reader_sees(tmp_path: Path, size: int) -> None:
    rows = [[Row(n, n, None, bytes(size))] for n in range(6 if size > 9999 else 40)]
    data = b"".join(builders.batch(batch) for batch in rows) + b"\0\0\0tail"
    (tmp_path / "a").write_bytes(data)
    with open_file(tmp_path / "a") as file:
        parts = list(walk_file(file))
    found = concat_batches([part.batches for part in parts])
    expected = [line for line in naive.decode(data) if line["type"] == "batch"]
    assert found.position.tolist() == [line["position"] for line in expected]
    assert found.last_offset.tolist() == [line["lastOffset"] for line in expected]
    assert parts[-1].stop == len(data) - 7


def test_snapshots_and_transaction_indexes_follow_from_the_log(tmp_path: Path) -> None:
    transactional = 0x10
    parts = [
        builders.batch([Row(0), Row(1)], attributes=transactional, producer=(7, 2, 0)),
        marker(2, 7, 0),
        builders.batch([Row(3)], producer=(8, 0, 5)),
        builders.batch([Row(4)], attributes=transactional, producer=(7, 2, 2)),
    ]
    directory = write(tmp_path, b"".join(parts), 0, SegmentConfig(segment_bytes=200))
    names = {path.name.lstrip("0") for path in directory.iterdir() if path.suffix != ".timeindex"}
    assert names == {
        ".log", ".index", ".txnindex", "3.log", "3.index", "3.snapshot", "5.snapshot",
        "leader-epoch-checkpoint",
    }  # fmt: skip
    assert (directory / f"{0:020d}.txnindex").read_bytes() == struct.pack(">hqqqq", 0, 7, 0, 2, 3)
    entries = np.frombuffer((directory / f"{5:020d}.snapshot").read_bytes()[10:], np.uint8)
    rows = sorted(struct.iter_unpack(">qhiqiqiq", entries.tobytes()))
    # producer, epoch, last sequence, last offset, delta, timestamp, coordinator epoch, first offset
    assert rows == [(7, 2, 2, 4, 0, 0, 0, 4), (8, 0, 5, 3, 0, 0, -1, -1)]
