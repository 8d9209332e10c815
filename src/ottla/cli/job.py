"""What commands share that choose partitions or run tasks: inputs, engine and account."""

import argparse
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from ottla.catalog.catalog import list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.cli.output import Format, flush, json_line, print_table, tell, write
from ottla.errors import Row
from ottla.jobs.engine import Engine
from ottla.jobs.evidence import with_evidence
from ottla.jobs.output import OutputJob
from ottla.options.choice import Choice
from ottla.options.offsets import LimitPair, parse_when
from ottla.storage.object_store import StorageOptions

_ALWAYS: Final = frozenset({"partition", "readBytes", "firstOffset", "lastOffset", "violations"})


def chosen_logs(arguments: argparse.Namespace) -> ChosenLogs:
    """What the flags choose of the paths, which are listed here and nowhere else."""
    choice, limits = choice_of(arguments), limits_of(arguments)
    paths = arguments.paths if isinstance(arguments.paths, list) else [arguments.paths]
    return ChosenLogs(list_catalog(paths, storage_of(arguments)), choice, limits)


def choice_of(arguments: argparse.Namespace) -> Choice:
    """Which partitions the flags choose."""
    return Choice(tuple(arguments.topic or ()), tuple(arguments.partition or ()))


def limits_of(arguments: argparse.Namespace) -> LimitPair:
    """From where to where, by the flags that a command has."""
    start, stop = getattr(arguments, "start", None), getattr(arguments, "stop", None)
    return LimitPair(parse_when(start) if start else None, parse_when(stop) if stop else None)


def engine_for(
    command: str, sizes: Iterable[int], arguments: argparse.Namespace
) -> AbstractContextManager[Engine]:
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


def run_plan(plan: OutputJob, arguments: argparse.Namespace, style: Format) -> list[Row]:
    """Run a job that writes, and print its account."""
    from ottla.jobs.run import run_output_job

    if arguments.evidence:
        plan = with_evidence(plan)
    sizes = (part.size for part in plan.parts.values())
    with engine_for(plan.title, sizes, arguments) as engine:
        rows = run_output_job(engine, plan)
    if not arguments.quiet:
        print_account(rows, style)
    return rows


def print_account(rows: Sequence[Row], style: Format) -> None:
    """The account as a table without the columns that say nothing, or as JSON lines."""
    if style is Format.JSONL:
        for row in rows:
            write(json_line({"type": "account", **row}))
        flush()
        return
    names = [
        name
        for name in (rows[0] if rows else ())
        if name not in ("topic", "inputs") and (name in _ALWAYS or any(row[name] for row in rows))
    ]
    print_table(
        tuple(name if name != "partition" else "PARTITION" for name in names),
        ([_cell(row, name) for name in names] for row in rows),
    )
    inputs = [one for row in rows for one in row.get("inputs", ())]
    if inputs:
        print_table(("INPUT", "BYTES", "SHA-256"), (list(one.values()) for one in inputs))


def _cell(row: Row, name: str) -> Any:
    if name != "partition":
        return row[name]
    return None if row["topic"] is None else f"{row['topic']}-{row['partition']}"
