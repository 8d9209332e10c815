"""Options by name: Spark hands over lower-case names and text values; here they are found and read.

What is unknown, refused or looks like a secret is an OptionError, whether one reads or writes.
"""

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from ottla.errors import OptionError
from ottla.options.texts import parse_boolean

# Name as it is documented -> field of the options and the parser of its text.
Fields = Mapping[str, tuple[str, Callable[[str], Any]]]

STORAGE_FIELDS: Final[Fields] = {
    "endpoint": ("endpoint", str),
    "region": ("region", str),
    "profile": ("profile", str),
    "anonymous": ("anonymous", parse_boolean),
    "followLinks": ("follow_links", parse_boolean),
}
_SECRET: Final = re.compile(r"secret|password|passwd|token|credential|access.?key|account.?key")


class Names(NamedTuple):
    """Names of options: known ones, those that are passed over, and those that are refused."""

    known: Collection[str]
    ignored: Collection[str]
    refused: Collection[str]


def parse_fields(texts: Mapping[str, str], fields: Fields) -> dict[str, Any]:
    """The values of the fields whose options are given; the names in `texts` are lower-case."""
    found = {}
    for name, (place, parse) in fields.items():
        text = texts.get(name.lower())
        if text is None:
            continue
        try:
            found[place] = parse(text)
        except OptionError as error:
            raise OptionError(f"option {name}: expected {error}, got {text!r}") from error
    return found


def check_names(texts: Mapping[str, str], names: Names) -> tuple[str, ...]:
    """Turn down options that are unknown or dangerous; return those that only a broker needs."""
    known = {name.lower(): name for name in (*names.known, *STORAGE_FIELDS, *names.ignored)}
    refused = {name.lower(): name for name in names.refused}
    ignored = []
    for name in sorted(texts):
        if name in refused:
            raise OptionError(f"option {refused[name]} is not supported")
        if name in known:
            ignored += [known[name]] if known[name] in names.ignored else []
        elif name.startswith("kafka."):
            ignored.append(name)
        elif _SECRET.search(name):
            raise OptionError(
                f"option {name} looks like a secret: options end up in plans and logs; give the "
                "workers credentials by their environment or role"
            )
        else:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            meant = f"did you mean {known[close[0]]}?" if close else None
            advice = meant or f"known are {', '.join(known.values())}"
            raise OptionError(f"unknown option {name}: {advice}")
    return tuple(ignored)
