"""`ottla report`: what is there, how it is and what it would cost otherwise, as a page."""

import argparse
import shlex
import time
from collections.abc import Sequence
from textwrap import wrap
from typing import Final

from ottla.cli.job import chosen_logs, engine_for, tell_remote
from ottla.cli.output import (
    WIDTH,
    Format,
    ShowSize,
    flush,
    json_line,
    print_table,
    write,
    write_line,
)
from ottla.cli.report_commands import add_commands
from ottla.cli.scratch import scratch_beside
from ottla.cli.table import Column, number
from ottla.errors import Row
from ottla.html.page import render_page
from ottla.jobs.report.rows import ReportOptions
from ottla.jobs.report.steps import build_report
from ottla.jobs.report.verdict import leading_rows
from ottla.jobs.report.what_if import all_settings
from ottla.options.texts import format_bytes
from ottla.storage.conditional_put import require_client
from ottla.storage.paths import is_remote
from ottla.storage.writing import open_whole

_GB: Final = 1_000_000_000
_MOST: Final = 10  # findings, and transactions
_SECONDS: Final = ("writeSeconds", "readSeconds")  # never unknown of what has the current format


def run(arguments: argparse.Namespace) -> int:
    """Write the page and print the rows; 1 if there is an error among them."""
    options = ReportOptions(
        price=arguments.price_per_gb_month,
        sample_bytes=arguments.sample_bytes,
        split_bytes=arguments.split_bytes,
        seed=arguments.seed,
        what_if="what-if" not in arguments.without,
        compaction="compaction" not in arguments.without,
        compacted=tuple(arguments.compacted),
    )
    if arguments.out and is_remote(arguments.out):
        require_client(arguments.out)  # not after all the work
    chosen = chosen_logs(arguments)
    tell_remote(chosen, quiet=arguments.quiet)
    now = time.time_ns() // 1_000_000 if arguments.now is None else arguments.now
    sizes = (segment.log.size for each in chosen.partitions for segment in each.segments)
    with engine_for("report", sizes, arguments) as engine, scratch_beside(arguments.out) as scratch:
        found = build_report(engine, scratch, chosen, options, all_settings(), now)
    rows = add_commands(found, chosen, options, now)
    if arguments.out:
        _write(arguments.out, render_page(rows))
    show_size = arguments.show_size
    print_report(rows, arguments.format, arguments.out, quiet=arguments.quiet, show_size=show_size)
    return int(rows[0]["errors"] > 0)


def _write(out: str, page: str) -> None:
    with open_whole(out) as stream:
        stream.write(page.encode("utf-8", "backslashreplace"))


def print_report(
    rows: Sequence[Row],
    style: Format,
    out: str | None,
    *,
    quiet: bool,
    show_size: ShowSize = format_bytes,
) -> None:
    """The lines, which are the data, or what of them a person wants to know without the page."""
    if style is Format.JSONL:
        for row in rows:
            write(json_line(row))
        flush()
        return
    if quiet:
        return
    _print_health(rows)
    _print_topics(rows, show_size)
    if out:
        write_line(f"{out} has the rest.")
    flush()


def _print_health(rows: Sequence[Row]) -> None:
    """The verdict, then what it is about; the page and `ottla verify` have all of it."""
    _print_filled(rows[0]["health"])
    found = [row for row in rows if row["type"] == "finding" and row["severity"] != "note"]
    for row in found[:_MOST]:
        place = "" if row["topic"] is None else f"{row['topic']}-{row['partition']}: "
        head = f"{row['severity']}: {place}{row['rule']} ({row['count']}): {row['meaning']}"
        _print_filled(head, indent="  ")
        _print_command(row["command"])
    hanging = [row for row in rows if row["type"] == "openTransaction" and row["hanging"]]
    for row in hanging[:_MOST]:
        held = f"{row['topic']}-{row['partition']}: {row['heldBack']} offsets held back"
        _print_filled(f"hanging transaction: {held} by producer {row['producerId']}", indent="  ")
    if hanging:
        _print_command(rows[0]["commands"]["transactions"])
    if left := len(found[_MOST:]) + len(hanging[_MOST:]):
        write_line(f"  and {left} more")
    write_line("")


def _print_topics(rows: Sequence[Row], show_size: ShowSize) -> None:
    """Sizes, and what zstd would make of them."""
    if rows[0]["saving"] is not None:
        _print_filled(rows[0]["saving"])
    leading = leading_rows(rows)
    topics = [row for row in rows if row["type"] == "topic"]
    zstd = (("ZSTD", 0), ("SAVES", 0), ("WRITE/GB", 3), ("READ/GB", 2)) if leading else ()
    print_table(
        [
            Column("TOPIC"),
            number("PARTITIONS", 4),
            number("SIZE"),
            number("RECORDS", 1),
            *(number(title, rank) for title, rank in zstd),
        ],
        (
            [row["topic"], row["partitions"], show_size(row["bytes"]), row["records"]]
            + (_with_zstd(row, leading.get(row["topic"]), show_size) if leading else [])
            for row in topics
        ),
    )
    if leading:
        write_line("")
        write_line("WRITE/GB, READ/GB: CPU time of zstd for 1 GB of keys, values and headers.")


def _with_zstd(topic: Row, tried: Row | None, show_size: ShowSize) -> list[str | None]:
    if tried is None:
        return [None] * 4
    share = tried["savedBytes"] / max(1, tried["currentBytes"])
    write, read = (tried[name] * _GB / max(1, topic["recordBytes"]) for name in _SECONDS)
    return [show_size(tried["bytes"]), f"{100 * share:.1f} %", f"{write:.1f} s", f"{read:.1f} s"]


def _print_filled(text: str, indent: str = "") -> None:
    for line in wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    ):
        write_line(line)


def _print_command(command: str) -> None:
    """On lines that a shell takes for one; a word that is longer stays whole."""
    lines: list[str] = []
    for word in map(shlex.quote, shlex.split(command)):
        if lines and len(lines[-1]) + len(word) < WIDTH - 6:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    for line in lines[:-1]:
        write_line(f"    {line} \\")
    write_line(f"    {lines[-1]}")
