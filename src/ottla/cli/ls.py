"""`ottla ls`: topics, partitions and segments of log directories, from batch headers alone."""

import argparse
from collections.abc import Callable
from typing import Final

from ottla.cli.colours import Emphasis, Styled, by_severity
from ottla.cli.job import chosen_logs
from ottla.cli.output import (
    Format,
    ShowSize,
    flush,
    json_line,
    print_table,
    short_time,
    tell,
    write,
)
from ottla.cli.partitions import directories_of, name_of
from ottla.cli.table import Cell, Column, number
from ottla.dump.listing import list_rows, offsets_here
from ottla.errors import Row, Severity, Violation
from ottla.options.texts import counted

_COLUMNS: Final = (
    Column("PARTITION"),
    Column("LOG DIRECTORY"),
    number("SEGMENTS", rank=2),
    number("SIZE"),
    Column("OFFSETS"),
    Column("REMOTE"),
    Column("FIRST (UTC)", rank=4),
    Column("LAST (UTC)", rank=1),
    number("BATCHES", rank=5),
    Column("MAGIC", rank=6),
    Column("CODECS", rank=3),
    number("PROBLEMS"),
)


def run(arguments: argparse.Namespace) -> int:
    """Print what is there; 1 if something is wrong with it."""
    problems: list[Violation] = []
    rows = list_rows(chosen_logs(arguments), problems, with_segments=arguments.segments)
    if arguments.format is Format.JSONL:
        for row in rows:
            write(json_line(row))
    else:
        _print_text(list(rows), arguments.show_size)
    flush()
    if not arguments.quiet:
        for problem in problems:
            tell(by_severity(problem.rule.severity, problem.rule.severity), f": {problem}")
    return int(any(problem.rule.severity is Severity.ERROR for problem in problems))


def _print_text(rows: list[Row], show_size: ShowSize) -> None:
    partitions = [row for row in rows if row["type"] == "partition"]
    directory = directories_of(partitions)
    lines = [_line(row, show_size, directory) for row in rows]
    print_table(_COLUMNS, lines, _total(partitions, show_size))


def _line(row: Row, show_size: ShowSize, directory: Callable[[Row], str]) -> list[Cell]:
    is_segment = row["type"] == "segment"
    cells: list[Cell] = [
        f"  {row['baseOffset']:020d}" if is_segment else name_of(row),
        "" if is_segment else directory(row),
        "" if is_segment else row["segments"],
        show_size(row["bytes"]),
        _offsets(row),
        _remote(row),
        short_time(row["firstTimestamp"]) or "",
        short_time(row["lastTimestamp"]) or "",
        row["batches"],
        ",".join(map(str, row["magics"])),
        ",".join(row["codecs"]),
        _problems(row["problems"]),
    ]
    return [_secondary(cell) for cell in cells] if is_segment else cells


def _secondary(cell: Cell) -> Cell:
    return cell if isinstance(cell, Styled) else Styled(str(cell), Emphasis.SECONDARY)


def _total(rows: list[Row], show_size: ShowSize) -> list[Cell]:
    """The last line: what can be added up."""
    problems = sum(len(row["problems"]) for row in rows)
    return [
        counted(len(rows), "partition"),
        "",
        sum(row["segments"] for row in rows),
        show_size(sum(row["bytes"] for row in rows)),
        *[""] * 4,
        sum(row["batches"] for row in rows),
        *[""] * 2,
        problems or "",
    ]


def _problems(problems: list[Row]) -> Cell:
    found = {problem["severity"] for problem in problems}
    worst = next((severity for severity in Severity if severity in found), None)
    return "" if worst is None else by_severity(str(len(problems)), worst)


def _offsets(row: Row) -> str:
    """Those that a reader gets of the batches here: the log may start inside of them."""
    if row["lastOffset"] is None:
        return ""
    first, last = offsets_here(row)
    if first is not None and first > last:
        return f"none from {first}"
    return f"{'?' if first is None else first}..{last}"


def _remote(row: Row) -> str:
    """Those that remote storage has."""
    remote = row.get("remoteRange")
    return f"{remote[0]}..{remote[1]}" if remote else ""
