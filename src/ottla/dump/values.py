"""Values as text: JSON, times in UTC. It imports nothing heavy, lest `ottla --help` wait for it."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def json_text(value: Any) -> str:
    """Compact JSON; characters stay themselves."""
    # Interpreted kernels (NUMBA_DISABLE_JIT) give NumPy's integers, which JSON does not know.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=int)


def json_line(value: Any) -> bytes:
    """One line of JSON."""
    return encode_text(json_text(value) + "\n")


def encode_text(text: str) -> bytes:
    """UTF-8; what is not Unicode in a file's name is escaped."""
    return text.encode("utf-8", "backslashreplace")


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
