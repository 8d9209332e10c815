"""Tables fit, numbers stand to the right, nothing is cut off where a program reads."""

import io

import pytest

from ottla.cli.colours import Emphasis, Styled, render
from ottla.cli.table import Cell, Column, Folding, lay_out, number

COLUMNS = [Column("PARTITION"), number("SIZE"), Column("OFFSETS"), Column("CODECS", rank=1)]
ROWS: list[list[Cell]] = [["users-2", "1.5 KiB", "0..9", "lz4"], ["users-10", 7, None, "zstd"]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(
    width: int,
    fold: Folding = Folding.NEVER,
    *,
    rows: list[list[Cell]] = ROWS,
    total: tuple[Cell, ...] = (),
) -> list[str]:
    lines = lay_out(COLUMNS, rows, total, width, fold)
    return [render(parts, io.StringIO()) for parts in lines]


def test_numbers_stand_to_the_right_and_no_line_ends_with_spaces() -> None:
    assert shown(80, total=("2 partitions", "1.5 KiB", "", "")) == [
        "PARTITION        SIZE  OFFSETS  CODECS",
        "users-2       1.5 KiB  0..9     lz4",
        "users-10            7  -        zstd",
        "2 partitions  1.5 KiB",
    ]


def test_a_narrow_terminal_gets_fewer_columns() -> None:
    assert shown(30)[0].split() == ["PARTITION", "SIZE", "OFFSETS"]


def test_columns_that_say_nothing_are_left_out() -> None:
    assert shown(80, rows=[["a-0", 1, None, ""], ["b-0", 1, None, ""]])[0].split() == [
        "PARTITION",
        "SIZE",
    ]
    assert shown(80, rows=[]) == ["PARTITION  SIZE  OFFSETS  CODECS"]


@pytest.mark.parametrize("width", [30, 40, 79])
def test_a_terminal_gets_folded_names_and_a_pipe_whole_ones(width: int) -> None:
    rows: list[list[Cell]] = [["t" * 249 + "-0", 1, "0..9", "lz4"]]
    folded = shown(width, Folding.WHERE_NEEDED, rows=rows)
    assert max(map(len, folded)) <= width
    assert "".join(line.split()[0] for line in folded[1:]) == "t" * 249 + "-0"
    assert "t" * 249 + "-0" in shown(width, rows=rows)[1]


def test_wide_characters_take_two_places() -> None:
    lines = shown(80, rows=[["注文-0", 1, "", ""], ["orders-0", 1, "", ""]])
    assert lines == ["PARTITION  SIZE", "注文-0        1", "orders-0      1"]


def test_a_name_is_never_obeyed() -> None:
    lines = shown(80, rows=[["\x1b[2J\n-0", 1, Styled("\x07", Emphasis.ERROR), ""]])
    assert lines[1].split() == ["\\x1b[2J\\n-0", "1", "\\x07"]


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    parts = [Styled("error", Emphasis.ERROR), ": why"]
    assert render(parts, Terminal()) == "\x1b[31merror\x1b[0m: why"
    assert render(parts, io.StringIO()) == "error: why"
    monkeypatch.setenv("NO_COLOR", "1")
    assert render(parts, Terminal()) == "error: why"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert render(parts, Terminal()) == "error: why"
