"""Colours and weights: on a terminal only, and never with NO_COLOR (no-color.org)."""

import os
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple, TextIO

from ottla.dump.values import printable
from ottla.errors import Severity


class Emphasis(StrEnum):
    """How a part of a line looks, as terminals number it (ECMA-48, SGR)."""

    PLAIN = ""
    TITLE = "1"
    SECONDARY = "2"
    ERROR = "31"
    WARNING = "33"


class Styled(NamedTuple):
    """Text that stands out, or stands back."""

    text: str
    style: Emphasis


Part = str | Styled
SEVERITY_STYLES: Final = {
    Severity.ERROR: Emphasis.ERROR,
    Severity.WARNING: Emphasis.WARNING,
    Severity.NOTE: Emphasis.SECONDARY,
}


def by_severity(text: str, severity: str) -> Styled:
    """Text in the colour of what it is about."""
    return Styled(text, SEVERITY_STYLES[Severity(severity)])


def has_colours(stream: TextIO) -> bool:
    """Whether somebody looks who wants them."""
    return (
        stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") != "dumb"
    )


def render(parts: Iterable[Part], stream: TextIO) -> str:
    """One line of its parts; what is in names is shown, never obeyed."""
    paint = _paint if has_colours(stream) else _leave
    return "".join(
        paint(printable(part.text), part.style) if isinstance(part, Styled) else printable(part)
        for part in parts
    )


def _paint(text: str, style: Emphasis) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and text.strip() else text


def _leave(text: str, _: Emphasis) -> str:
    return text
