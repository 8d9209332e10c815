"""How far a step is: bytes done, and an estimate of the time left. Nothing unless on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Show = Callable[[int], None]


@contextmanager
def progress_bar(title: str, total: int, *, quiet: bool = False) -> Iterator[Show | None]:
    """A function that is told how many bytes are done; None if nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    # Imported here: in a pipe nobody waits for it.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=max(1, total))
        yield lambda done: bar.update(task, completed=done)
        bar.update(task, completed=max(1, total))
