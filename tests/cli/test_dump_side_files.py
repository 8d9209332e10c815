"""`ottla dump` of what lies beside segments: as kafka-dump-log has it, and what is wrong."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from cli.command import run
from cli.here import run as run_here
from dump_log import Line, parse_dump
from golden import BROKERS, GOLDEN, kafka_dump
from side_files import ENTRIES

DUMPS = [
    pytest.param(path, lines, id=str(path.relative_to(GOLDEN)))
    for broker in BROKERS
    for path, lines in kafka_dump(broker).items()
    if path.suffix in ENTRIES
]


@pytest.mark.parametrize(("path", "said"), DUMPS)
def test_the_lines_are_those_of_kafka_dump_log(path: Path, said: list[Line]) -> None:
    ran = run("dump", path, "--format", "text")
    *lines, end = ran.out.splitlines()
    assert ran.status == 0
    assert parse_dump("\n".join(lines))[str(path)] == said
    assert end == f"End position: {path.stat().st_size} of {path.stat().st_size} " + (
        f"entries: {len(said)} errors: 0"
    )


@pytest.mark.parametrize(("path", "said"), DUMPS)
def test_json_has_the_same_as_rows(path: Path, said: list[Line]) -> None:
    ran = run("dump", path, "--format", "jsonl")
    *rows, end = ran.lines
    assert {row["type"] for row in rows} <= {path.suffix.removeprefix(".")}
    assert {row["file"] for row in rows} <= {str(path)}
    assert [_said(row) for row in rows] == said
    assert end == {
        "type": "end",
        "fileSize": path.stat().st_size,
        "entries": len(said),
        "errors": 0,
        "file": str(path),
    }


def _said(row: dict[str, Any]) -> Line:
    def say(name: str, value: Any) -> str:
        if name != "currentTxnFirstOffset":
            return str(value)
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"

    named = {name: value for name, value in row.items() if name not in ("type", "file")}
    return {"line": "entry"} | {name: say(name, value) for name, value in named.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders-0").mkdir()
    return tmp_path / "orders-0"


CHECKPOINTS = {
    "leader-epoch-checkpoint": (
        "0\n2\n0 0\n3 120\n",
        ["epoch: 0 startOffset: 0", "epoch: 3 startOffset: 120"],
    ),
    "recovery-point-offset-checkpoint": ("0\n1\na-b 1 7\n", ["topic: a-b partition: 1 offset: 7"]),
    "replication-offset-checkpoint": (
        "0\n1\norders 0 9\n",
        ["topic: orders partition: 0 offset: 9"],
    ),
    "log-start-offset-checkpoint": ("0\n0\n", ["FILE is empty."]),
    "cleaner-offset-checkpoint": ("0\n1\norders 0 9\n", ["topic: orders partition: 0 offset: 9"]),
    "partition.metadata": (
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        ["topicId: AAAAAAAAAAAAAAAAAAAAAQ"],
    ),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_are_printed(folder: Path, name: str) -> None:
    data, lines = CHECKPOINTS[name]
    path = folder / name
    path.write_text(data)
    ran = run("dump", path, "--format", "text")
    first, *shown, end = ran.out.splitlines()
    assert (ran.status, first) == (0, f"Dumping {path}")
    assert shown == [line.replace("FILE", str(path)) for line in lines]
    assert end.endswith(" errors: 0")
    rows = run("dump", path, "--format", "jsonl").lines
    assert {row["type"] for row in rows} <= {name, "end"}


def test_a_checkpoint_has_the_numbers_of_its_lines(folder: Path) -> None:
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n3 120\n")
    row, _ = run("dump", folder / "leader-epoch-checkpoint", "--format", "jsonl").lines
    path = str(folder / "leader-epoch-checkpoint")
    assert row == {"type": "leader-epoch-checkpoint", "epoch": 3, "startOffset": 120, "file": path}


BROKEN = {
    "half an entry": (f"{5:020d}.index", struct.pack(">ii", 1, 60) + b"\0\1", "index-size", 8),
    "entries that fall": (
        f"{5:020d}.index",
        struct.pack(">iiii", 9, 90, 3, 120),
        "index-order",
        8,
    ),
    "times that fall": (
        f"{5:020d}.timeindex",
        struct.pack(">qiqi", 900, 1, 800, 2),
        "time-index-order",
        12,
    ),
    "an unknown version": (
        f"{5:020d}.txnindex",
        struct.pack(">hqqqq", 7, 1, 5, 6, 7),
        "transaction-index-version",
        0,
    ),
    "a wrong CRC": (f"{5:020d}.snapshot", struct.pack(">hIi", 1, 1, 0), "snapshot-readable", 0),
    "no number": ("leader-epoch-checkpoint", b"0\n1\nx 0\n", "checkpoint-readable", 0),
    "epochs that fall": (
        "leader-epoch-checkpoint",
        b"0\n2\n3 0\n1 9\n",
        "leader-epoch-checkpoint-order",
        0,
    ),
    "no topic id": ("partition.metadata", b"version: 0\n", "partition-metadata-readable", 0),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_wrong_is_a_violation(folder: Path, what: str) -> None:
    name, data, rule, position = BROKEN[what]
    path = folder / name
    path.write_bytes(data)
    ran = run("dump", path, "--format", "jsonl")
    (error,) = ran.of("error")
    assert ran.status == 1
    assert (error["rule"], error["position"], error["file"]) == (rule, position, str(path))
    assert (error["topic"], error["partition"]) == ("orders", 0)
    assert ran.of("end")[0]["errors"] == 1
    text = run("dump", path, "--format", "text")
    assert (text.status, f"! error: {rule}: " in text.out) == (1, True)
    quiet = run("dump", path, "--format", "text", "--quiet")
    assert (quiet.status, "!" in quiet.out, "errors: 1" in quiet.out) == (1, False, True)


def test_everything_of_a_partition_can_be_dumped_at_once() -> None:
    partition = next(GOLDEN.glob("kafka-4.3/*-*/"))
    files = sorted(path for path in partition.iterdir() if path.is_file())
    ran = run_here("dump", *files, "--format", "jsonl")
    assert (ran.status, ran.err) == (0, "")
    ends = [json.loads(line) for line in ran.out.splitlines() if '"type":"end"' in line]
    assert [end["file"] for end in ends] == [str(path) for path in files]


@pytest.mark.parametrize("flags", [["--from", "1"], ["--topic", "orders"]])
def test_a_side_file_has_no_part_of_a_range(folder: Path, flags: list[str]) -> None:
    path = folder / f"{0:020d}.index"
    path.write_bytes(b"")
    ran = run_here("dump", path, *flags)
    assert (ran.status, ran.out) == (2, "")
    assert f"{path} is an offset index: dump it without --topic, --partition, " in ran.err


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_a_side_file_that_no_broker_could_read_is_not_read(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"")
    index = folder / "00000000000000000000.index"
    with index.open("wb") as file:
        file.truncate(1 << 40)
    ran = run_here(command, index if command == "dump" else tmp_path)
    assert (ran.status, "side-file-size" in ran.out + ran.err) == (1, True)
    assert str(1 << 40) in ran.out + ran.err
