"""`ottla verify`: every rule on everything, in parallel; what is broken, as rows."""

import argparse
import os
import uuid
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.catalog.catalog import Catalog
from ottla.cli.job import chosen_logs, engine_for, print_account
from ottla.cli.output import Format, flush, json_line, write, write_line
from ottla.cli.recovery import print_recovery
from ottla.errors import OptionError, Row, Severity, Violation
from ottla.jobs.verify.plan import VERDICT_SCHEMA, VerifyOptions
from ottla.jobs.verify.run import verify
from ottla.log.check.directory import check_directory
from ottla.storage.files import move_files, open_output

_ROWS: Final = 4096
_SCHEMA: Final = pa.schema([field for field in VERDICT_SCHEMA if field.name != "account"])


def run(arguments: argparse.Namespace) -> int:
    """Print violations and the account; 1 if there is an error among them."""
    if arguments.out and not arguments.out.endswith((".parquet", ".jsonl")):
        raise OptionError(f"--out {arguments.out}: name a .parquet or a .jsonl file")
    chosen = chosen_logs(arguments)
    if arguments.recovery:
        if arguments.out:
            raise OptionError("--recovery prints a plan: --out is for violations")
        return print_recovery(chosen, arguments.format)
    options = VerifyOptions(
        quick=arguments.quick, split_bytes=arguments.split_bytes, storage=chosen.storage
    )
    errors = 0

    def counted(rows: Iterable[Row]) -> Iterator[Row]:
        nonlocal errors
        for row in rows:
            errors += row["severity"] == Severity.ERROR
            yield row

    account: list[Row] = []
    sizes = (segment.log.size for partition in chosen.partitions for segment in partition.segments)
    with engine_for("verify", sizes, arguments) as engine:
        about_directories = (problem.as_row() for problem in _check_directories(chosen.catalog))
        found = verify(engine, chosen.partitions, options, account)
        rows = counted(chain(about_directories, found))
        if arguments.out:
            _write(rows, arguments.out)
        else:
            _print(rows, arguments.format)
    if not arguments.quiet:
        print_account(account, arguments.format)
    return int(errors > 0)


def _check_directories(catalog: Catalog) -> Iterator[Violation]:
    for directory in catalog.directories:
        yield from check_directory(directory, catalog.storage)


def _print(rows: Iterable[Row], style: Format) -> None:
    for row in rows:
        if style is Format.JSONL:
            write(json_line({"type": "violation", **row}))
        else:
            write_line(_text(row))
    flush()


def _text(row: Row) -> str:
    where = f"{row['file']} @ {row['position']}"
    if row["offset"] is not None:
        where += f", offset {row['offset']}"
    text = f"{row['severity']}: {where}: {row['rule']}: {row['detail']}"
    if row["found"] is not None:
        expected = "" if row["expected"] is None else f", expected {row['expected']}"
        text += f" (found {row['found']}{expected})"
    return text


def _write(rows: Iterator[Row], out: str) -> None:
    """Write the file under another name first, so that it is there whole or not at all."""
    unfinished = f"{out}.{uuid.uuid4().hex}"
    with open_output(unfinished) as stream:
        if out.endswith(".jsonl"):
            for row in rows:
                stream.write(json_line(row))
        else:
            with pq.ParquetWriter(stream, _SCHEMA, compression="zstd") as writer:
                while chunk := list(islice(rows, _ROWS)):
                    writer.write_table(pa.Table.from_pylist(chunk, _SCHEMA))
    move_files([(unfinished, os.path.abspath(out) if "://" not in out else out)])
