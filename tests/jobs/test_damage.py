"""Damage costs the same rows and makes the same violations however a segment is cut.

The log is 400 batches of three records; the index knows every n-th of them, or there is none.
"""

import json
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders import Row, batch
from ottla.catalog.slices import Task, plan_tasks
from ottla.errors import CorruptLogError, Rule, Violation
from ottla.jobs.read.records import read_headers, read_slice, read_violations
from ottla.log.files.partition import find_partitions
from ottla.log.read.records import Mode, obey
from ottla.options.read import ReadOptions, for_batch, parse_read_options
from ottla.spark.reader import read_task
from ottla.spark.schema import arrow_schema, schema_of
from whole_log import check_partition, plan_salvage

BATCHES, PER_BATCH = 400, 3
DAMAGED = 57  # the batch that is damaged
CUTS = [
    {"splitbytes": "300"},
    {"splitbytes": "4k"},
    {"splitbytes": "64k"},
    {"splitbytes": "64m"},
    {"minpartitions": "9"},
]


def sound() -> list[bytes]:
    return [
        batch([Row(number * PER_BATCH + n, 5, value=b"v" * 60) for n in range(PER_BATCH)])
        for number in range(BATCHES)
    ]


def put(data: bytearray, at: int, new: bytes) -> None:
    data[at : at + len(new)] = new


def with_length(length: int) -> Callable[[bytearray, int, int], None]:
    return lambda data, at, _: put(data, at + 8, struct.pack(">i", length))


def flip(data: bytearray, at: int, size: int) -> None:
    data[at + size - 1] ^= 1


DAMAGES = {
    "garbage": lambda data, at, size: put(data, at, random.Random(1).randbytes(2 * size)),
    "ones": lambda data, at, size: put(data, at, b"\xff" * size),
    "zeros": lambda data, at, size: put(data, at, bytes(size)),
    "zeros-of-many": lambda data, at, size: put(data, at, bytes(40 * size)),
    "length-of-five": with_length(5 * 260 + 7),
    "length-of-a-slice": with_length(60_000),
    "length-past-the-file": with_length(1 << 24),
    "length-too-small": with_length(3),
    "length-half": with_length(100),
    "length-negative": with_length(-9),
    "magic": lambda data, at, _: put(data, at + 16, b"\x09"),
    "magic-and-length": lambda data, at, _: put(data, at + 8, struct.pack(">iib", 3000, 0, 9)),
    "crc": flip,
}
ONE_BATCH_ONLY = {"crc", "magic"}


def write(folder: Path, damage: str, indexed: int | None, *, more: bool = True) -> Path:
    """The damaged log, and a sound segment after it."""
    parts = sound()
    starts = [sum(map(len, parts[:number])) for number in range(len(parts))]
    data = bytearray(b"".join(parts))
    DAMAGES[damage](data, starts[DAMAGED], len(parts[DAMAGED]))
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(data)
    if indexed is not None:
        entries = [
            struct.pack(">ii", number * PER_BATCH + PER_BATCH - 1, starts[number])
            for number in range(indexed, BATCHES, indexed)
        ]
        (folder / f"{0:020d}.index").write_bytes(b"".join(entries))
    if more:
        base = BATCHES * PER_BATCH
        (folder / f"{base:020d}.log").write_bytes(batch([Row(base, 5)]))
    return folder.parent


def options(path: Path, **given: str) -> ReadOptions:
    return for_batch(parse_read_options({"path": str(path), "mode": "dropmalformed"} | given))


def offsets(tasks: list[Task], chosen: ReadOptions) -> list[int]:
    return [
        offset
        for task in tasks
        for part in task
        for reading in obey(chosen.mode, read_slice(part, ["offset"], chosen.access))
        if (records := reading.to_arrow(["offset"])) is not None
        for offset in records.column("offset").to_pylist()
    ]


def violations(tasks: list[Task], chosen: ReadOptions) -> Iterator[Violation]:
    for task in tasks:
        for part in task:
            yield from read_violations(part, chosen.access)


def expected(damage: str, indexed: int | None) -> list[int]:
    """All offsets but those from the damaged batch on to the next that the index knows."""
    wide = {"garbage": 2, "zeros-of-many": 40}.get(damage, 1)
    stop = DAMAGED + 1
    if damage not in ONE_BATCH_ONLY:
        stop = BATCHES
        if indexed is not None:
            stop = next(n for n in range(indexed, BATCHES, indexed) if n >= DAMAGED + wide)
    lost = range(DAMAGED * PER_BATCH, stop * PER_BATCH)
    return [offset for offset in range(BATCHES * PER_BATCH + 1) if offset not in lost]


