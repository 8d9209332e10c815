"""A command that writes has OUT for itself, from before it plans until it is done."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def claim(arguments: argparse.Namespace) -> Iterator[None]:
    """Fail at once if another process writes to OUT; a command that only looks claims nothing."""
    if not getattr(arguments, "writes", False) or getattr(arguments, "explain", False):
        yield
        return
    # Imported here: `ottla --help` must not wait for Arrow.
    from ottla.jobs.output import require_apart
    from ottla.publish.journal import require_one_disk
    from ottla.publish.locks import claim_output

    paths = getattr(arguments, "paths", None) or []
    require_apart(arguments.out, paths)  # to claim it makes folders
    require_one_disk(arguments.out)
    with claim_output(arguments.out):
        yield
