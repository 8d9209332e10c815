"""Spark's status tracker as a progress bar: bytes done, and an estimate of the time left."""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Final

from pyspark.sql import SparkSession

_EVERY: Final = 0.25  # seconds between looks


@contextmanager
def show_progress(
    spark: SparkSession, title: str, sizes: Sequence[int], *, quiet: bool = False
) -> Iterator[None]:
    """Show how far the stage with a task for each of `sizes` is; nothing unless on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    with _bar() as bar:
        task = bar.add_task(title, total=max(1, sum(sizes)))
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(spark, sizes, bar, task, ended))
        watcher.start()
        try:
            yield
            bar.update(task, completed=max(1, sum(sizes)))
        finally:
            ended.set()
            watcher.join()


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def _watch(
    spark: SparkSession, sizes: Sequence[int], bar: Any, task: Any, ended: threading.Event
) -> None:
    # Tasks start in the order of their numbers, so those that ended are about the first ones.
    done = [0, *accumulate(sizes)]
    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(_EVERY):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None and info.numTasks == len(sizes):
                bar.update(task, completed=done[info.numCompletedTasks])
