"""What salvage costs: work in proportion to bytes, whatever they are, and little memory."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import builders
from builders import Row, batch
from log import hostile, many_batches
from ottla.kernels.search import salvage
from ottla.kernels.search.salvage import Intact
from ottla.log.files.partition import Partition, find_partitions
from ottla.log.salvage.found import FoundBatches, stage_found
from ottla.log.salvage.plan import plan_from
from ottla.log.salvage.search import _search, find_intact
from ottla.storage.files import open_file
from ottla.storage.object_store import DEFAULT_OPTIONS
from whole_log import HeldFound, plan_salvage, whole

SHAPES = [pytest.param(shape, id=shape.__name__) for shape in hostile.SHAPES]
SUMMED = 8  # times each byte: once directly, once for each CRC, and the ends of spans
WALKED = 1 / 16  # frames for each byte; the smallest has 26


def one_segment(folder: Path, data: bytes) -> Partition:
    log = folder / "t-0" / f"{0:020d}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(data)
    (partition,) = find_partitions([folder])
    return partition


def work(partition: Partition) -> tuple[int, int]:
    """Bytes that were summed, and frames that were walked, when a segment is searched."""
    with open_file(partition.segments[0].log) as file:
        search = salvage.begin_search(file.size)
        for _ in _search(file, file.size, search):
            continue
    return int(search.state[salvage.SUMMED]), int(search.state[salvage.WALKED])


@pytest.mark.parametrize("size", [1 << 18, 1 << 20])
@pytest.mark.parametrize("window", [1 << 12, 2 << 20])
@pytest.mark.parametrize("shape", SHAPES)
def test_hostile_bytes_cost_no_more_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: hostile.Shape, window: int, size: int
) -> None:
    """With windows so small that a megabyte has as many as half a gigabyte."""
    monkeypatch.setattr("ottla.log.read.buffer.WINDOW_BYTES", window)
    monkeypatch.setattr("ottla.log.salvage.search.WINDOW_BYTES", window)
    data = shape(size)
    summed, walked = work(one_segment(tmp_path, data))
    assert summed <= SUMMED * len(data)
    assert walked <= WALKED * len(data)


def test_sound_batches_are_summed_once(tmp_path: Path) -> None:
    data = b"".join(batch([Row(n, n, None, bytes(n))]) for n in range(1000))
    assert work(one_segment(tmp_path, data)) == (len(data), 0)


class Counting:
    """What was found in a segment, and how often it was read."""

    def __init__(self, found: FoundBatches) -> None:
        self.found = found
        self.reads = 0
        self.pieces = found.pieces

    def rows(self) -> Iterator[Intact]:
        self.reads += 1
        return self.found.rows()


def tiny_segments(folder: Path, count: int) -> Partition:
    """Segments of one batch each; some do not follow, so that a chain must be chosen."""
    (folder / "t-0").mkdir()
    for base in range(count):
        data = batch([Row(base if base % 10 else count + base)])
        (folder / "t-0" / f"{base:020d}.log").write_bytes(data)
    (partition,) = find_partitions([folder])
    return partition


def test_what_was_found_is_read_as_often_for_many_segments_as_for_one(tmp_path: Path) -> None:
    partition = tiny_segments(tmp_path, 200)
    found = []
    for segment in partition.segments:
        with open_file(segment.log) as file:
            found.append(Counting(HeldFound(list(find_intact(file, segment.base_offset, 1 << 20)))))
    plans = plan_from(partition, found)
    assert sum(plan.keep.sum() for plan in plans) == 180
    assert {one.reads for one in found} == {4}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_staged_is_what_was_found(tmp_path: Path, shape: hostile.Shape) -> None:
    unreadable = batch([Row(8, 1)], codec=1)[:-9]
    data = shape(1 << 16) + reseal(unreadable) + b"x" + reseal(unreadable)
    partition = one_segment(tmp_path / "in", data)
    with open_file(partition.segments[0].log) as file:
        pieces = find_intact(file, 0, 1 << 20)
        paths = f"{tmp_path}/rows", f"{tmp_path}/lines"
        staged = stage_found(pieces, *paths, DEFAULT_OPTIONS, partition.segments[0].log)
    assert staged.unreadable == 2
    (held,) = plan_salvage(partition)
    plan = whole(*plan_from(partition, [staged]))
    assert plan.quarantined == held.quarantined
    assert [column.tolist() for column in plan.kept] == [column.tolist() for column in held.kept]


def reseal(data: bytes) -> bytes:
    """A batch that ends before its records do, with the length and the CRC of what is there."""
    length = (len(data) - 12).to_bytes(4, "big")
    return builders.reseal(data[:8] + length + data[12:])


def fastest(partition: Partition) -> float:
    """Processor time of the best of five: looking for huge pages costs the system now and then."""
    seconds = []
    for _ in range(5):
        began = time.process_time()
        plan_salvage(partition)
        seconds.append(time.process_time() - began)
    return min(seconds)


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES)
def test_eight_times_the_bytes_take_at_most_ten_times_the_time(
    tmp_path: Path, shape: hostile.Shape
) -> None:
    _, small, large = (
        fastest(one_segment(tmp_path / str(size), shape(size << 20))) for size in (1, 8, 64)
    )
    print(f"salvage: {shape.__name__}, 8 and 64 MB: {small:.3f} and {large:.3f} s")
    assert large <= 10 * small


@pytest.mark.soak
def test_eight_times_the_segments_take_at_most_ten_times_the_time(tmp_path: Path) -> None:
    seconds = []
    for count in (2_500, 20_000):
        (tmp_path / str(count)).mkdir()
        seconds.append(fastest(tiny_segments(tmp_path / str(count), count)))
    print(f"salvage: 2,500 and 20,000 segments: {seconds[0]:.2f} and {seconds[1]:.2f} s")
    assert seconds[1] <= 10 * seconds[0]


@pytest.mark.soak
@pytest.mark.parametrize("order", many_batches.ORDERS)
def test_ten_million_batches_take_little_memory(tmp_path: Path, order: str) -> None:
    logs = tmp_path / "logs"
    many_batches.write(logs, order, 10_000_000)
    command = [sys.executable, many_batches.__file__, str(logs), str(tmp_path / "out")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    print(f"salvage: ten million batches, {order}: {found}")
    assert found["batches"] == 10_000_000
    assert found["peak"] <= 400 << 20