@pytest.mark.parametrize("indexed", [1, 2, 13, 100, None])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_costs_the_same_for_every_cut(
    tmp_path: Path, damage: str, indexed: int | None
) -> None:
    path = write(tmp_path / "t-0", damage, indexed)
    found = []
    for cut in CUTS:
        chosen = options(path, **cut)
        tasks = [*plan_tasks(chosen)]
        assert offsets(tasks, chosen) == expected(damage, indexed), cut
        found.append(sorted(violation.position for violation in violations(tasks, chosen)))
    assert found == [found[0]] * len(CUTS)
    assert found[0]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_stops_a_strict_reader_for_every_cut(
    tmp_path: Path, damage: str, cut: dict[str, str]
) -> None:
    chosen = options(write(tmp_path / "t-0", damage, 13), mode="failfast", **cut)
    with pytest.raises(CorruptLogError):
        offsets([*plan_tasks(chosen)], chosen)


@pytest.mark.parametrize("indexed", [1, 13, None])
@pytest.mark.parametrize("damage", sorted(DAMAGES.keys() - ONE_BATCH_ONLY))
def test_a_start_behind_the_damage_skips_nothing_silently(
    tmp_path: Path, damage: str, indexed: int | None
) -> None:
    path = write(tmp_path / "t-0", damage, indexed)
    for start in range(DAMAGED * PER_BATCH - 2, (DAMAGED + 50) * PER_BATCH, 7):
        bounds = {"startingoffsets": json.dumps({"t": {"0": start}})}
        chosen = options(path, **bounds)
        tasks = [*plan_tasks(chosen)]
        wanted = [offset for offset in expected(damage, indexed) if offset >= start]
        assert offsets(tasks, chosen) == wanted, start
        if BATCHES * PER_BATCH + 1 - start > len(wanted):
            assert list(violations(tasks, chosen)), start


@pytest.mark.parametrize("damage", sorted(DAMAGES.keys() - {"crc"}))
def test_headers_do_not_hide_damage(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path / "t-0", damage, 13, more=False)
    chosen = options(path, view="batches")
    ((part,),) = plan_tasks(chosen)
    with pytest.raises(CorruptLogError):
        list(read_headers(part, chosen.access, Mode.FAILFAST))
    rows = list(read_headers(part, chosen.access, chosen.mode))
    assert rows[-1].column("lastOffset").to_pylist()[-1] == BATCHES * PER_BATCH - 1


def test_a_preallocated_end_is_no_damage(tmp_path: Path) -> None:
    path = write(tmp_path / "t-0", "crc", 2, more=False)
    log = tmp_path / "t-0" / f"{0:020d}.log"
    log.write_bytes(b"".join(sound()) + bytes(5000))
    for cut in CUTS:
        chosen = options(path, mode="failfast", **cut)
        assert offsets([*plan_tasks(chosen)], chosen) == list(range(BATCHES * PER_BATCH))


def test_a_length_past_the_end_of_the_log_ends_it_as_for_kafka_and_verify_says_so(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "t-0", "length-past-the-file", None, more=False)
    for cut in CUTS:
        chosen = options(path, mode="failfast", **cut)
        assert offsets([*plan_tasks(chosen)], chosen) == list(range(DAMAGED * PER_BATCH))
    (partition,) = find_partitions([path])
    position = sum(map(len, sound()[:DAMAGED]))
    assert [(one.rule, one.position) for one in check_partition(partition)] == [
        (Rule.LOG_TAIL, position)
    ]
    (plan,) = plan_salvage(partition)
    assert plan.kept.position.size == BATCHES - 1


def test_rows_of_violations_come_in_batches_of_bounded_size(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    broken = b"".join(batch([Row(offset, 5)])[:-1] + b"?" for offset in range(4100))
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(broken)
    chosen = options(tmp_path, view="violations")
    (task,) = plan_tasks(chosen)
    tables = list(read_task(task, chosen, arrow_schema(schema_of(chosen))))
    assert [table.num_rows for table in tables] == [4096, 4]
