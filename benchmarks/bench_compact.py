"""`ottla compact` on one partition of few and of many records: does the time grow linearly?

The command runs as a user runs it, on two cores: on Spark with a driver of 4 GB, and in one process
that may keep as much of what is grouped. A log of a thousand records tells what it costs to start;
that is taken off before the two others are compared. Every key comes again after ten million
records, so that 50 million leave ten million. Memory is that of the largest process.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.corpus import SEGMENTS, Plan
from benchmarks.targets import COMPACT_GROWTH
from ottla import NewBatch, write_segment
from ottla.format.attributes import Codec

HEADING = (
    *("engine", "records", "keys", "log MB", "seconds", "of these start", "Mrec/s", "most MB"),
    *("growth", "target"),
)
RECORDS_PER_KEY = 5
STRIDE = 7_654_321  # prime to the number of keys: they come in no order
PER_SEGMENT = 2_500_000
PER_CHUNK = 250_000
START = 1000
DIGITS = 8
MEMORY = "4g"
ENGINES = {
    "spark": ("--master", "local[2]"),
    "local": ("--engine", "local", "--memory", MEMORY),
}


class Compacted(NamedTuple):
    """What a run took, and how many records it left."""

    seconds: float
    most_bytes: int
    left: int


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """On each engine a log that costs nothing, a small one, and one ten times as large."""
    small = 5_000_000 if plan.rounds > 3 else 500_000
    for engine in ENGINES:
        start = _compact(START, engine)
        yield (engine, *_line(START, start, 0.0), "", "")
        first = _compact(small, engine)
        yield (engine, *_line(small, first, start.seconds), "", "")
        second = _compact(10 * small, engine)
        assert second.left == 10 * small // RECORDS_PER_KEY, f"{second.left} records are left"
        growth = (second.seconds - start.seconds) / (first.seconds - start.seconds) / 10
        missed = "" if growth <= COMPACT_GROWTH else " (!)"
        line = _line(10 * small, second, start.seconds)
        yield (engine, *line, f"{growth:.2f}{missed}", str(COMPACT_GROWTH))


def _line(count: int, done: Compacted, start: float) -> tuple[str, ...]:
    size = sum(path.stat().st_size for path in log_directory(count).rglob("*.log"))
    rate = f"{count / (done.seconds - start) / 1e6:.2f}" if start else ""
    return (
        f"{count:,}",
        f"{count // RECORDS_PER_KEY:,}",
        f"{size / 1e6:.0f}",
        f"{done.seconds:.1f}",
        f"{start:.1f}" if start else "all",
        rate,
        f"{done.most_bytes / 1e6:.0f}",
    )


def log_directory(count: int) -> Path:
    """A log directory with one partition, written the first time it is asked for."""
    root = SEGMENTS / f"compact-{count}-{count // RECORDS_PER_KEY}"
    if root.exists():
        return root
    unfinished = root.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    folder = unfinished / "users-0"
    folder.mkdir(parents=True)
    for base in range(0, count, PER_SEGMENT):
        stop = min(count, base + PER_SEGMENT)
        new = NewBatch(codec=Codec.LZ4, base_offset=base)
        rows = _records(base, stop, count // RECORDS_PER_KEY)
        write_segment(rows, folder / f"{base:020d}.log", new_batch=new)
    unfinished.rename(root)
    return root


def _records(start: int, stop: int, distinct: int) -> Iterator[pa.RecordBatch]:
    """Keys of a letter and eight digits, values of about 60 bytes of JSON."""
    for first in range(start, stop, PER_CHUNK):
        numbers = np.arange(first, min(stop, first + PER_CHUNK))
        keys = _texts(numbers * STRIDE % distinct, b"u", b"")
        values = _texts(numbers, b'{"name": "somebody", "country": "nowhere", "visit": ', b"}")
        times = pa.array(1_700_000_000_000 + numbers // 100)
        yield pa.RecordBatch.from_arrays(
            [keys, values, pa.array(numbers), times], names=["key", "value", "offset", "timestamp"]
        )


def _texts(numbers: np.ndarray, before: bytes, after: bytes) -> pa.Array:
    """Each number in its digits between two texts, as a binary column."""
    digits = numbers[:, None] // 10 ** np.arange(DIGITS - 1, -1, -1) % 10 + ord("0")
    size = len(before) + DIGITS + len(after)
    text = np.empty((numbers.size, size), dtype=np.uint8)
    text[:, : len(before)] = np.frombuffer(before, dtype=np.uint8)
    text[:, len(before) : len(before) + DIGITS] = digits
    text[:, size - len(after) :] = np.frombuffer(after, dtype=np.uint8)
    bounds = np.arange(numbers.size + 1, dtype=np.int32) * np.int32(size)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.binary(), numbers.size, buffers)


def _compact(count: int, engine: str) -> Compacted:
    root, out = log_directory(count), SEGMENTS / "compacted"
    for path in (out, Path(f"{out}.ottla")):
        shutil.rmtree(path, ignore_errors=True)
    command = [sys.executable, "-m", "ottla.cli", "compact", str(root), str(out)]
    command += ["--json", "--include-active", "--segment-bytes", "256m", *ENGINES[engine]]
    environment = os.environ | {"SPARK_DRIVER_MEMORY": MEMORY}
    with tempfile.TemporaryFile() as answer:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment, stdout=answer, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        assert status == 0, command
        answer.seek(0)
        left = json.loads(answer.read())["writtenRecords"]
    for path in (out, Path(f"{out}.ottla")):
        shutil.rmtree(path, ignore_errors=True)
    return Compacted(seconds, usage.ru_maxrss << 10, left)
