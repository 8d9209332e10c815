"""Where tasks leave files for each other whose output is no log."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory


@contextmanager
def scratch_beside(out: str | None) -> Iterator[str]:
    """Beside what is written, which all workers reach; else where this machine has such files."""
    if out is not None:
        yield out
        return
    with TemporaryDirectory(prefix="ottla-") as folder:
        yield os.path.join(folder, "scratch")
