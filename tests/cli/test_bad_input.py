"""Input that is odd and legal, or merely odd: a command says what it thinks of it."""

import json
import os
from pathlib import Path

import pytest

from builders import Row, batch
from cli.here import run
from log.generated import write_partition
from ottla.log.read.walk import TABLE_ROWS, walk_file
from ottla.storage.files import open_file

WRITERS = {
    "salvage": [],
    "export": [],
    "convert": ["--codec", "zstd"],
    "compact": ["--include-active"],
    "restore": [],
}


@pytest.mark.parametrize("length", [213, 214, 226, 249])
@pytest.mark.parametrize("name", WRITERS)
def test_a_topic_may_have_the_longest_name(tmp_path: Path, name: str, length: int) -> None:
    topic = "t" * length
    write_partition(tmp_path / "logs", f"{topic}-0", 0, batch([Row(0, 1000, b"k", b"v")]) + b"?")
    if name != "salvage":
        write_partition(tmp_path / "logs", f"{topic}-0", 0, batch([Row(0, 1000, b"k", b"v")]))
    ran = run(name, tmp_path / "logs", tmp_path / "out", *WRITERS[name], "--quiet")
    assert ran.status in (0, 1), ran.err
    assert not ran.err
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


@pytest.mark.parametrize("times", [(-5000, 1000), (-(2**63), 2**63 - 1), (-2, -3)])
def test_records_before_1970_are_reported(tmp_path: Path, times: tuple[int, int]) -> None:
    rows = [Row(at, time, b"k", b"v") for at, time in enumerate(times)]
    write_partition(tmp_path / "logs", "orders-0", 0, batch(rows[:1]) + batch(rows[1:]))
    ran = run("report", tmp_path / "logs", "--now", "2000", "--format", "jsonl")
    assert ran.status in (0, 1), ran.err
    assert json.loads(ran.out.splitlines()[0])


def test_records_before_1970_stay_in_their_batches_or_are_named(tmp_path: Path) -> None:
    rows = [Row(at, time, b"k", b"v") for at, time in enumerate((-5000, -(2**63), 2**63 - 1))]
    data = b"".join(batch([row]) for row in rows)
    write_partition(tmp_path / "logs", "orders-0", 0, data)
    ran = run("convert", tmp_path / "logs", tmp_path / "out", "--batch-bytes", "64k", "--quiet")
    assert (ran.status, ran.err) == (0, "")
    words = ["--magic", "1", "--allow-loss", "leader-epochs"]
    ran = run("convert", tmp_path / "logs", tmp_path / "older", *words)
    assert ran.status == 1
    assert f"{tmp_path}/logs/orders-0/{0:020d}.log @ 0, offset 0: record-timestamp" in ran.err


@pytest.mark.parametrize("style", ["text", "jsonl"])
def test_names_that_are_not_utf_8_are_shown(tmp_path: Path, style: str) -> None:
    topic = os.fsdecode(b"t\xff\xfe")
    write_partition(tmp_path / "logs", f"{topic}-0", 0, batch([Row(0, 1000, b"k", b"v")]))
    for name in ("ls", "dump", "verify", "transactions", "report"):
        ran = run(name, tmp_path / "logs", "--format", style)
        assert ran.status in (0, 1, 2), ran.err
    for name, flags in WRITERS.items():
        ran = run(name, tmp_path / "logs", tmp_path / name, *flags)
        assert ran.status in (0, 1, 2), (name, ran.err)


@pytest.mark.parametrize("content", [b"", b"[", b'{"version": 9}', b'{"account": [1]}', b"\xff"])
def test_an_account_that_is_broken_old_or_newer_is_refused(tmp_path: Path, content: bytes) -> None:
    write_partition(tmp_path / "logs", "orders-0", 0, batch([Row(0, 1000, b"k", b"v")]))
    words = ["export", tmp_path / "logs", tmp_path / "out"]
    assert run(*words).status == 0
    (account,) = (tmp_path / "out.ottla").glob("*/account.json")
    account.write_bytes(content)
    ran = run(*words)
    assert ran.status in (1, 2), ran.err
    assert str(account) in ran.err


def test_a_file_that_shrinks_below_a_walk_ends_it(tmp_path: Path) -> None:
    data = batch([Row(0, 1000, b"k", b"v")])
    log = write_partition(tmp_path, "orders-0", 0, data * (3 * TABLE_ROWS))
    with open_file(log) as file:
        walked = walk_file(file)
        assert next(walked).batches.position.size == TABLE_ROWS
        os.truncate(log, 0)
        assert all(part.stop <= file.size for part in walked)


LAST = 2**63 - 1
BAD_NAME = os.fsdecode(b"\xff.log")
NO_END = {
    # A batch at the last offset of all, and one whose last offset wraps.
    "at-the-end": (LAST, 1),
    "wraps": (LAST - 1, 3),
}


def write_no_end(folder: Path, base: int, count: int) -> None:
    data = batch([Row(at, 1000, b"k", b"v") for at in range(count)])
    write_partition(folder, "orders-0", base, base.to_bytes(8, "big") + data[8:])


@pytest.mark.parametrize("command", ["ls", "verify"])
@pytest.mark.parametrize(("base", "count"), NO_END.values(), ids=NO_END)
def test_a_log_whose_end_is_no_offset_is_reported(
    tmp_path: Path, command: str, base: int, count: int
) -> None:
    write_no_end(tmp_path / "logs", base, count)
    ran = run(command, tmp_path / "logs", "--format", "jsonl")
    assert ran.status == 1
    assert '"log-end"' in ran.out


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(("base", "count"), NO_END.values(), ids=NO_END)
def test_no_log_without_an_end_is_written(tmp_path: Path, name: str, base: int, count: int) -> None:
    write_no_end(tmp_path / "logs", base, count)
    ran = run(name, tmp_path / "logs", tmp_path / "out", *WRITERS[name])
    assert ran.status in ((0, 1) if name == "export" else (1, 2)), ran.err
    assert "names a place where no job publishes" not in ran.err
    assert not [path for path in (tmp_path / "out").rglob("*.log") if path.stat().st_size]


@pytest.mark.parametrize("command", ["ls", "verify"])
@pytest.mark.parametrize("name", [f"{2**63}.log", f"{2**63}.snapshot", "x.index", ".log", BAD_NAME])
def test_a_file_that_no_offset_names_is_reported(tmp_path: Path, command: str, name: str) -> None:
    log = write_partition(tmp_path / "logs", "orders-0", 0, batch([Row(0, 1000, b"k", b"v")]))
    log.with_name(name).write_bytes(b"")
    ran = run(command, tmp_path / "logs", "--format", "jsonl")
    assert ran.status == 1
    assert '"file-name"' in ran.out


def test_a_marker_of_an_unknown_codec_is_none(tmp_path: Path) -> None:
    data = batch([Row(0, 5, b"\0\0\0\1", bytes(6))], attributes=0x37, producer=(7, 2, -1))
    write_partition(tmp_path / "logs", "orders-0", 0, data)
    assert run("transactions", "--completed", tmp_path / "logs").status in (0, 1)
