"""Tables for people: as wide as the terminal, numbers to the right.

Columns that say nothing are left out. Where a terminal is too narrow, those of the highest rank go
first; then long cells are folded, but never in a pipe: a name is found there by `grep`.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import zip_longest
from typing import Final
from unicodedata import east_asian_width

from ottla.cli.colours import Emphasis, Part, Styled
from ottla.dump.values import printable

_GAP: Final = 2
_NARROWEST: Final = 12  # that a folded column becomes

Cell = str | int | float | Styled | None


class Align(Enum):
    """Where the cells of a column stand."""

    LEFT = auto()
    RIGHT = auto()


class Folding(Enum):
    """Whether cells that are too long go on in the next line."""

    NEVER = auto()
    WHERE_NEEDED = auto()


@dataclass(frozen=True, slots=True)
class Column:
    """`rank` says which columns are left out first where not all fit; 0 never is."""

    title: str
    rank: int = 0
    align: Align = Align.LEFT


def number(title: str, rank: int = 0) -> Column:
    """A column of numbers, or of sizes."""
    return Column(title, rank, Align.RIGHT)


def lay_out(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    total: Sequence[Cell],
    width: int,
    fold: Folding,
) -> Iterator[list[Part]]:
    """The lines of a table, each of its parts; `total` is its last row, or empty."""
    lines = [[Styled(column.title, Emphasis.TITLE) for column in columns]]
    lines += [[_styled(cell) for cell in row] for row in rows]
    if total:
        lines.append([Styled(_styled(cell).text, Emphasis.TITLE) for cell in total])
    widths = [max(_width(line[at].text) for line in lines) for at in range(len(columns))]
    kept = _fitting(columns, _telling(rows, len(columns)), widths, width)
    if fold is Folding.WHERE_NEEDED:
        _narrow(columns, kept, widths, width)
    for line in lines:
        yield from _fold([line[at] for at in kept], [(columns[at], widths[at]) for at in kept])


def _styled(cell: Cell) -> Styled:
    if isinstance(cell, Styled):
        return Styled(printable(cell.text), cell.style)
    return Styled("-" if cell is None else printable(str(cell)), Emphasis.PLAIN)


def _width(text: str) -> int:
    """How many places a terminal gives it."""
    return len(text) + sum(east_asian_width(one) in "WF" for one in text if not one.isascii())


def _telling(rows: Sequence[Sequence[Cell]], count: int) -> list[int]:
    """The columns that say something, and the first."""
    if not rows:
        return list(range(count))
    return [at for at in range(count) if at == 0 or any(_tells(row[at]) for row in rows)]


def _tells(cell: Cell) -> bool:
    return cell is not None and _styled(cell).text != ""


def _fitting(
    columns: Sequence[Column], kept: list[int], widths: Sequence[int], width: int
) -> list[int]:
    """Those that are left when as many went as must."""
    while _excess(kept, widths, width) > 0:
        last = max(kept, key=lambda at: (columns[at].rank, at))
        if columns[last].rank == 0:
            break
        kept = [at for at in kept if at != last]
    return kept


def _excess(kept: Sequence[int], widths: Sequence[int], width: int) -> int:
    return sum(widths[at] for at in kept) + _GAP * (len(kept) - 1) - width


def _narrow(columns: Sequence[Column], kept: list[int], widths: list[int], width: int) -> None:
    """Take from the widest columns of text what is too much."""
    texts = [at for at in kept if columns[at].align is Align.LEFT]
    for at in sorted(texts, key=lambda at: -widths[at]):
        excess = _excess(kept, widths, width)
        if excess > 0:
            widths[at] = max(min(widths[at], _NARROWEST), widths[at] - excess)


def _fold(cells: Sequence[Styled], shapes: Sequence[tuple[Column, int]]) -> Iterator[list[Part]]:
    """The lines of a row: more than one where a cell is longer than its column."""
    folded = [
        textwrap.wrap(cell.text, width, break_on_hyphens=False)
        if _width(cell.text) > width
        else [cell.text]
        for cell, (_, width) in zip(cells, shapes, strict=True)
    ]
    for texts in zip_longest(*folded, fillvalue=""):
        parts: list[Part] = []
        for text, cell, (column, width) in zip(texts, cells, shapes, strict=True):
            space = " " * (width - _width(text))
            parts += [space, Styled(text, cell.style)] if column.align is Align.RIGHT else []
            parts += [Styled(text, cell.style), space] if column.align is Align.LEFT else []
            parts.append(" " * _GAP)
        yield _without_end(parts)


def _without_end(parts: list[Part]) -> list[Part]:
    """A line does not end with spaces."""
    while parts and not _text(parts[-1]).strip():
        parts.pop()
    return parts


def _text(part: Part) -> str:
    return part.text if isinstance(part, Styled) else part
