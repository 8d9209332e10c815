"""Commands that read publish nothing: they say which commit waits beside what they read."""

import argparse
from collections.abc import Iterator
from typing import Final

from ottla.cli.output import tell

_NAMES: Final = ("paths", "file", "segments", "to")  # of arguments that are read


def tell_waiting(arguments: argparse.Namespace) -> None:
    """Say on stderr where a commit is waiting, and which command finishes it."""
    # Imported here: `ottla --help` must not wait for Arrow.
    from ottla.publish.waiting import tell_of_waiting

    for sentence in tell_of_waiting(_paths(arguments), "ottla finish"):
        tell(f"ottla: {sentence}")


def _paths(arguments: argparse.Namespace) -> Iterator[str]:
    for name in _NAMES:
        given = getattr(arguments, name, None)
        if isinstance(given, str):
            yield given
        elif isinstance(given, list):  # a flag of `ls` is called segments too
            yield from given
