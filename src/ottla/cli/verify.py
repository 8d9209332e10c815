"""`ottla verify`: every rule on everything, in parallel; what is broken, as rows."""

import argparse
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.cli.colours import by_severity
from ottla.cli.job import chosen_logs, engine_for, print_account, tell_remote
from ottla.cli.output import Format, flush, json_line, write, write_line, write_wrapped
from ottla.cli.recovery import print_recovery
from ottla.cli.verdict import Verdict
from ottla.errors import OptionError, Row, Severity
from ottla.jobs.verify.plan import VerifyOptions
from ottla.jobs.verify.run import FOUND_SCHEMA, verify_chosen
from ottla.storage.writing import open_whole

_ROWS: Final = 4096


def run(arguments: argparse.Namespace) -> int:
    """Print violations and what they amount to; 1 if there is an error among them."""
    if arguments.out and not arguments.out.endswith((".parquet", ".jsonl")):
        raise OptionError(f"--out {arguments.out}: name a .parquet or a .jsonl file")
    chosen = chosen_logs(arguments)
    if arguments.recovery:
        if arguments.out:
            raise OptionError("--recovery prints a plan: --out is for violations")
        return print_recovery(chosen, arguments)
    options = VerifyOptions(
        quick=arguments.quick, split_bytes=arguments.split_bytes, storage=chosen.storage
    )
    tell_remote(chosen, quiet=arguments.quiet)
    verdict, account = Verdict(chosen.partitions), list[Row]()
    sizes = (segment.log.size for partition in chosen.partitions for segment in partition.segments)
    with engine_for("verify", sizes, arguments) as engine:
        rows = verdict.see(verify_chosen(engine, chosen, options, account))
        if arguments.out:
            _write(rows, arguments.out)
        else:
            _print(rows, arguments.format)
    if not arguments.quiet:
        _conclude(verdict, account, arguments)
    return int(verdict.severities[Severity.ERROR] > 0)


def _conclude(verdict: Verdict, account: list[Row], arguments: argparse.Namespace) -> None:
    """Print the verdict, and the account where it is asked for; programs get the account alone."""
    if arguments.account or arguments.format is Format.JSONL:
        print_account(account, arguments.format, arguments.show_size)
    if arguments.format is Format.TEXT:
        read = arguments.show_size(sum(row["readBytes"] for row in account))
        write_line(*verdict.sentence(), *([] if verdict.places else [f" {read} were read."]))
        if command := verdict.command(arguments.paths):
            write_line("Next: ", command)
    flush()


def _print(rows: Iterable[Row], style: Format) -> None:
    for row in rows:
        if style is Format.JSONL:
            write(json_line({"type": "violation", **row}))
        else:
            write_wrapped(by_severity(row["severity"], row["severity"]), _text(row))
    flush()


def _text(row: Row) -> str:
    where = f"{row['file']} @ {row['position']}"
    if row["offset"] is not None:
        where += f", offset {row['offset']}"
    text = f": {where}: {row['rule']}: {row['detail']}"
    if row["found"] is not None:
        expected = "" if row["expected"] is None else f", expected {row['expected']}"
        text += f" (found {row['found']}{expected})"
    return text


def _write(rows: Iterator[Row], out: str) -> None:
    with open_whole(out) as stream:
        if out.endswith(".jsonl"):
            for row in rows:
                stream.write(json_line(row))
        else:
            with pq.ParquetWriter(stream, FOUND_SCHEMA, compression="zstd") as writer:
                while chunk := list(islice(rows, _ROWS)):
                    writer.write_table(pa.Table.from_pylist(chunk, FOUND_SCHEMA))
