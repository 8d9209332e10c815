"""Values from texts, where an OptionError says what was expected; sizes and names as texts."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from ottla.errors import OptionError
from ottla.format.sentinels import INT64_MAX

_FEW: Final = 3


def few(names: Sequence[str], most: int = _FEW) -> str:
    """Names for people, not more than one can read.

    >>> few(["a-0", "a-1", "a-2", "b-0"]), few(["a-0", "a-1"], most=1), few([])
    ('a-0, a-1, a-2 and 1 more', 'a-0 and 1 more', '')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def counted(count: int, thing: str) -> str:
    """
    >>> counted(1, "error"), counted(2000, "error")
    ('1 error', '2,000 errors')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError("true or false")
    return text.lower() == "true"


def parse_integer(text: str) -> int:
    if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) or abs(int(text)) > INT64_MAX:
        raise OptionError("a whole number")
    return int(text)


def parse_positive(text: str) -> int:
    if parse_integer(text) <= 0:
        raise OptionError("a positive number")
    return int(text)


def is_integer(value: object) -> bool:
    """Whether what JSON held is a long of Java."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT64_MAX


def parse_json_object(text: str, form: str) -> dict[str, Any]:
    """The object that a text is; `form` is what was expected."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(form) from error
    if not isinstance(found, dict):
        raise OptionError(form)
    return found


_SIZE_UNITS: Final = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_TIME_UNITS: Final = {
    "us": 0.001,
    "": 1,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def parse_bytes(text: str) -> int:
    """
    >>> parse_bytes("4096"), parse_bytes("64m"), parse_bytes("1 GB")
    (4096, 67108864, 1073741824)
    """
    found = re.fullmatch(r"\s*([0-9]+)\s*([kmgt]?)b?\s*", text.lower())
    if not found or int(found[1]) == 0:
        raise OptionError("a positive size such as 1048576, 512k or 64m")
    return int(found[1]) << _SIZE_UNITS[found[2]]


def format_bytes(size: int) -> str:
    """A size as people read it.

    >>> format_bytes(0), format_bytes(1023), format_bytes(1546926), format_bytes(1 << 30)
    ('0 B', '1023 B', '1.5 MiB', '1.0 GiB')
    """
    if size < 1024:
        return f"{size} B"
    units, amount = iter(("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")), size / 1024
    unit = next(units)
    while amount >= 1023.95:
        amount, unit = amount / 1024, next(units)
    return f"{amount:.1f} {unit}"


def parse_milliseconds(text: str) -> int:
    """Spark's time strings (JavaUtils.timeStringAs).

    >>> parse_milliseconds("15m"), parse_milliseconds("250"), parse_milliseconds("2s")
    (900000, 250, 2000)
    """
    found = re.fullmatch(r"\s*([0-9]+)\s*([a-z]*)\s*", text.lower())
    if not found or found[2] not in _TIME_UNITS:
        raise OptionError("a time such as 500ms, 30s or 15m")
    return int(int(found[1]) * _TIME_UNITS[found[2]])
