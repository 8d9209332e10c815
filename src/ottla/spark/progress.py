"""Spark's status tracker as a progress bar."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Final

from pyspark.sql import SparkSession

from ottla.engine.progress import Show, progress_bar

_EVERY: Final = 0.25  # seconds between looks


@contextmanager
def show_progress(
    spark: SparkSession, title: str, sizes: Sequence[int], *, quiet: bool = False
) -> Iterator[None]:
    """Show how far the stage with a task for each of `sizes` is."""
    with progress_bar(title, sum(sizes), quiet=quiet) as show:
        if show is None:
            yield
            return
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(spark, sizes, show, ended))
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _watch(spark: SparkSession, sizes: Sequence[int], show: Show, ended: threading.Event) -> None:
    # Tasks start in the order of their numbers, so those that ended are about the first ones.
    done = [0, *accumulate(sizes)]
    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(_EVERY):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None and info.numTasks == len(sizes):
                show(done[info.numCompletedTasks])
