"""`ottla demo`: a tour of the commands, on a small cluster's logs that it makes."""

import argparse
import os
import shlex
import subprocess
import sys
from typing import Final, NamedTuple

from ottla.jobs.demo import make_logs

_WIDTH: Final = 170
_QUERY: Final = """
    SELECT o.status, COUNT(*) AS orders, ROUND(SUM(o.amount), 2) AS amount
    FROM (SELECT from_json(CAST(value AS STRING), 'status STRING, amount DOUBLE') AS o FROM orders)
    GROUP BY 1 ORDER BY 1"""


class DemoStep(NamedTuple):
    """One command of the tour."""

    about: str
    words: tuple[str, ...]
    lines: int = 12  # of its output; the rest is for whoever runs it


def run(arguments: argparse.Namespace) -> int:
    """Make the data, run each step, end with a page about all of it."""
    logs = os.path.join(arguments.out, "kafka-logs")
    _say(f"Making the logs of a small cluster in {logs}")
    make_logs(logs)
    for step in _steps(logs, arguments.out):
        if failure := _show(step):
            return failure
    _query(logs, arguments.master)
    page = os.path.join(arguments.out, "report.html")
    about = "All of it on one page, with what other codecs and batch sizes would save"
    if failure := _show(DemoStep(about, ("report", "--format", "text", logs, "-o", page))):
        return failure
    _say(f"The data stays in {logs} and the page in {page}: try the commands yourself.")
    return 0


def _steps(logs: str, out: str) -> list[DemoStep]:
    order = os.path.join(logs, "orders-1", "00000000000000000000.log")
    saved, tables = os.path.join(out, "salvaged"), os.path.join(out, "parquet")
    compacted = os.path.join(out, "compacted")
    text = ("--format", "text")
    return [
        DemoStep("What is there, from batch headers alone", ("ls", *text, logs)),
        DemoStep(
            "A transaction that never ended, and the command that would end it",
            ("transactions", *text, "--topic", "orders", logs),
        ),
        DemoStep("One batch, byte by byte", ("inspect", order), 24),
        DemoStep(
            "Records as JSON lines", ("dump", "--format", "jsonl", "--max-messages", "3", order)
        ),
        DemoStep("Every rule on every byte", ("verify", *text, logs)),
        DemoStep(
            "What can be saved of the damaged partition, and what is lost",
            ("salvage", *text, logs, saved, "--topic", "payments"),
        ),
        DemoStep("A topic as Parquet", ("export", logs, tables, "--topic", "orders")),
        DemoStep(
            "What compaction would leave of a topic, and what keeps the rest",
            ("compact", *text, logs, compacted, "--topic", "users", "--explain"),
        ),
    ]


def _show(step: DemoStep) -> int:
    """Run a step; what it found is shown (1), what failed ends the tour."""
    _say(step.about, step.words)
    # A process of its own, as the reader would run it: what it prints is what one gets.
    command = [sys.executable, "-m", "ottla.cli", *step.words]
    output = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if output.returncode > 1:
        print(output.stdout + output.stderr)
        return output.returncode
    lines = (output.stdout + output.stderr).splitlines()
    for line in lines[: step.lines]:
        print(line[:_WIDTH])
    if len(lines) > step.lines:
        print(f"... {len(lines) - step.lines} more lines")
    return 0


def _query(logs: str, master: str | None) -> None:
    _say(
        "The same logs as a table in Spark",
        note='spark.read.format("kafka-log").option("subscribe", "orders").load(...)',
    )
    from ottla.spark.session import run_session

    with run_session("demo", master) as spark:
        table = spark.read.format("kafka-log").option("subscribe", "orders").load(logs)
        table.createOrReplaceTempView("orders")
        spark.sql(_QUERY).show()


def _say(about: str, words: tuple[str, ...] = (), *, note: str = "") -> None:
    print(f"\n== {about}", flush=True)
    if words or note:
        print(f"$ {note or shlex.join(('ottla', *words))}", flush=True)
