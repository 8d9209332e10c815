"""`ottla demo`: a tour of the commands, on a small cluster's logs that it makes."""

import argparse
import os
import shlex
import subprocess
import sys
from typing import Any, Final, NamedTuple

from ottla.cli import main
from ottla.engines import find_lacking
from ottla.jobs.demo import make_logs

_WIDTH: Final = 170
_TEXT: Final = ("--format", "text")
_QUERY: Final = """
    SELECT o.status, COUNT(*) AS orders, ROUND(SUM(o.amount), 2) AS amount
    FROM (SELECT from_json(CAST(value AS STRING), 'status STRING, amount DOUBLE') AS o FROM orders)
    GROUP BY 1 ORDER BY 1"""
_RETURNED: Final = "get_json_object(CAST(value AS STRING), '$.status') = 'returned'"
_READ: Final = 'spark.read.format("kafka-log").option("subscribe", "orders")'
_WRITE: Final = 'returned.writeStream.format("kafka-log").option("topic", "returns")'
_NEEDS: Final = "docs/spark.md says what Spark needs"


class DemoStep(NamedTuple):
    """One command of the tour."""

    about: str
    words: tuple[str, ...]
    lines: int = 12  # of its output; the rest is for whoever runs it


def run(arguments: argparse.Namespace) -> int:
    """Make the data, show each command on it, then all of them at work together on Spark."""
    logs = os.path.join(arguments.out, "kafka-logs")
    if arguments.no_tour:
        make_logs(logs)
        print(f"The logs are in {logs}.")
        return 0
    _say(f"Making the logs of a small cluster in {logs}")
    make_logs(logs)
    for step in _steps(logs, arguments.out):
        if failure := _show(step):
            return failure
    if failure := show_pipeline(logs, arguments.out, arguments.master):
        return failure
    page = os.path.join(arguments.out, "report.html")
    _say(f"The data stays in {logs} and the page in {page}: try the commands yourself.")
    return 0


def _steps(logs: str, out: str) -> list[DemoStep]:
    return [*_looks(logs), *_works(logs, out)]


def _looks(logs: str) -> list[DemoStep]:
    order = os.path.join(logs, "orders-1", "00000000000000000000.log")
    return [
        DemoStep("What is there, from batch headers alone", ("ls", *_TEXT, logs)),
        DemoStep("Every rule on every byte", ("verify", *_TEXT, logs), 20),
        DemoStep(
            "A transaction that never ended, and the command that would end it",
            ("transactions", *_TEXT, "--topic", "orders", logs),
        ),
        DemoStep("Who reads these topics, and who waits for that", ("groups", *_TEXT, logs)),
        DemoStep("The topics as the cluster knows them", ("topics", *_TEXT, logs)),
        DemoStep("One batch, byte by byte", ("inspect", order), 24),
        DemoStep("Its first records", ("dump", *_TEXT, "--max-messages", "3", order)),
    ]


def _works(logs: str, out: str) -> list[DemoStep]:
    saved, cleaned = os.path.join(out, "salvaged"), os.path.join(out, "cleaned")
    users = ("--topic", "users")
    return [
        DemoStep(
            "What can be saved of the damaged partition, and what is lost",
            ("salvage", *_TEXT, logs, saved, "--topic", "payments"),
        ),
        DemoStep("What was saved is sound", ("verify", *_TEXT, saved)),
        DemoStep(
            "What compaction would leave of a topic, and what keeps the rest",
            ("compact", *_TEXT, logs, cleaned, *users, "--explain"),
        ),
        DemoStep("The same, done", ("compact", *_TEXT, logs, cleaned, *users)),
        DemoStep(
            "All of it on one page, with what other codecs and batch sizes would save",
            ("report", *_TEXT, logs, "-o", os.path.join(out, "report.html")),
        ),
    ]


def _show(step: DemoStep) -> int:
    """Run a step; what it found is shown (1), what failed ends the tour."""
    _say(step.about, step.words)
    # A process of its own, as the reader would run it: what it prints is what one gets.
    command = [sys.executable, "-m", "ottla.cli", *step.words]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if output.returncode > 1:
        print(output.stdout)
        return output.returncode
    lines = output.stdout.splitlines()
    for line in lines[: step.lines]:
        print(line[:_WIDTH])
    if len(lines) > step.lines:
        print(f"... {len(lines) - step.lines} more lines")
    return 0


def show_pipeline(logs: str, out: str, master: str | None) -> int:
    """The engine for what is larger, on the same logs: two jobs, a query and a stream."""
    if lacking := find_lacking():
        _say(f"The rest of the tour is on Spark and is left out: {lacking} ({_NEEDS})")
        return 0
    spark = ("--engine", "spark") if master is None else ("--master", master)
    tables = os.path.join(out, "parquet")
    steps = [
        DemoStep("On Spark, as for terabytes: verify", ("verify", *_TEXT, logs, *spark)),
        DemoStep("A topic as Parquet", ("export", logs, tables, "--topic", "orders", *spark)),
    ]
    for step in steps:
        _say(step.about, step.words)
        # In this process: its JVM is started once.
        if (failure := main(step.words)) > 1:
            return failure
    from ottla.spark.start import run_session

    copy = os.path.join(out, "streamed")
    with run_session("demo", master) as session:
        _query(session, logs)
        _stream(session, logs, copy)
    return _show(DemoStep("What the stream wrote is a log directory", ("ls", *_TEXT, copy)))


def _query(spark: Any, logs: str) -> None:
    _say("The same logs as a table", note=f'{_READ}.load("{logs}")')
    table = spark.read.format("kafka-log").option("subscribe", "orders").load(logs)
    table.createOrReplaceTempView("orders")
    spark.sql(_QUERY).show()


def _stream(spark: Any, logs: str, copy: str) -> None:
    """Follow the topic, and write the orders that came back to a topic of their own."""
    _say("The same logs as a stream, and a stream as logs", note=f'{_WRITE}.start("{copy}")')
    orders = spark.readStream.format("kafka-log").option("startingOffsets", "earliest")
    returned = orders.option("subscribe", "orders").load(logs).where(_RETURNED)
    query = (
        returned.writeStream.format("kafka-log")
        .option("topic", "returns")
        .option("numPartitions", 3)
        .option("codec", "zstd")
        .option("checkpointLocation", f"{copy}.checkpoint")
        .trigger(availableNow=True)
        .start(copy)
    )
    query.awaitTermination()


def _say(about: str, words: tuple[str, ...] = (), *, note: str = "") -> None:
    print(f"\n== {about}", flush=True)
    if words or note:
        print(f"$ {note or shlex.join(('ottla', *words))}", flush=True)
