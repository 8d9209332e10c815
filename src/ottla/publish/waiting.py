"""Commits that wait beside what is read: whoever reads publishes nothing, and says so."""

import os
import posixpath
import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from ottla.publish.job import has_siblings, journal_folder
from ottla.publish.journal import waiting_journals
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage.paths import is_remote, local_path

_LEVELS: Final = 3  # OUT, a partition in it, a segment in that


def tell_of_waiting(
    paths: Iterable[str], command: str, storage: StorageOptions = DEFAULT_OPTIONS
) -> Iterator[str]:
    """A sentence for each commit that waits; `command` finishes it, given OUT."""
    for out in _outputs(paths):
        try:
            waiting = waiting_journals(out, storage)
        except OSError as error:
            # Of an object store the reader itself says what is wrong.
            if not is_remote(out):
                yield f"cannot tell whether a commit waits: {error}"
            continue
        for name in waiting:
            yield (
                f"a commit is waiting in {_shown(journal_folder(out))}/{_shown(name)}:"
                f" {_shown(out)} may be incomplete until `{command} {_shown(shlex.quote(out))}`"
            )


def _outputs(paths: Iterable[str]) -> Iterator[str]:
    """What may be the OUT of a job: the paths that are read, and the folders they lie in."""
    seen = set()
    for path in paths:
        out = path.rstrip("/") if is_remote(path) else os.path.abspath(local_path(path))
        for _ in range(_LEVELS):
            if not has_siblings(out):  # a bucket, or the root of a disk
                break
            if out not in seen:
                yield out
            seen.add(out)
            out = posixpath.dirname(out)


def _shown(text: str) -> str:
    """A name that others chose, so that a terminal obeys none of it."""
    return text if text.isprintable() else ascii(text)
