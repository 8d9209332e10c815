"""Commands that read publish nothing: they say which commit waits beside what they read."""

import argparse
import os
import posixpath
import shlex
import sys
from collections.abc import Iterator
from typing import Final

_NAMES: Final = ("paths", "file", "segments", "to")  # of arguments that are read
_LEVELS: Final = 3  # OUT, a partition in it, a segment in that


def tell_waiting(arguments: argparse.Namespace) -> None:
    """Say on stderr where a commit is waiting, and which command finishes it."""
    # Imported here: `ottla --help` must not wait for Arrow.
    from ottla.publish.job import journal_folder
    from ottla.publish.journal import waiting_journals
    from ottla.storage.files import is_remote

    for out in _outputs(arguments):
        try:
            waiting = waiting_journals(out)
        except OSError as error:
            # Of an object store the command itself says what is wrong.
            if not is_remote(out):
                print(f"ottla: can not tell whether a commit waits: {error}", file=sys.stderr)
            continue
        for name in waiting:
            print(
                f"ottla: a commit is waiting in {_shown(journal_folder(out))}/{_shown(name)}:"
                f" {_shown(out)} may be incomplete until `ottla finish {_shown(shlex.quote(out))}`",
                file=sys.stderr,
            )


def _outputs(arguments: argparse.Namespace) -> Iterator[str]:
    """What may be the OUT of a job: the paths that are read, and the folders they lie in."""
    from ottla.publish.job import has_siblings
    from ottla.storage.files import is_remote, local_path

    seen = set()
    for path in _paths(arguments):
        out = path.rstrip("/") if is_remote(path) else os.path.abspath(local_path(path))
        for _ in range(_LEVELS):
            if not has_siblings(out):  # a bucket, or the root of a disk
                break
            if out not in seen:
                yield out
            seen.add(out)
            out = posixpath.dirname(out)


def _paths(arguments: argparse.Namespace) -> Iterator[str]:
    for name in _NAMES:
        given = getattr(arguments, name, None)
        if isinstance(given, str):
            yield given
        elif isinstance(given, list):  # a flag of `ls` is called segments too
            yield from given


def _shown(text: str) -> str:
    """A name that others chose, so that a terminal obeys none of it."""
    return text if text.isprintable() else ascii(text)
