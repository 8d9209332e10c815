"""`ottla ls`: topics, partitions and segments of log directories, from batch headers alone."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from ottla.catalog.chosen import ChosenLogs
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
_SUMS: Final = ("partitions", "segments", "bytes", "batches", "problems")
_SHOWN: Final = 1000  # rows that are held to find how wide columns are


def run(arguments: argparse.Namespace) -> int:
    """Print what is there; 1 if something is wrong with it."""
    problems: list[Violation] = []
    chosen = chosen_logs(arguments)
    rows = list_rows(chosen, problems, with_segments=arguments.segments)
    if arguments.format is Format.JSONL:
        for row in rows:
            write(json_line(row))
    else:
        _print_text(rows, _directories(chosen), arguments.show_size)
    flush()
    if not arguments.quiet:
        for problem in problems:
            tell(by_severity(problem.rule.severity, problem.rule.severity), f": {problem}")
    return int(any(problem.rule.severity is Severity.ERROR for problem in problems))


def _directories(chosen: ChosenLogs) -> Callable[[Row], str]:
    return directories_of(
        {"topic": each.name.topic, "partition": each.name.partition, "path": each.path}
        for each in chosen.partitions
    )


def _print_text(rows: Iterator[Row], directory: Callable[[Row], str], show_size: ShowSize) -> None:
    """A table; of many rows one after another, each when it is full, and the total in the last."""
    sums = dict.fromkeys(_SUMS, 0)
    shown = list(islice(rows, _SHOWN))
    while True:
        following = list(islice(rows, _SHOWN))
        for row in (row for row in shown if row["type"] == "partition"):
            for name, one in _added(row).items():
                sums[name] += one
        lines = [_line(row, show_size, directory) for row in shown]
        print_table(_COLUMNS, lines, () if following else _total(sums, show_size))
        if not following:
            return
        shown = following


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


def _added(row: Row) -> dict[str, int]:
    counts = {name: row[name] for name in ("segments", "bytes", "batches")}
    return {"partitions": 1, "problems": len(row["problems"]), **counts}


def _total(sums: Mapping[str, int], show_size: ShowSize) -> list[Cell]:
    """The last line: what can be added up."""
    return [
        counted(sums["partitions"], "partition"),
        "",
        sums["segments"],
        show_size(sums["bytes"]),
        *[""] * 4,
        sums["batches"],
        *[""] * 2,
        sums["problems"] or "",
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
