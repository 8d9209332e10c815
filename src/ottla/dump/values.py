"""Values as text: JSON, times in UTC. It imports nothing heavy, lest `ottla --help` wait for it."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MORE_CONTROLS: Final = re.compile("[\x7f-\x9f]")  # a terminal obeys them, and JSON lets them stand


def json_text(value: Any) -> str:
    r"""Compact JSON; characters stay themselves, but for all controls.

    >>> json_text("\x1b[2J \x9b2J å")
    '"\\u001b[2J \\u009b2J å"'
    """
    # Interpreted kernels (NUMBA_DISABLE_JIT) give NumPy's integers, which JSON does not know.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=int)
    return _MORE_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def json_line(value: Any) -> bytes:
    """One line of JSON."""
    return encode_text(json_text(value) + "\n")


def encode_text(text: str) -> bytes:
    """UTF-8; what is not Unicode in a file's name is escaped."""
    return text.encode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    r"""A line for people, whoever chose the names in it: a terminal obeys none of it.

    >>> printable("orders\n\x1b[2J-0")
    'orders\\n\\x1b[2J-0'
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


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
