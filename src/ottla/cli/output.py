"""What commands have in common about output: its format, its bytes. Data goes to stdout only."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

_NAME_WIDTH: Final = 40
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


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


def json_text(value: Any) -> str:
    """Compact JSON; characters stay themselves."""
    # Interpreted kernels (NUMBA_DISABLE_JIT) give NumPy's integers, which JSON does not know.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=int)


def json_line(value: Any) -> bytes:
    """One line of JSON."""
    return _encoded(json_text(value) + "\n")


def _encoded(text: str) -> bytes:
    """What is not Unicode in a file's name is escaped."""
    return text.encode("utf-8", "backslashreplace")


def write(data: bytes | memoryview) -> None:
    """Put bytes on stdout."""
    sys.stdout.buffer.write(data)


def write_text(text: str) -> None:
    """Put text on stdout, whatever is in it."""
    write(_encoded(text))


def print_table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table as wide as it must be: to a file nothing is cut off."""
    # Imported here: most commands print no table and need not wait for it.
    from rich.console import Console
    from rich.table import Table

    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
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
    write_text(printed.get())
    flush()


def time_text(timestamp: int | None) -> str | None:
    """A time in UTC; one that no calendar has stays a number.

    >>> time_text(0), time_text(-1)
    ('1970-01-01T00:00:00.000Z', None)
    """
    if timestamp is None or timestamp < 0:
        return None
    return date_text(timestamp) or str(timestamp)


def date_text(timestamp: int) -> str | None:
    """A time in UTC, before 1970 too; None for one that no calendar has."""
    try:
        time = _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def flush() -> None:
    """Let go of what is still held, while a closed pipe can still be reported."""
    sys.stdout.buffer.flush()
