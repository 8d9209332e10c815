"""`ottla compact` on one partition of few and of many records: does the time grow linearly?

The command runs as a user runs it, on two cores, with a Spark driver of 4 GB. A log of a thousand
records tells what it costs to start; that is taken off before the two others are compared. Every
key comes again after ten million records, so that 50 million leave ten million.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.corpus import SEGMENTS, Plan
from benchmarks.targets import COMPACT_GROWTH
from ottla import NewBatch, write_segment
from ottla.format.attributes import Codec

HEADING = ("records", "keys", "log MB", "seconds", "of these start", "Mrec/s", "growth", "target")
RECORDS_PER_KEY = 5
STRIDE = 7_654_321  # prime to the number of keys: they come in no order
PER_SEGMENT = 2_500_000
PER_CHUNK = 250_000
START = 1000
DIGITS = 8
DRIVER_MEMORY = "4g"


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """A log that costs nothing, a small one, and one ten times as large."""
    small = 5_000_000 if plan.rounds > 3 else 500_000
    start = _compact(START)[0]
    yield _line(START, start, 0.0, "", "")
    first = _compact(small)[0]
    yield _line(small, first, start, "", "")
    second, left = _compact(10 * small)
    assert left == 10 * small // RECORDS_PER_KEY, f"{left} records are left"
    growth = (second - start) / (first - start) / 10
    missed = "" if growth <= COMPACT_GROWTH else " (!)"
    yield _line(10 * small, second, start, f"{growth:.2f}{missed}", str(COMPACT_GROWTH))


def _line(count: int, seconds: float, start: float, growth: str, target: str) -> tuple[str, ...]:
    size = sum(path.stat().st_size for path in log_directory(count).rglob("*.log"))
    rate = f"{count / (seconds - start) / 1e6:.2f}" if start else ""
    return (
        f"{count:,}",
        f"{count // RECORDS_PER_KEY:,}",
        f"{size / 1e6:.0f}",
        f"{seconds:.1f}",
        f"{start:.1f}" if start else "all",
        rate,
        growth,
        target,
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


def _compact(count: int) -> tuple[float, int]:
    """Seconds of the command, and how many records it leaves."""
    root, out = log_directory(count), SEGMENTS / "compacted"
    for path in (out, Path(f"{out}.ottla")):
        shutil.rmtree(path, ignore_errors=True)
    command = [sys.executable, "-m", "ottla.cli", "compact", str(root), str(out)]
    command += ["--json", "--include-active", "--master", "local[2]", "--segment-bytes", "256m"]
    environment = os.environ | {"SPARK_DRIVER_MEMORY": DRIVER_MEMORY}
    begin = time.perf_counter()
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    for path in (out, Path(f"{out}.ottla")):
        shutil.rmtree(path, ignore_errors=True)
    return seconds, json.loads(done.stdout)["writtenRecords"]
