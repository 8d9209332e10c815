"""`ottla demo`: a tour of the commands, on a small cluster's logs that it makes."""

import argparse
import os
import shlex
import sys
from typing import Any, Final, NamedTuple

from ottla.jobs.demo import DAMAGED, make_logs

_QUERY: Final = """
    SELECT o.status, COUNT(*) AS orders, ROUND(SUM(o.amount), 2) AS amount
    FROM (SELECT from_json(CAST(value AS STRING), 'status STRING, amount DOUBLE') AS o FROM orders)
    GROUP BY 1 ORDER BY 1"""


class Step(NamedTuple):
    """One command of the tour."""

    about: str
    words: tuple[str, ...]
    lines: int = 12  # of its output; the rest is for whoever runs it


def add_parser(subparsers: Any, summary: str) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "demo",
        help=summary,
        description="Make the log directory of a small cluster and show on it what Ottla does.",
        epilog="example: ottla demo --out demo-out",
    )
    parser.add_argument("--out", default="demo-out", help="where to leave the data (%(default)s)")
    parser.add_argument("--master", help="Spark master URL (default: local[*])")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Make the data, run each step, end in a Spark job."""
    logs = os.path.join(arguments.out, "kafka-logs")
    _say(f"Making the logs of a small cluster in {logs}")
    make_logs(logs)
    for step in _steps(logs):
        _show(step)
    _query(logs, arguments.master)
    _say(f"The data stays in {logs}: try the commands yourself.")
    return 0


def _steps(logs: str) -> list[Step]:
    order = os.path.join(logs, "orders-1", "00000000000000000000.log")
    damaged = os.path.join(logs, DAMAGED, "00000000000000000000.log")
    return [
        Step("What is there, from batch headers alone", ("ls", "--format", "text", logs)),
        Step(
            "A transaction that never ended, and the command that would end it",
            ("transactions", "--format", "text", "--topic", "orders", logs),
        ),
        Step("One batch, byte by byte", ("inspect", order), 24),
        Step("Records as JSON lines", ("dump", "--format", "jsonl", "--max-messages", "3", order)),
        Step(
            "A damaged segment: every bad batch is named, and reading goes on",
            ("dump", "--format", "jsonl", "--no-records", damaged),
        ),
    ]


def _show(step: Step) -> None:
    _say(step.about, step.words)
    # A process of its own, as the reader would run it: what it prints is what one gets.
    import subprocess

    command = [sys.executable, "-m", "ottla.cli", *step.words]
    output = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    lines = (output.stdout + output.stderr).splitlines()
    shown = [line for line in lines if '"type":"batch"' not in line] if len(lines) > 60 else lines
    for line in shown[: step.lines]:
        print(line[:160])
    if len(shown) > step.lines:
        print(f"... {len(shown) - step.lines} more lines")


def _query(logs: str, master: str | None) -> None:
    _say(
        "The same logs as a table in Spark",
        note='spark.read.format("kafka-log").option("subscribe", "orders").load(...)',
    )
    from ottla.spark.session import start_session

    spark = start_session("demo", master)
    try:
        table = spark.read.format("kafka-log").option("subscribe", "orders").load(logs)
        table.createOrReplaceTempView("orders")
        spark.sql(_QUERY).show()
    finally:
        spark.stop()


def _say(about: str, words: tuple[str, ...] = (), *, note: str = "") -> None:
    print(f"\n== {about}", flush=True)
    if words or note:
        print(f"$ {note or shlex.join(('ottla', *words))}", flush=True)
