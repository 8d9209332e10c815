"""`dump --where` prints the record lines that a full dump has of the records that match."""

import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.command import run, run_json
from where.logs import write_logs
from where.predicates import predicates

TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
BATCH = (
    *("position", "magic", "baseOffset", "partitionLeaderEpoch", "producerId", "producerEpoch"),
    "isTransactional",
)
Line = dict[str, Any]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dump-where")
    write_logs(folder)
    return folder


@pytest.fixture(scope="module")
def lines(logs: Path) -> list[tuple[Line, Line]]:
    """The record lines of a full dump, each with its row; markers are records to a dump."""
    found, around = [], {}
    for line in run_json("dump", logs).lines:
        if line["type"] == "batch":
            around = line
        elif line["type"] == "record":
            found.append((line, row_of(line, around)))
    return found


def row_of(line: Line, around: Line) -> Line:
    topic, _, partition = Path(line["file"]).parent.name.rpartition("-")
    return (
        {name: line[name] for name in ("offset", "timestamp", "sequence")}
        | {name: around[name] for name in BATCH}
        | {
            "key": data(line["key"]),
            "value": data(line["value"]),
            "headers": [(name_of(key), data(value)) for key, value in line["headers"]],
            "timestampType": TYPES[around["timestampType"]],
            "codec": around["codec"].encode(),
            "topic": topic.encode(),
            "partition": int(partition),
            "file": line["file"].encode(),
        }
    )


def name_of(key: str) -> bytes:
    """The name of a header; the only one that is not UTF-8 is the byte 255."""
    return b"\xff" if key == "\ufffd" else key.encode()


def data(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


@settings(max_examples=300, deadline=None)
@given(drawn=st.data())
def test_a_dump_prints_what_matches(
    logs: Path, lines: list[tuple[Line, Line]], drawn: st.DataObject
) -> None:
    clause = drawn.draw(predicates([row for _, row in lines]))
    done = run_json("dump", "--where", clause.text, logs)
    assert done.status == 0
    assert done.of("record") == [line for line, row in lines if clause.meaning(row)]
    assert {(line["file"], line["position"]) for line in done.of("batch")} == {
        (line["file"], line["position"]) for line, row in lines if clause.meaning(row)
    }


@settings(max_examples=20, deadline=None)
@given(drawn=st.data())
def test_a_dump_of_files_as_text_prints_the_same(
    logs: Path, lines: list[tuple[Line, Line]], drawn: st.DataObject
) -> None:
    clause = drawn.draw(predicates([row for _, row in lines]))
    files = sorted(logs.glob("*/*.log"))
    text = run("dump", "--where", clause.text, *files).out
    found = [int(offset) for offset in re.findall(r"^\| offset: ([0-9]+) ", text, re.MULTILINE)]
    by_file = {str(path): [] for path in files}
    for line, row in lines:
        if clause.meaning(row):
            by_file[line["file"]].append(line["offset"])
    assert found == [offset for offsets in by_file.values() for offset in offsets]


def test_records_are_chosen_where_they_are_opened(logs: Path, capsys: Any) -> None:
    assert run("dump", "--where", "offset = 5", "--no-records", logs).status == 2
    assert "--where chooses records, and --no-records opens none" in capsys.readouterr().err
    assert run("dump", "--where", "offset = ", logs).status == 2
    assert "where: offset is compared with a whole number, at its end" in capsys.readouterr().err


def test_stdin_and_single_files_have_no_topic(logs: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "00000000000000000000.log"
    copy.parent.mkdir()
    copy.write_bytes((logs / "odd-3" / "00000000000000000000.log").read_bytes())
    assert len(run_json("dump", "--where", "topic is null and offset < 3", copy).of("record")) == 3
    assert run_json("dump", "--where", "topic <> 'odd'", copy).of("record") == []
