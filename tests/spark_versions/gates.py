"""Attempts of tasks that wait in the middle until somebody else does their work too.

The first attempt at SLOW waits until Spark speculates and a second one begins. The first attempt
at DOOMED waits for its executor to be killed: its second one is a retry. Each leaves a file that
says which executor it runs on.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from spark_versions.cluster import PATIENCE, parent_of

SLOW, DOOMED = 3, 4


def pass_gate(folder: str) -> None:
    """Wait here if this attempt is one of the two."""
    context = TaskContext.get()
    assert context is not None
    task, attempt = context.partitionId(), context.attemptNumber()
    if task not in (SLOW, DOOMED):
        return
    # A worker is a child of the daemon, which is a child of the executor.
    executor = parent_of(os.getppid())
    staged = Path(folder) / f".{task}-{attempt}-{os.getpid()}"
    staged.write_text(str(executor))
    staged.rename(Path(folder) / f"{task}-{attempt}")
    deadline = time.monotonic() + PATIENCE
    while attempt == 0 and not (Path(folder) / f"{task}-1").exists():
        assert time.monotonic() < deadline, f"nobody else did task {task}"
        time.sleep(0.05)


def gated(batches: Iterator[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
    """The same batches; what follows has got half of them when the gate is reached."""
    for batch in batches:
        half = batch.num_rows // 2
        yield batch.slice(0, half)
        pass_gate(folder)
        yield batch.slice(half)
