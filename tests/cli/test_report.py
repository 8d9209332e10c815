"""`ottla report`: the page and the lines of one run are the same report."""

import base64
import json
import re
import shlex
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from cli.here import run
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


def unpacked(tables: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that a page holds as columns."""
    return [
        each["same"] | {name: values[at] for name, values in each["columns"].items()}
        for each in tables.values()
        for at in range(each["count"])
    ]


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
    [held] = re.findall(r'<script type="text/plain" id="rows">(.*?)</script>', page)
    tables = json.loads(zlib.decompress(base64.b64decode(held)))
    assert unpacked(tables) == sorted(rows, key=lambda row: [*tables].index(row["type"]))
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)  # nothing is fetched
    assert len(page) < 1_500_000


def test_text_begins_with_health_goes_on_with_sizes_and_fits_80_columns(folder: Path) -> None:
    logs, page = folder / "kafka-logs", folder / "report.html"
    ran = run("report", logs, "--format", "text", "-o", page)
    assert ran.status == 1, ran.err  # payments is damaged
    lines = ran.out.splitlines()
    assert lines[0].startswith("2 of 9 partitions need attention: payments-0 (errors)")
    verdict = next(at for at, line in enumerate(lines) if line.startswith("zstd would save"))
    assert any("crc-matches" in line for line in lines[:verdict])
    assert re.search(r"^users +.*KiB +10000 .*KiB +\d+\.\d %", "\n".join(lines[verdict:]), re.M)
    assert lines[-1] == f"{page} has the rest."
    # Of paths alone the reader decides how long they are.
    assert max(len(line) for line in lines if str(folder) not in line) <= 80


def test_a_command_that_is_too_long_is_cut_as_a_shell_puts_it_together(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    words = ["ottla", "salvage", "/data/" + "d" * 50, "OUT", "--topic", "my topic", "--partition"]
    finding = {
        "type": "finding",
        "severity": "error",
        "topic": "my topic",
        "partition": 0,
        "rule": "crc-matches",
        "count": 1,
        "meaning": "The bytes changed after they were written. " * 4,
        "command": shlex.join([*words, "0"]),
    }
    head = {"type": "report", "health": "1 of 1 partitions needs attention.", "saving": None}
    print_report([head, finding], Format.TEXT, None, quiet=False)
    printed = capsysbinary.readouterr().out.decode()
    assert max(map(len, printed.splitlines())) <= 80
    command = printed[printed.index("    ottla") :].split("\n\n")[0]
    assert "\\\n" in command
    echo = ["sh", "-c", f"printf '%s\\n' {command.strip()}"]
    told = subprocess.run(echo, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [*words, "0"]


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
