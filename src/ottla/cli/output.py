"""What commands have in common about output: its format, its bytes. Data goes to stdout only."""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

from ottla.cli.colours import Part, Styled, render
from ottla.cli.table import Cell, Column, Folding, lay_out
from ottla.dump.values import encode_text as encode_text
from ottla.dump.values import json_line as json_line
from ottla.dump.values import printable as printable
from ottla.dump.values import time_text as time_text
from ottla.options.texts import format_bytes

WIDTH: Final = 80  # where no terminal says otherwise
ShowSize = Callable[[int], str]


class Format(StrEnum):
    """How data is printed."""

    TEXT = "text"
    JSONL = "jsonl"


def add_format(parser: argparse.ArgumentParser) -> None:
    """The flags `--format` and `--json`: text, in a pipe too, unless JSON is asked for."""
    parser.add_argument(
        "--format",
        choices=[each.value for each in Format],
        type=_parse_format,
        default=Format.TEXT,
        help="jsonl: one JSON object a line, for programs (default: %(default)s, in a pipe too)",
    )
    add_json(parser, dest="format")


def add_json(parser: argparse.ArgumentParser, *, dest: str) -> None:
    """The flag `--json`, by itself where `--format` means something else."""
    parser.add_argument(
        "--json",
        dest=dest,
        action="store_const",
        const=Format.JSONL,
        default=Format.TEXT,
        help="print JSON lines instead of text",
    )


def add_bytes(parser: argparse.ArgumentParser) -> None:
    """The flag `--bytes`: how sizes are shown in text."""
    parser.add_argument(
        "--bytes",
        dest="show_size",
        action="store_const",
        const=str,
        default=format_bytes,
        help="exact sizes instead of KiB and MiB, in text",
    )


def _parse_format(text: str) -> Format | str:
    """What is no format stays as it is: argparse names the choices then."""
    return Format(text) if text in list(Format) else text


def write(data: bytes | memoryview) -> None:
    """Put bytes on stdout."""
    sys.stdout.buffer.write(data)


def write_line(*parts: Part) -> None:
    """Put a line for people on stdout; what is in names is shown, never obeyed."""
    write(encode_text(render(parts, sys.stdout) + "\n"))


def write_wrapped(head: Styled, text: str) -> None:
    """A line that is long: on a terminal broken between words, else whole, for `grep`."""
    if not sys.stdout.isatty():
        write_line(head, text)
        return
    first, *others = textwrap.wrap(
        head.text + printable(text),
        shutil.get_terminal_size().columns,
        subsequent_indent="  ",
        break_long_words=False,  # a path is to be copied
        break_on_hyphens=False,
    )
    write_line(head, first.removeprefix(head.text))
    for line in others:
        write_line(line)


def tell(*parts: Part) -> None:
    """Put a line for people on stderr, likewise."""
    print(render(parts, sys.stderr), file=sys.stderr)


def print_table(
    columns: Sequence[Column | str],
    rows: Iterable[Sequence[Cell]],
    total: Sequence[Cell] = (),
) -> None:
    """A table that fits the terminal, or 80 columns (or COLUMNS, if that is set) in a pipe."""
    width = shutil.get_terminal_size((WIDTH, 0)).columns
    fold = Folding.WHERE_NEEDED if sys.stdout.isatty() else Folding.NEVER
    described = [Column(each) if isinstance(each, str) else each for each in columns]
    for parts in lay_out(described, list(rows), total, width, fold):
        write_line(*parts)
    flush()


def short_time(timestamp: int | None) -> str | None:
    """A time in UTC, to the minute.

    >>> short_time(1_760_000_000_000)
    '2025-10-09 08:53'
    """
    text = time_text(timestamp)
    return text[:16].replace("T", " ") if text is not None and text.endswith("Z") else text


def flush() -> None:
    """Let go of what is still held, while a closed pipe can still be reported."""
    sys.stdout.buffer.flush()
