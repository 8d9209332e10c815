"""A command that writes has OUT for itself, from before it plans until it is done."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def claim(arguments: argparse.Namespace) -> Iterator[None]:
    """Fail at once if another process writes to OUT; a command that only looks claims nothing."""
    looks = getattr(arguments, "explain", False) or getattr(arguments, "dry_run", False)
    # A table of a catalog is no path: the catalog says where it is, and the job claims that.
    named = getattr(arguments, "catalog", None) is not None
    if not getattr(arguments, "writes", False) or looks or named:
        yield
        return
    # Imported here: `ottla --help` must not wait for Arrow.
    from ottla.jobs.output import claim_apart

    with claim_apart(arguments.out, getattr(arguments, "paths", None) or []):
        yield
