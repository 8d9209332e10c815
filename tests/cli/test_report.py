"""`ottla report`: the page and the lines of one run are the same report."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.output import Format
from ottla.cli.report import print_report
from ottla.jobs.demo import make_logs


def ottla(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli", "report", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_logs(str(tmp_path / "kafka-logs"))
    return tmp_path


@pytest.mark.spark_long
def test_a_page_and_lines_of_all_topics(folder: Path) -> None:
    words = ["kafka-logs", "-o", "report.html", "--format", "jsonl", "--without", "what-if"]
    done = ottla(folder, *words)
    assert done.returncode == 1, done.stderr  # payments is damaged
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0]["type"] == "report"
    logs = list((folder / "kafka-logs").rglob("*.log"))
    assert rows[0]["bytes"] == sum(log.stat().st_size for log in logs)
    assert {row["topic"] for row in rows if row["type"] == "finding"} == {"payments"}
    page = (folder / "report.html").read_text()
    [held] = re.findall(r'<script type="application/json" id="rows">(.*?)</script>', page)
    assert json.loads(held) == rows
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)  # nothing is fetched
    assert len(page) < 1_500_000


@pytest.mark.spark_long
def test_text_says_what_is_best_and_where_the_page_is(folder: Path) -> None:
    words = ["kafka-logs", "--topic", "users", "--format", "text", "-o", "users.html"]
    done = ottla(folder, *words)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^users +1 +1 +\d+ +10000 .*%$", done.stdout, re.MULTILINE)
    assert "users.html has the rest." in done.stdout


def test_quiet_leaves_out_the_table_but_not_the_lines(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    rows = [{"type": "report", "errors": 0}]
    print_report(rows, Format.TEXT, "report.html", quiet=True)
    assert capsysbinary.readouterr().out == b""
    print_report(rows, Format.JSONL, "report.html", quiet=True)
    assert json.loads(capsysbinary.readouterr().out) == rows[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--price-per-gb-month", "-1"], "a price of -1.0", id="price"),
        pytest.param(["--sample-bytes", "0"], "sample", id="sample"),
    ],
)
def test_wrong_usage_is_told_before_spark_starts(
    tmp_path: Path, words: list[str], message: str
) -> None:
    done = ottla(tmp_path, str(tmp_path), *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
