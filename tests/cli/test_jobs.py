"""The commands that run on Spark: examples of their help, exit codes, a terminal and a pipe."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ottla.jobs.demo import make_logs

COMMANDS = ["verify", "salvage", "export", "convert", "restore"]


def ottla(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which `ottla demo --out demo-out` was run."""
    make_logs(str(tmp_path / "demo-out" / "kafka-logs"))
    return tmp_path


def examples(command: str) -> list[list[str]]:
    """The command lines that the help shows, but for making the demo's data."""
    text = ottla(Path.cwd(), command, "--help").stdout.replace("\\\n", " ")
    lines = re.findall(r"^  ottla (.*)$", text, re.MULTILINE)
    assert lines[0] == "demo --out demo-out"
    return [line.split() for line in lines[1:]]


@pytest.mark.spark_long
@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_the_help_work_as_printed(folder: Path, command: str) -> None:
    lines = examples(command)
    assert lines
    for words in lines:
        done = ottla(folder, *words, "--json")
        damaged = "demo-out/kafka-logs" in words and not {"orders", "clicks"} & set(words)
        assert done.returncode == int(damaged), done.stderr
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        last = "log" if "--recovery" in words else "account"
        assert [row for row in rows if row["type"] == last]
        assert "%" not in done.stderr


@pytest.mark.spark_long
def test_violations_go_to_a_parquet_file(folder: Path) -> None:
    done = ottla(folder, "verify", "demo-out/kafka-logs", "--quiet", "--out", "found.parquet")
    assert (done.returncode, done.stdout) == (1, "")
    found = pq.read_table(folder / "found.parquet").to_pylist()
    assert {(row["topic"], row["severity"]) for row in found} >= {("payments", "error")}
    assert {row["topic"] for row in found} == {"payments"}


@pytest.mark.spark_long
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["verify", "--account"], id="verify"),
        pytest.param(["salvage", "out"], id="salvage"),
        pytest.param(["export", "out", "--split-bytes", "100k"], id="export"),
        pytest.param(["convert", "out", "--codec", "zstd"], id="convert"),
        pytest.param(["restore", "out"], id="restore"),
    ],
)
def test_a_terminal_shows_a_bar_and_a_table(folder: Path, words: list[str]) -> None:
    words = [words[0], "demo-out/kafka-logs", *words[1:], "--topic", "orders"]
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "ottla.cli", *words]
    process = subprocess.Popen(command, cwd=folder, stdout=slave, stderr=slave, stdin=slave)
    os.close(slave)
    shown = b""
    while process.poll() is None or shown[-1:] != b"\n":
        try:
            shown += os.read(master, 65536)
        except OSError:
            break
    assert process.wait() == 0
    assert b"orders-2" in shown
    assert re.search(rb"\d+/\d+\.\d+\s[kM]B|[\d.]+/[\d.]+ [kM]B", shown)
    assert re.search(rb"\d:\d\d:\d\d", shown)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["verify", "nowhere"], "nowhere", id="no-path"),
        pytest.param(["verify", "demo-out", "--out", "x.csv"], ".parquet", id="out"),
        pytest.param(["restore", "demo-out", "o", "--to", "soon"], "is not an offset", id="time"),
        pytest.param(["restore", "demo-out", "o", "--rename", "a=b"], "no such topic", id="rename"),
        pytest.param(["convert", "demo-out", "o", "--set", "a=b"], "NAME is one of", id="set"),
        pytest.param(
            ["convert", "demo-out", "o", "--split-bytes", "foo"],
            "'foo' is not a positive size such as",
            id="size",
        ),
        pytest.param(
            ["export", "demo-out", "o", "--topic", "t"], "no topic t in demo-out", id="topic"
        ),
    ],
)
def test_wrong_usage_is_said_before_spark_starts(
    folder: Path, words: list[str], message: str
) -> None:
    done = ottla(folder, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spark_long
def test_a_spark_that_does_not_start_is_wrong_usage(folder: Path) -> None:
    done = ottla(folder, "verify", "demo-out/kafka-logs", "--master", "local[few]")
    assert done.returncode == 2
    assert "ottla: Spark does not start on local[few]: " in done.stderr
    assert "Traceback" not in done.stderr
