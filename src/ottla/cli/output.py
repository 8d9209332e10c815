"""What commands have in common about output: its format, its bytes. Data goes to stdout only."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

from ottla.dump.values import encode_text as encode_text
from ottla.dump.values import json_line as json_line
from ottla.dump.values import printable as printable
from ottla.dump.values import time_text as time_text

_NAME_WIDTH: Final = 40


class Format(StrEnum):
    """How data is printed."""

    TEXT = "text"
    JSONL = "jsonl"


def default_format() -> Format:
    """Text for people, JSON lines for programs."""
    return Format.TEXT if sys.stdout.isatty() else Format.JSONL


def add_format(parser: argparse.ArgumentParser) -> None:
    """The flag `--format`, with the same meaning everywhere."""
    parser.add_argument(
        "--format",
        choices=[*Format],
        type=Format,
        default=default_format(),
        help="default: text on a terminal, jsonl otherwise",
    )


def write(data: bytes | memoryview) -> None:
    """Put bytes on stdout."""
    sys.stdout.buffer.write(data)


def write_line(text: str) -> None:
    """Put a line for people on stdout; what is in names is shown, never obeyed."""
    write(encode_text(printable(text) + "\n"))


def tell(text: str) -> None:
    """Put a line for people on stderr, likewise."""
    print(printable(text), file=sys.stderr)


def print_table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table as wide as it must be: to a file nothing is cut off."""
    # Imported here: most commands print no table and need not wait for it.
    from rich.console import Console
    from rich.table import Table

    cells = [["-" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, title in enumerate(titles):
        # The name of a row stays whole on a narrow terminal, unless it is a long path.
        widest = max((len(row[number]) for row in cells), default=0)
        whole = number == 0 and widest <= _NAME_WIDTH
        table.add_column(title, overflow="fold", no_wrap=whole)
    for row in cells:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 1 << 12
    console = Console(file=sys.stdout, width=width, markup=False, highlight=False)
    with console.capture() as printed:
        console.print(table)
    write(encode_text(printed.get()))
    flush()


def flush() -> None:
    """Let go of what is still held, while a closed pipe can still be reported."""
    sys.stdout.buffer.flush()
