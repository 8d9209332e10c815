"""Tables as people see them: lines of text, and HTML for notebooks, escaped."""

from collections.abc import Sequence
from html import escape
from typing import Final

import pyarrow as pa

from ottla.dump.values import printable

SHOWN_ROWS: Final = 20
_WIDEST: Final = 40
_WIDEST_HTML: Final = 400
_PAGE: Final = 80

Cells = Sequence[Sequence[object]]


def text_table(titles: Sequence[str], rows: Cells) -> str:
    """Columns side by side; numbers stand right.

    >>> print(text_table(["TOPIC", "BYTES"], [["orders", 7], ["a", 12345]]))
    TOPIC   BYTES
    orders      7
    a       12345
    """
    shown = [[_short(cell) for cell in row] for row in rows]
    widths = [
        max(len(title), *(len(row[at]) for row in shown)) if shown else len(title)
        for at, title in enumerate(titles)
    ]
    right = [
        bool(rows) and all(isinstance(row[at], int | None) for row in rows)
        for at in range(len(titles))
    ]
    lines = [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in ([*titles], *shown)
    ]
    return "\n".join(lines)


def narrow_table(titles: Sequence[str], rows: Cells) -> str:
    """As many columns as fit into 80, and the names of the others."""
    count = len(titles)
    while count > 1 and _width(titles[:count], [row[:count] for row in rows]) > _PAGE:
        count -= 1
    shown = text_table(titles[:count], [row[:count] for row in rows])
    left = titles[count:]
    return f"{shown}\nand the columns {', '.join(left)}" if left else shown


def _width(titles: Sequence[str], rows: Cells) -> int:
    return max(map(len, text_table(titles, rows).splitlines()))


def html_table(caption: str, titles: Sequence[str], rows: Cells) -> str:
    """The same for a notebook; whatever a log holds is text in it."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(_short(cell, _WIDEST_HTML))}</td>' for cell in row)}</tr>"
        for row in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def first_rows(table: pa.Table, count: int = SHOWN_ROWS) -> list[list[object]]:
    """The cells of the first rows."""
    rows = table.slice(0, count).to_pylist()
    return [[row[name] for name in table.column_names] for row in rows]


def _short(cell: object, most: int = _WIDEST) -> str:
    """A cell on one line; bytes that are text are shown as text."""
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "backslashreplace")
    text = printable(str(cell))
    return text if len(text) <= most else f"{text[: most - 1]}…"
