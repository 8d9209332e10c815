"""`ottla groups`: what groups had committed, and how far behind the logs at hand they were."""

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from typing import Final

import pyarrow.compute as pc

from ottla.catalog.catalog import list_catalog
from ottla.catalog.missing import require_topics
from ottla.cli.colours import Emphasis, Styled
from ottla.cli.job import choice_of, storage_of
from ottla.cli.output import (
    Format,
    encode_text,
    flush,
    json_line,
    print_table,
    short_time,
    tell,
    write,
    write_line,
)
from ottla.cli.partitions import name_of
from ottla.cli.table import Cell, Column, number
from ottla.dump.committed import with_lag
from ottla.errors import OptionError, Row
from ottla.format.names import TopicPartition, natural_order
from ottla.internal.views import VIEWS
from ottla.jobs.read.internal_topics import Contents, find_internal_topic, read_current
from ottla.options.choice import EVERY_PARTITION, Choice
from ottla.options.texts import counted

_OFFSET_COLUMNS: Final = (
    Column("GROUP"),
    Column("PARTITION"),
    number("OFFSET"),
    number("LOG END", rank=1),
    number("LAG"),
    Column("COMMITTED (UTC)"),
    Column("METADATA", rank=2),
)
_STATE_COLUMNS: Final = (
    Column("GROUP"),
    Column("TYPE", rank=2),
    Column("STATE"),
    Column("PROTOCOL", rank=3),
    number("EPOCH", rank=1),
    number("MEMBERS"),
    Column("LAST RECORD (UTC)"),
)


def run(arguments: argparse.Namespace) -> int:
    """Print the committed offsets; 1 if some records could not be read."""
    if arguments.state and (arguments.topic or arguments.partition):
        raise OptionError("--state shows whole groups: leave out --topic and --partition")
    view = VIEWS["groups" if arguments.state else "group_offsets"]
    catalog = list_catalog(arguments.paths, storage_of(arguments))
    topic = find_internal_topic(catalog, view.topic)
    contents = read_current(topic, view)
    rows = contents.rows.to_pylist()
    choice = choice_of(arguments)
    there = {row["topic"] for row in rows if row.get("topic")}  # rows of states have none
    require_topics(choice, there, arguments.paths)
    groups = arguments.group
    chosen = [row for row in rows if not row["error"] and _is_wanted(row, groups, choice)]
    if not arguments.state:
        chosen.sort(key=lambda row: (row["group"], *natural_order(row["topic"], row["partition"])))
    if arguments.state:
        _print_states(chosen, arguments.format)
    elif arguments.reset_offsets:
        # The same number of groups is asked for on both sides, by the same flag.
        names = ("topic", "partition", "offset")
        _print_reset_offsets(
            chosen, names if len(arguments.group or ()) == 1 else ("group", *names)
        )
    else:
        _print_offsets(with_lag(chosen, catalog), arguments.format)
    flush()
    return report_problems(view.topic, contents, quiet=arguments.quiet)


def report_problems(topic: str, contents: Contents, *, quiet: bool) -> int:
    """Say on stderr what could not be read, unless `quiet`; the exit code."""
    rows = contents.rows.filter(pc.is_valid(contents.rows["error"])).to_pylist()
    lines = [f"{topic}, offset {row['logOffset']}: {row['error']}" for row in rows]
    if not quiet:
        for line in contents.broken + lines:
            tell(f"ottla: {line}")
    return 1 if contents.broken or lines else 0


def _is_wanted(row: Row, groups: list[str] | None, choice: Choice) -> bool:
    if groups and row["group"] not in groups:
        return False
    if choice == EVERY_PARTITION:
        return True
    return choice.chooses(TopicPartition(row["topic"], row["partition"]))


def _print_offsets(rows: list[Row], style: Format) -> None:
    if style is Format.JSONL:
        for row in rows:
            del row["error"], row["deleted"]
            write(json_line(row))
        return
    print_table(_OFFSET_COLUMNS, [_offset_cells(row) for row in rows], _total(rows))


def _offset_cells(row: Row) -> list[Cell]:
    lag = row["lag"]
    return [
        row["group"],
        name_of(row),
        row["offset"],
        row["logEndOffset"],
        Styled(str(lag), Emphasis.WARNING) if lag else lag,
        short_time(row["commitTimestamp"]),
        row["metadata"],
    ]


def _total(rows: list[Row]) -> list[Cell]:
    if not rows:
        return []
    groups = counted(len({row["group"] for row in rows}), "group")
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    return [groups, counted(len(rows), "offset"), "", "", sum(lags) if lags else "", "", ""]


def _print_reset_offsets(rows: list[Row], names: Sequence[str]) -> None:
    # Kafka splits the file at \n and reads each line by itself. It takes lines without a group if
    # it is told of one group, and tries that form first in any case, with the stack trace of the
    # failure on stderr (OffsetsUtils.parseResetPlan).
    for row in rows:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row[name] for name in names)
        if sys.stdout.isatty():
            write_line(line.getvalue())
        else:
            write(encode_text(line.getvalue() + "\n"))


def _print_states(rows: list[Row], style: Format) -> None:
    if style is Format.JSONL:
        for row in rows:
            del row["error"], row["deleted"]
            write(json_line(row))
        return
    print_table(
        _STATE_COLUMNS,
        (
            [
                row["group"],
                row["type"],
                row["state"],
                row["protocol"] or row["protocolType"],
                row["epoch"],
                len(row["members"] or ()),
                short_time(row["logTimestamp"]),
            ]
            for row in rows
        ),
    )
