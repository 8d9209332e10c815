"""What commands share that choose partitions or run tasks: flags, engine and account."""

import argparse
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from ottla.catalog.catalog import list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.cli.flags import add_partitions
from ottla.cli.flags import add_range as add_range
from ottla.cli.output import Format, add_format, flush, json_line, print_table, tell, write
from ottla.errors import OptionError, Row
from ottla.jobs.engine import Engine
from ottla.jobs.evidence import with_evidence
from ottla.jobs.output import OutputJob
from ottla.options.choice import Choice
from ottla.options.offsets import LimitPair, parse_when
from ottla.options.texts import parse_bytes
from ottla.storage.object_store import StorageOptions

_ALWAYS: Final = frozenset({"partition", "readBytes", "firstOffset", "lastOffset", "violations"})


def add_selection(parser: argparse.ArgumentParser, *, paths: str = "+") -> None:
    """The flags that choose partitions."""
    parser.add_argument(
        "paths",
        nargs=paths,
        metavar="PATH",
        help="a log directory or a partition; s3://, gs://, abfs:// and hdfs:// too",
    )
    add_partitions(parser)


def add_out(parser: argparse.ArgumentParser) -> None:
    """Where a job writes; what is no partition lies in the sibling OUT.ottla."""
    parser.add_argument("out", metavar="OUT", help="where to write; OUT.ottla holds the account")
    parser.add_argument(
        "--evidence",
        action="store_true",
        help="list every input file in the account, with its size and SHA-256",
    )
    parser.set_defaults(writes=True)


def add_rewrite(parser: argparse.ArgumentParser) -> None:
    """The arguments of jobs that write logs anew, with the offsets they had."""
    add_selection(parser)
    add_out(parser)
    add_range(parser)
    parser.add_argument(
        "--segment-bytes",
        type=size,
        default=1 << 30,
        metavar="SIZE",
        help="of the segments that are written (default: 1g)",
    )
    add_run(parser, split="1g")
    add_format(parser)


def add_run(parser: argparse.ArgumentParser, *, split: str | None = None) -> None:
    """The flags that say how to run; `split` is given where tasks can be cut by size."""
    add_engine(parser)
    if split is not None:
        parser.add_argument(
            "--split-bytes",
            type=size,
            default=parse_bytes(split),
            metavar="SIZE",
            help=f"about how much one task takes, cut between batches (default: {split})",
        )
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no account")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The flags that say where tasks run."""
    parser.add_argument(
        "--engine",
        choices=("auto", "local", "spark"),
        default="auto",
        help="local: threads of this process; spark: local[*] or --master; auto (default): local"
        " up to --local-bytes of input, or where Spark or Java is missing",
    )
    parser.add_argument("--master", metavar="URL", help="run on Spark, on this master")
    parser.add_argument(
        "--local-bytes",
        type=size,
        default=1 << 30,
        metavar="SIZE",
        help="how much input auto runs in this process (default: 1g)",
    )
    parser.add_argument(
        "--memory",
        type=size,
        default=1 << 30,
        metavar="SIZE",
        help="what --engine local may hold where rows must meet (default: 1g)",
    )


def size(text: str) -> int:
    """A size as a flag gives it."""
    try:
        return parse_bytes(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not {error}") from error


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
