"""Text unless JSON is asked for, whoever reads it."""

import json
from pathlib import Path

import pytest

from builders import Row, batch
from cli.here import run
from log.generated import write_partition


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write_partition(tmp_path / "logs", "orders-0", 0, batch([Row(0, 1000, b"k", b"v")]))
    return tmp_path / "logs"


@pytest.mark.parametrize("command", ["ls", "dump", "transactions", "verify"])
def test_a_pipe_gets_text_unless_json_is_asked_for(logs: Path, command: str) -> None:
    text = run(command, logs).out
    assert text
    assert not text.startswith("{")
    lines = run(command, logs, "--json", "--quiet").out
    assert lines == run(command, logs, "--format", "jsonl", "--quiet").out
    assert all(json.loads(line) for line in lines.splitlines())


def test_the_format_of_an_export_is_that_of_its_files(logs: Path, tmp_path: Path) -> None:
    assert run("export", logs, tmp_path / "text").out.startswith("PARTITION")
    account = json.loads(run("export", logs, tmp_path / "json", "--json").out)
    assert (account["topic"], account["type"]) == ("orders", "account")
    assert list((tmp_path / "json").rglob("*.parquet"))


def test_a_format_that_there_is_not_gets_the_choices(logs: Path) -> None:
    ran = run("ls", logs, "--format", "json")
    assert ran.status == 2
    assert "Choose text or jsonl" in ran.err
