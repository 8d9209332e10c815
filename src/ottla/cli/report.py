"""`ottla report`: what is there, how it is and what it would cost otherwise, as a page."""

import argparse
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from ottla.cli.job import chosen_logs, engine_for
from ottla.cli.output import Format, flush, json_line, print_table, write, write_line
from ottla.cli.report_commands import add_commands
from ottla.errors import Row
from ottla.html.page import render_page
from ottla.jobs.report.rows import ReportOptions
from ottla.jobs.report.steps import build_report
from ottla.jobs.report.what_if import all_settings
from ottla.storage.files import move_files, open_output


def run(arguments: argparse.Namespace) -> int:
    """Write the page and print the rows; 1 if there is an error among them."""
    options = ReportOptions(
        price=arguments.price_per_gb_month,
        sample_bytes=arguments.sample_bytes,
        split_bytes=arguments.split_bytes,
        seed=arguments.seed,
        what_if="what-if" not in arguments.without,
        compaction="compaction" not in arguments.without,
    )
    chosen = chosen_logs(arguments)
    now = time.time_ns() // 1_000_000 if arguments.now is None else arguments.now
    sizes = (segment.log.size for each in chosen.partitions for segment in each.segments)
    with engine_for("report", sizes, arguments) as engine, _scratch(arguments.out) as scratch:
        found = build_report(engine, scratch, chosen, options, all_settings(), now)
    rows = add_commands(found, chosen, options, now)
    if arguments.out:
        _write(arguments.out, render_page(rows))
    print_report(rows, arguments.format, arguments.out, quiet=arguments.quiet)
    return int(rows[0]["errors"] > 0)


@contextmanager
def _scratch(out: str | None) -> Iterator[str]:
    """Where tasks leave files for each other: beside the page, else where this machine does."""
    if out is not None:
        yield out
        return
    with TemporaryDirectory(prefix="ottla-") as folder:
        yield os.path.join(folder, "report")


def _write(out: str, page: str) -> None:
    """Write the file under another name first, so that it is there whole or not at all."""
    unfinished = f"{out}.{uuid.uuid4().hex}"
    with open_output(unfinished) as stream:
        stream.write(page.encode("utf-8", "backslashreplace"))
    move_files([(unfinished, os.path.abspath(out) if "://" not in out else out)])


def print_report(rows: Sequence[Row], style: Format, out: str | None, *, quiet: bool) -> None:
    """The lines, which are the data, or what of them a person wants to know without the page."""
    if style is Format.JSONL:
        for row in rows:
            write(json_line(row))
        flush()
        return
    if quiet:
        return
    topics = [row for row in rows if row["type"] == "topic"]
    titles = ("topic", "partitions", "segments", "bytes", "records")
    print_table(
        [*map(str.upper, titles), "BEST", "SAVES"],
        ([*(row[title] for title in titles), *_best(rows, row["topic"])] for row in topics),
    )
    for row in rows:
        if row["type"] == "finding" and row["severity"] == "error":
            where = f"{row['topic']}-{row['partition']}"
            write_line(f"error: {where}: {row['rule']} ({row['count']}): {row['meaning']}")
    if out:
        write_line(f"{out} has the rest.")
    flush()


def _best(rows: Sequence[Row], topic: str) -> tuple[str | None, str | None]:
    """The smallest that a topic becomes in the current format."""
    tried = [
        row
        for row in rows
        if row["type"] == "whatIf" and row["topic"] == topic and row["magic"] == 2
    ]
    if not tried:
        return None, None
    best = min(tried, key=lambda row: row["bytes"])
    level = "" if best["level"] is None else f" {best['level']}"
    saved = best["savedBytes"] / max(1, best["currentBytes"])
    return f"{best['codec']}{level}, batches of {best['batchBytes']}", f"{saved:.1%}"
