"""What read_committed needs to know, from side files where they check out and from the log else."""

import struct
from pathlib import Path

import pytest

from builders import Row, batch
from jobs.topics import ABORT, COMMIT, TRANSACTIONAL, Segment, marker
from naive import crc32c
from ottla.catalog.positions import find_log_end
from ottla.catalog.stable import find_stable
from ottla.log.files.partition import Partition, find_partitions
from ottla.storage.object_store import DEFAULT_OPTIONS


def snapshot(*open_ones: tuple[int, int]) -> bytes:
    """Producers with the first offset of their open transaction, or -1."""
    entries = [struct.pack(">qhiqiqiq", one, 0, 0, 0, 0, 0, 0, first) for one, first in open_ones]
    covered = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", 1, crc32c(covered)) + covered


def data(offset: int, producer: int) -> bytes:
    return batch([Row(offset, 1000)], attributes=TRANSACTIONAL, producer=(producer, 0, 0))


def partition(folder: Path) -> Partition:
    """Producer 1 aborts 0, producer 2 commits 1 in the second segment, 3 is open from 3 on."""
    folder.mkdir()
    first, second = Segment(0), Segment(3)
    for offset, producer in ((0, 1), (1, 2)):
        first.append(data(offset, producer), offset, 1000)
    first.append(marker(2, 1, ABORT, 1000), 2, 1000)
    first.aborts += struct.pack(">hqqqq", 0, 1, 0, 2, 1)
    second.append(data(3, 3), 3, 1000)
    second.append(marker(4, 2, COMMIT, 1000), 4, 1000)
    for segment in (first, second):
        segment.write(folder, indexes=True)
    return _read(folder)


def _read(folder: Path) -> Partition:
    (found,) = find_partitions([folder])
    return found


def answer(found: Partition, watermark: int | None = None) -> tuple[list[tuple[int, int]], int]:
    stable = find_stable(found, watermark, DEFAULT_OPTIONS)
    aborted = [(int(row["producer_id"]), int(row["last_offset"])) for row in stable.aborted]
    return aborted, stable.last_stable_offset


def test_the_log_alone_tells(tmp_path: Path) -> None:
    assert answer(partition(tmp_path / "t-0")) == ([(1, 2)], 3)


def test_a_snapshot_says_what_was_open_before_it(tmp_path: Path) -> None:
    partition(tmp_path / "t-0")
    (tmp_path / "t-0" / f"{3:020d}.snapshot").write_bytes(snapshot((1, -1), (2, 1)))
    assert answer(_read(tmp_path / "t-0")) == ([(1, 2)], 3)


def test_a_snapshot_spares_the_segments_before_it(tmp_path: Path) -> None:
    """A transaction that only the snapshot knows stays open: the first segment was not read."""
    partition(tmp_path / "t-0")
    (tmp_path / "t-0" / f"{3:020d}.snapshot").write_bytes(snapshot((7, 2)))
    assert answer(_read(tmp_path / "t-0")) == ([(1, 2)], 2)


@pytest.mark.parametrize("damage", [b"", b"\0" * 10, snapshot((7, 2))[:-1] + b"?"])
def test_a_broken_snapshot_is_not_believed(tmp_path: Path, damage: bytes) -> None:
    partition(tmp_path / "t-0")
    (tmp_path / "t-0" / f"{3:020d}.snapshot").write_bytes(damage)
    assert answer(_read(tmp_path / "t-0")) == ([(1, 2)], 3)


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_decision_above_the_high_watermark_does_not_count(
    tmp_path: Path, with_snapshot: bool
) -> None:
    partition(tmp_path / "t-0")
    if with_snapshot:
        name = f"{3:020d}.snapshot"
        (tmp_path / "t-0" / name).write_bytes(snapshot((1, -1), (2, 1)))
    assert answer(_read(tmp_path / "t-0"), 4)[1] == 1


def test_logs_without_indexes_are_read_whole(tmp_path: Path) -> None:
    partition(tmp_path / "t-0")
    for path in (tmp_path / "t-0").iterdir():
        if path.suffix != ".log":
            path.unlink()
    (tmp_path / "t-0" / f"{3:020d}.snapshot").write_bytes(snapshot((7, 2)))
    assert answer(_read(tmp_path / "t-0")) == ([(1, 2)], 3)


def test_an_abort_after_the_snapshot_is_found_without_its_transaction_index(tmp_path: Path) -> None:
    """Producer 2 began before the snapshot, producer 3 after it; both abort in the tail."""
    folder = tmp_path / "t-0"
    partition(folder)
    tail = Segment(3)
    tail.append(data(3, 3), 3, 1000)
    tail.append(marker(4, 2, ABORT, 9), 4, 1000)
    tail.append(marker(5, 3, ABORT, 9), 5, 1000)
    tail.write(folder, indexes=True)
    (folder / f"{3:020d}.snapshot").write_bytes(snapshot((1, -1), (2, 1)))
    assert answer(_read(folder)) == ([(1, 2), (2, 4), (3, 5)], 6)
    stable = find_stable(_read(folder), None, DEFAULT_OPTIONS)
    assert stable.aborted["first_offset"].tolist() == [0, 1, 3]


def test_an_abort_that_index_and_log_know_is_named_once(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    partition(folder)
    tail = Segment(3)
    tail.append(data(3, 3), 3, 1000)
    tail.append(marker(4, 2, ABORT, 9), 4, 1000)
    tail.aborts += struct.pack(">hqqqq", 0, 2, 1, 4, 3)
    tail.write(folder, indexes=True)
    (folder / f"{3:020d}.snapshot").write_bytes(snapshot((1, -1), (2, 1)))
    assert answer(_read(folder)) == ([(1, 2), (2, 4)], 3)


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_an_empty_last_segment_is_stable_to_its_base(tmp_path: Path, has_snapshot: bool) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    segment = Segment(0)
    segment.append(data(0, 1), 0, 1000)
    segment.append(marker(1, 1, COMMIT, 1000), 1, 1000)
    segment.write(folder, indexes=True)
    Segment(9).write(folder, indexes=True)
    if has_snapshot:
        (folder / f"{2:020d}.snapshot").write_bytes(snapshot((1, -1)))
    assert answer(_read(folder)) == ([], 9)
    assert find_log_end(_read(folder), DEFAULT_OPTIONS) == 9


def test_a_transaction_index_that_is_gone_before_a_snapshot_is_missed_by_nobody(
    tmp_path: Path,
) -> None:
    """As by a broker, which makes the file with the first abort: only `verify` reads all to see."""
    partition(tmp_path / "t-0")
    (tmp_path / "t-0" / f"{3:020d}.snapshot").write_bytes(snapshot((2, 1)))
    assert answer(_read(tmp_path / "t-0")) == ([(1, 2)], 3)
    (tmp_path / "t-0" / f"{0:020d}.txnindex").unlink()
    assert answer(_read(tmp_path / "t-0")) == ([], 3)


def test_what_lies_behind_damage_is_found_by_the_index(tmp_path: Path) -> None:
    """A reader goes on there too, and would give aborted records."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    parts = [data(0, 9), bytes(40), data(2, 1), marker(3, 1, ABORT, 1000)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(parts))
    (folder / f"{0:020d}.index").write_bytes(struct.pack(">ii", 2, len(parts[0]) + 40))
    assert answer(_read(folder))[0] == [(1, 3)]
