"""What commands share that choose partitions or run tasks: inputs, engine and account."""

import argparse
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from ottla.catalog.catalog import list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.cli.output import (
    Format,
    ShowSize,
    flush,
    json_line,
    print_table,
    tell,
    write,
)
from ottla.cli.partitions import directories_of, name_of
from ottla.cli.table import Cell, Column, number
from ottla.errors import Row
from ottla.options.choice import Choice, choose_topics
from ottla.options.offsets import LimitPair, parse_when
from ottla.options.texts import counted, format_bytes
from ottla.storage.object_store import StorageOptions
from ottla.where.tree import Predicate

if TYPE_CHECKING:  # who only looks at logs does not wait for what jobs need
    from ottla.jobs.engine import Engine
    from ottla.jobs.output import OutputJob

_OFFSETS: Final = "offsets"
# What tables show of an account; the rest is for programs. What was lost is never left out.
_SHOWN: Final = {
    "readBytes": number("READ", rank=3),
    "readRecords": number("RECORDS READ", rank=5),
    "writtenBytes": number("WRITTEN"),
    "writtenRecords": number("RECORDS", rank=1),
    _OFFSETS: Column("OFFSETS", rank=2),
    "quarantinedBytes": number("QUARANTINED"),
    "lostOffsets": number("LOST OFFSETS"),
    "violations": number("PROBLEMS"),
    "seconds": number("SECONDS", rank=6),
}
_COLUMNS: Final = (Column("PARTITION"), Column("LOG DIRECTORY"), *_SHOWN.values())


def chosen_logs(arguments: argparse.Namespace) -> ChosenLogs:
    """What the flags choose of the paths, which are listed here and nowhere else."""
    choice, limits = choice_of(arguments), limits_of(arguments)
    paths = arguments.paths if isinstance(arguments.paths, list) else [arguments.paths]
    return ChosenLogs(list_catalog(paths, storage_of(arguments)), choice, limits)


def tell_remote(chosen: ChosenLogs, *, quiet: bool) -> None:
    """Say which offsets are part of the logs and not read: no path has what remote storage has."""
    from ottla.catalog.logs import live_logs
    from ottla.log.write.extent import remote_offsets

    ranges = {
        log.partition.title: remote_offsets(log.partition, log.log_start)
        for log in live_logs(chosen.catalog)
        if chosen.choice.chooses(log.name)
    }
    missing = {title: found for title, found in ranges.items() if found}
    if quiet or not missing:
        return
    title, first = next(iter(missing.items()))
    others = f" (and of {counted(len(missing) - 1, 'more partition')})" if len(missing) > 1 else ""
    _say(
        f"offsets {first.start}..{first.stop - 1} of {title}{others} are in remote storage only and"
        " are not read: name its bucket or folder too"
    )


def where_of(arguments: argparse.Namespace) -> Predicate | None:
    """Which records the flag wants."""
    if arguments.where is None:
        return None
    from ottla.where.parse import parse_where  # with Arrow's functions, which few ask for

    return parse_where(arguments.where)


def choice_of(arguments: argparse.Namespace) -> Choice:
    """Which partitions the flags choose."""
    return choose_topics(arguments.topic or (), arguments.partition or ())


def limits_of(arguments: argparse.Namespace) -> LimitPair:
    """From where to where, by the flags that a command has."""
    start, stop = getattr(arguments, "start", None), getattr(arguments, "stop", None)
    return LimitPair(parse_when(start) if start else None, parse_when(stop) if stop else None)


def engine_for(
    command: str, sizes: Iterable[int], arguments: argparse.Namespace
) -> AbstractContextManager["Engine"]:
    """What runs a command over inputs of these sizes."""
    from ottla.engines import EngineKind, EngineOptions, start_engine

    options = EngineOptions(
        EngineKind(arguments.engine),
        arguments.master,
        arguments.local_bytes,
        arguments.memory,
        arguments.quiet,
    )
    return start_engine(command, sum(sizes), options, _nothing if arguments.quiet else _say)


def storage_of(arguments: argparse.Namespace) -> StorageOptions:
    """How the flags say that files are read."""
    return StorageOptions(follow_links=arguments.follow_links)


def _nothing(_: str) -> None:
    """For those who want no word."""


def _say(line: str) -> None:
    tell(f"ottla: {line}")


def run_plan(plan: "OutputJob", arguments: argparse.Namespace, style: Format) -> list[Row]:
    """Run a job that writes, and print its account."""
    from ottla.jobs.evidence import with_evidence
    from ottla.jobs.run import run_output_job

    if arguments.evidence:
        plan = with_evidence(plan)
    sizes = (part.size for part in plan.parts.values())
    with engine_for(plan.title, sizes, arguments) as engine:
        rows = run_output_job(engine, plan)
    if not arguments.quiet:
        print_account(rows, style, arguments.show_size)
    return rows


def print_account(rows: Sequence[Row], style: Format, show_size: ShowSize = format_bytes) -> None:
    """What people want to know of an account as a table, or all of it as JSON lines."""
    if style is Format.JSONL:
        for row in rows:
            write(json_line({"type": "account", **row}))
        flush()
        return
    directory = directories_of(rows)
    named: list[Sequence[Cell]] = [
        [name_of(row), directory(row), *(_cell(row, name, show_size) for name in _SHOWN)]
        for row in rows
    ]
    total = [
        counted(len(rows), "partition"),
        "",
        *(_total(rows, name, show_size) for name in _SHOWN),
    ]
    print_table(_COLUMNS, named, total if rows else ())
    inputs = [one for row in rows for one in row.get("inputs", ())]
    if inputs:
        titles = ("INPUT", number("BYTES"), "SHA-256")
        print_table(titles, ([one["file"], one["bytes"], one["sha256"]] for one in inputs))


def _cell(row: Row, name: str, show_size: ShowSize) -> Cell:
    """Nothing for 0: a column of nothing is left out."""
    if name == _OFFSETS:
        return "" if row["lastOffset"] is None else f"{row['firstOffset']}..{row['lastOffset']}"
    value = row[name]
    if name.endswith("Bytes"):
        return show_size(value) if value else ""
    if name == "seconds":
        return f"{value:.3f}"
    return value or ""


def _total(rows: Sequence[Row], name: str, show_size: ShowSize) -> Cell:
    if name == _OFFSETS:
        return ""
    return _cell({name: sum(row[name] for row in rows)}, name, show_size)
