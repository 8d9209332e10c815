"""`ottla transactions`: which transactions are open, what they hold back, and how to end them."""

import argparse
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from ottla.catalog.chosen import ChosenLogs
from ottla.cli.colours import Emphasis, Part, Styled, by_severity
from ottla.cli.job import chosen_logs
from ottla.cli.output import (
    Format,
    ShowSize,
    flush,
    json_line,
    short_time,
    tell,
    write,
    write_line,
)
from ottla.cli.partitions import titles_of
from ottla.dump.transactions import TransactionQuery, transaction_rows
from ottla.errors import Row, Severity, Violation
from ottla.format.names import HIGH_WATERMARK_CHECKPOINT
from ottla.options.texts import counted, few

Lines = Iterator[list[Part]]
_ENDED: Final = ("committed", "aborted", "empty")
_DAY_MS: Final = 24 * 60 * 60 * 1000
_INDENT: Final = " " * 11
_TOPIC_FLAG: Final = " --topic "


def run(arguments: argparse.Namespace) -> int:
    """Print the transactions; 1 if one hangs or something could not be read."""
    now = arguments.now if arguments.now is not None else time.time_ns() // 1_000_000
    problems: list[Violation] = []
    query = TransactionQuery(now, arguments.max_transaction_timeout_ms, arguments.completed)
    chosen = chosen_logs(arguments)
    partitions = _print_rows(transaction_rows(chosen, query, problems), chosen, arguments)
    flush()
    if not arguments.quiet:
        for problem in problems:
            severity = problem.rule.severity
            tell(by_severity(severity, severity), f": {problem}; `ottla verify` says more")
    broken = any(problem.rule.severity is Severity.ERROR for problem in problems)
    return int(broken or any(row["hanging"] for row in partitions))


def _print_rows(
    rows: Iterable[Row], chosen: ChosenLogs, arguments: argparse.Namespace
) -> list[Row]:
    """Print all, or in text what is open and how much else there is; the rows of partitions."""
    titles, partitions = titles_of(chosen.partitions), list[Row]()
    for row in rows:
        if row["type"] == "partition":
            partitions.append(row)
        if row["type"] == "open":
            row["abortCommand"] = _abort_command(row)
        if arguments.format is Format.JSONL:
            write(json_line(row))
        elif arguments.all or arguments.completed or partitions[-1]["open"]:
            for parts in _lines(row, titles[row["path"]], arguments.show_size):
                write_line(*parts)
    if arguments.format is Format.TEXT and not arguments.quiet:
        _summarize(partitions, titles)
    return partitions


def _abort_command(row: Row) -> str | None:
    """What ends a hanging transaction (TransactionsCommand, KIP-664)."""
    if row["topic"] is None:
        return None
    return (
        'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" abort'
        f" --topic {shlex.quote(row['topic'])} --partition {row['partition']}"
        f" --start-offset {row['firstOffset']}"
    )


def _lines(row: Row, title: str, show_size: ShowSize) -> Lines:
    if row["type"] == "partition":
        return _partition_lines(row, title, show_size)
    if row["type"] == "open":
        return _open_lines(row, show_size)
    return _ended_lines(row, show_size)


def _ended_lines(row: Row, show_size: ShowSize) -> Lines:
    yield [
        f"  {row['type']:9} producer {row['producerId']} epoch {row['producerEpoch']},"
        f" offsets {row['firstOffset']} to {row['lastOffset']},"
        f" {counted(row['records'], 'record')}, {show_size(row['bytes'])}"
    ]


def _partition_lines(row: Row, title: str, show_size: ShowSize) -> Lines:
    yield [
        Styled(title, Emphasis.TITLE),
        f": last stable offset {row['lastStableOffset']} of {row['endOffset']}{_held_back(row)}",
    ]
    yield [f"  {', '.join(f'{row[kind]} {kind}' for kind in (*_ENDED, 'open', 'hanging'))}"]
    if row["durationMs"]:
        spans, sizes = row["durationMs"], row["bytes"]
        yield [
            f"  lasted {_span(spans['median'])} (median), {_span(spans['max'])} (max);"
            f" {show_size(sizes['median'])} (median), {show_size(sizes['max'])} (max)"
        ]


def _held_back(row: Row) -> str:
    if row["heldBackBy"] is None:
        return ""
    held = f"{row['endOffset'] - row['lastStableOffset']} held back"
    if row["heldBackBy"] == "transaction":
        return f" ({held})"
    return f" ({held} by the high watermark {row['highWatermark']} in {HIGH_WATERMARK_CHECKPOINT})"


def _open_lines(row: Row, show_size: ShowSize) -> Lines:
    is_hanging = row["hanging"]
    word = Styled("HANGING", Emphasis.ERROR) if is_hanging else Styled("open   ", Emphasis.WARNING)
    yield [
        *("  ", word),
        f"  producer {row['producerId']} epoch {row['producerEpoch']},"
        f" from offset {row['firstOffset']},"
        f" {counted(row['records'], 'record')}, {show_size(row['bytes'])}",
    ]
    holds = ", holds the rest back" if row["blocksLastStableOffset"] else ""
    since = short_time(row["lastTimestamp"])
    yield [f"{_INDENT}silent for {_span(row['silentMs'])} (since {since}){holds}"]
    # One that is merely open will end by itself.
    if is_hanging and row["abortCommand"]:
        tool, _, flags = row["abortCommand"].partition(_TOPIC_FLAG)
        yield [f"{_INDENT}{tool} \\"]
        yield [f"{_INDENT} {_TOPIC_FLAG}{flags}"]


def _summarize(rows: Sequence[Row], titles: Mapping[str, str]) -> None:
    """What is open in all partitions, and how many others there are."""
    whole = counted(len(rows), "partition")
    places = [titles[row["path"]] for row in rows if row["open"]]
    if places:
        write_line(*_open_counts(rows), f" in {len(places)} of {whole} ({few(places)}).")
    else:
        write_line(f"No open transactions in {whole}.")
    ended = ", ".join(f"{sum(row[each] for row in rows):,} {each}" for each in _ENDED)
    write_line(f"Ended: {ended}.")
    behind = [row for row in rows if row["heldBackBy"] == "highWatermark"]
    if behind:
        held = counted(sum(row["endOffset"] - row["lastStableOffset"] for row in behind), "offset")
        those = counted(len(behind), "partition")
        write_line(f"{held} of {those} are above the checkpoint of the high watermark.")


def _open_counts(rows: Sequence[Row]) -> list[Part]:
    hanging = sum(row["hanging"] for row in rows)
    others = sum(row["open"] for row in rows) - hanging
    parts: list[Part] = [Styled(f"{hanging} hanging", Emphasis.ERROR)] if hanging else []
    parts += [", "] if hanging and others else []
    parts += [Styled(f"{others} open", Emphasis.WARNING)] if others else []
    return parts


def _span(milliseconds: int) -> str:
    """
    >>> _span(7_500), _span(-7_500), _span(100_000_000)
    ('0:00:07', '-0:00:07', '1 day')
    """
    if milliseconds < 0:
        return f"-{_span(-milliseconds)}"
    days = milliseconds // _DAY_MS
    return counted(days, "day") if days else str(timedelta(seconds=milliseconds // 1000))
