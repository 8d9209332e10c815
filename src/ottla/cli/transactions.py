"""`ottla transactions`: which transactions are open, what they hold back, and how to end them."""

import argparse
import shlex
import time
from datetime import timedelta

from ottla.cli.job import chosen_logs
from ottla.cli.output import (
    Format,
    flush,
    json_line,
    tell,
    time_text,
    write,
    write_line,
)
from ottla.dump.transactions import TransactionQuery, transaction_rows
from ottla.errors import Row, Severity, Violation


def run(arguments: argparse.Namespace) -> int:
    """Print the transactions; 1 if one hangs or something could not be read."""
    now = arguments.now if arguments.now is not None else time.time_ns() // 1_000_000
    problems: list[Violation] = []
    hanging = 0
    query = TransactionQuery(now, arguments.max_transaction_timeout_ms, arguments.completed)
    for row in transaction_rows(chosen_logs(arguments), query, problems):
        hanging += row["type"] == "partition" and row["hanging"] > 0
        if row["type"] == "open":
            row["abortCommand"] = _abort_command(row)
        if arguments.format is Format.JSONL:
            write(json_line(row))
        else:
            for line in _lines(row):
                write_line(line)
    flush()
    if not arguments.quiet:
        for problem in problems:
            tell(f"{problem.rule.severity}: {problem}; `ottla verify` says more")
    broken = any(problem.rule.severity is Severity.ERROR for problem in problems)
    return int(broken or hanging > 0)


def _abort_command(row: Row) -> str | None:
    """What ends a hanging transaction (TransactionsCommand, KIP-664)."""
    if row["topic"] is None:
        return None
    return (
        'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" abort'
        f" --topic {shlex.quote(row['topic'])} --partition {row['partition']}"
        f" --start-offset {row['firstOffset']}"
    )


def _lines(row: Row) -> list[str]:
    if row["type"] == "partition":
        return _partition_lines(row)
    if row["type"] == "open":
        return _open_lines(row)
    return [
        f"  {row['type']:9} producer {row['producerId']} epoch {row['producerEpoch']}"
        f"  offsets {row['firstOffset']} to {row['lastOffset']}"
        f"  {row['records']} records, {row['bytes']} bytes"
    ]


def _partition_lines(row: Row) -> list[str]:
    title = f"{row['topic']}-{row['partition']}" if row["topic"] is not None else row["path"]
    held = row["endOffset"] - row["lastStableOffset"]
    lines = [
        f"{title}: last stable offset {row['lastStableOffset']} of {row['endOffset']}"
        f"{f' ({held} held back)' if held else ''};"
        f" {row['committed']} committed, {row['aborted']} aborted, {row['empty']} empty,"
        f" {row['open']} open, {row['hanging']} hanging"
    ]
    if row["durationMs"]:
        longest, largest = row["durationMs"], row["bytes"]
        lines.append(
            f"  lasted {_span(longest['median'])} (median), {_span(longest['max'])} (max);"
            f" {largest['median']} bytes (median), {largest['max']} (max)"
        )
    return lines


def _open_lines(row: Row) -> list[str]:
    lines = [
        f"  {'HANGING' if row['hanging'] else 'open':9}"
        f" producer {row['producerId']} epoch {row['producerEpoch']}"
        f"  from offset {row['firstOffset']}  last write {time_text(row['lastTimestamp'])}"
        f" ({_span(row['silentMs'])} ago)"
        f"  {row['records']} records, {row['bytes']} bytes"
        f"{'  holds the last stable offset' if row['blocksLastStableOffset'] else ''}"
    ]
    if row["abortCommand"]:
        lines.append(f"            {row['abortCommand']}")
    return lines


def _span(milliseconds: int) -> str:
    if milliseconds < 0:
        return f"-{_span(-milliseconds)}"
    try:
        return str(timedelta(seconds=milliseconds // 1000))
    except OverflowError:
        return f"{milliseconds} ms"
