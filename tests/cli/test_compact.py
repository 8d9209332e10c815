"""`ottla compact` as it is run: the examples of its help, and words that make no sense."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from cli.test_jobs import ottla
from ottla.jobs.demo import make_logs


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the command says beside its answer, and beside what runs it."""
    return [line for line in done.stderr.splitlines() if " runs in this process: " not in line]


def test_the_examples_of_the_help_work_as_printed(tmp_path: Path) -> None:
    make_logs(str(tmp_path / "demo-out" / "kafka-logs"))
    text = ottla(tmp_path, "compact", "--help").stdout
    first, second = (
        line.split() for line in re.findall(r"^  ottla (compact .*)$", text, re.MULTILINE)
    )
    done = ottla(tmp_path, *first, "--json")
    assert (done.returncode, said(done)) == (0, [])
    account = json.loads(done.stdout)
    assert account["writtenRecords"] == 1000 < account["readRecords"]
    done = ottla(tmp_path, *second, "--json")
    assert (done.returncode, said(done)) == (0, [])
    row = json.loads(done.stdout)
    assert (row["type"], row["topic"]) == ("compaction", "users")
    assert "active segment" in [each["cause"] for each in row["obstacles"]]
    text = ottla(tmp_path, *second).stdout
    assert "users-0: active segment" in text


def test_a_log_that_stops_the_cleaner_is_explained_and_ends_with_1(tmp_path: Path) -> None:
    make_logs(str(tmp_path / "logs"))
    words = ["compact", "logs", "out", "--topic", "payments", "--topic", "users", "--explain"]
    done = ottla(tmp_path, *words, "--include-active", "--json")
    assert (done.returncode, said(done)) == (1, [])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    stops = [row["stoppedBy"] for row in rows if row["topic"] == "payments"]
    assert any("crc-matches" in (error or "") for error in stops)
    [users] = [row for row in rows if row["topic"] == "users"]
    assert (users["stoppedBy"], users["remainingRecords"]) == (None, 1000)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--now", "noon"], "'noon' is not a time such as @2025-10-09T08:53:20Z"),
        (["--delete-retention-ms", "1d"], "'1d' is no number of milliseconds"),
        (["--topic", "nothing"], "no topic nothing"),
    ],
)
def test_wrong_words_are_refused(tmp_path: Path, words: list[str], message: str) -> None:
    folder = tmp_path / "logs" / "t-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(b"")
    done = ottla(tmp_path, "compact", "logs", "out", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "out").exists()
