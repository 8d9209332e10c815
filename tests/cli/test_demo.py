"""`ottla demo` from end to end: every section shows something, with Spark and without."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.jobs.demo import make_logs

# A section: what it is about, the command or the code, and what is printed below it.
SECTION = re.compile(r"^== (.*)\n\$ (.*)\n((?:(?!== ).*\n)*)", re.MULTILINE)
SHOWN = ("ls", "verify", "transactions", "groups", "topics", "inspect", "dump")
WORKS = ("salvage", "verify", "compact", "compact", "report")


def run(*words: object, folder: Path, **changes: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder,
        env=os.environ | changes,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_without_java_every_section_but_those_on_spark_shows_something(tmp_path: Path) -> None:
    shown = run("-m", "ottla.cli", "demo", folder=tmp_path, JAVA_HOME=str(tmp_path))
    sections = SECTION.findall(shown)
    assert [command.split()[1] for _, command, _ in sections] == [*SHOWN, *WORKS]
    assert all(output.strip() for _, _, output in sections)
    assert "on Spark and is left out: it needs Java 17 or newer, and there is no java" in shown
    assert (tmp_path / "demo-out" / "report.html").exists()


PIPELINE = """
import sys
from ottla.cli.demo import show_pipeline

sys.exit(show_pipeline("kafka-logs", ".", "local[2]"))
"""


@pytest.mark.spark_long
def test_the_pipeline_verifies_exports_queries_and_writes_logs_again(tmp_path: Path) -> None:
    make_logs(str(tmp_path / "kafka-logs"))
    shown = run("-c", PIPELINE, folder=tmp_path)
    verify, export, query, stream, ls = SECTION.findall(shown)
    assert "payments-0" in verify[2]
    assert "orders" in export[2]
    assert list((tmp_path / "parquet").rglob("*.parquet"))
    counts = dict(re.findall(r"\|\s*(\w+)\|\s*(\d+)\|", query[2]))
    assert {*counts} == {"paid", "placed", "returned", "shipped"}
    assert stream[2].strip() == ""
    assert "returns-2" in ls[2]
    lines = run("-m", "ottla.cli", "dump", "streamed", "--format", "jsonl", folder=tmp_path)
    records = [line for line in lines.splitlines() if '"type":"record"' in line]
    assert len(records) == int(counts["returned"])
