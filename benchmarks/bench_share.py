"""Python's share of a read with Spark: what a worker takes for a record, and what its parts take.

CPU time of all threads of one process, by turns: what a worker does, from the files to Spark's own
serializer, and each part of it alone. There is no JVM: `cat` empties the socket.
"""

import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from benchmarks import ours
from benchmarks.corpus import SEGMENTS, Case, Plan, link_partitions, segment
from benchmarks.kafka_records import Answer
from benchmarks.rounds import best_rates, cpu_timed
from benchmarks.targets import WORKER_TO_PARTS
from ottla.arrow.to_arrow import wanted_flags
from ottla.batch import decode
from ottla.batch.decode import Decoder
from ottla.batch.memory import allocate_from_pool
from ottla.catalog.slices import Task, plan_tasks
from ottla.connector import CONNECTOR_COLUMNS
from ottla.jobs.read.rows import core_columns
from ottla.kernels.records import gather
from ottla.options.read import ReadOptions, for_batch, parse_read_options
from ottla.spark.reader import read_task

PARTS = ("read", "codec", "parse", "send")
HEADING = ("µs per record", *PARTS, "sum", "worker", "ratio", "target")
CODECS = ("none", "lz4", "zstd")
TARGETS = {"all columns": CONNECTOR_COLUMNS, "offsets only": pa.schema([("offset", pa.int64())])}
PARTITIONS = 4
ROUNDS = 2  # times those of a plan: other work on the machine reaches the caches of both
SOCKET_BYTES = 64 << 10  # that a worker's file keeps back


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """A row for each codec and choice of columns."""
    for codec in CODECS:
        for columns, target in TARGETS.items():
            yield f"{codec}, {columns}", *_row(Case(codec), target, plan)


def _row(case: Case, target: pa.Schema, plan: Plan) -> Iterator[str]:
    source = segment(case, plan)
    root = SEGMENTS / "share" / source.stem
    link_partitions(source, root, PARTITIONS)
    options = for_batch(parse_read_options({"path": str(root)}))
    tasks = list(plan_tasks(options))
    usual = next(_work(tasks, options, target))
    size = usual.num_rows
    count = sum(batch.num_rows for batch in _work(tasks, options, target))
    times = count // size
    windows = ours.windows(source)
    of_file = sum(int(batches.count.sum()) for _, batches in windows)
    columns = core_columns(target.names)
    best = best_rates(
        {
            "worker": cpu_timed(lambda: _send(_work(tasks, options, target), count)),
            "read": cpu_timed(lambda: _read(source, of_file)),
            "codec": lambda: _within(decode, "decompress_window", windows, columns),
            "parse": lambda: _within(gather, "gather", windows, columns),
            "send": cpu_timed(lambda: _send(repeat(usual, times), times * size)),
        },
        ROUNDS * plan.rounds,
        warm_ups=1,
    )
    *parts, worker = (1e6 / best[name] for name in (*PARTS, "worker"))
    ratio = worker / sum(parts)
    yield from (f"{each:.3f}" for each in (*parts, sum(parts), worker))
    yield f"{ratio:.2f}" + ("" if ratio <= WORKER_TO_PARTS else " (!)")
    yield str(WORKER_TO_PARTS)


def _work(
    tasks: Sequence[Task], options: ReadOptions, target: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """What the tasks of a query give to Spark."""
    for task in tasks:
        yield from read_task(task, options, target)


def _read(source: Path, count: int) -> int:
    ours.verify(source)
    return count


def _send(batches: Iterable[pa.RecordBatch], count: int) -> int:
    """As a worker sends its batches to the JVM: by a socket, in the form of Arrow's streams."""
    near, far = socket.socketpair()
    with subprocess.Popen(["cat"], stdin=far, stdout=subprocess.DEVNULL):
        far.close()
        with near, near.makefile("wb", SOCKET_BYTES) as stream:
            ArrowStreamSerializer(write_start_stream=True).dump_stream(batches, stream)
    return count


def _within(
    module: ModuleType, name: str, windows: list[ours.Window], columns: list[str]
) -> Answer:
    """What the calls of one function take while windows in memory are decoded."""
    function = getattr(module, name)
    seconds = 0.0

    def clocked(*arguments: Any) -> Any:
        nonlocal seconds
        begin = time.thread_time()
        result = function(*arguments)
        seconds += time.thread_time() - begin
        return result

    decoder = Decoder(wanted_flags(columns), allocate=allocate_from_pool)
    count = 0
    with patch.object(module, name, clocked):
        for region, batches in windows:
            for chunk, broken in decoder.decode(region, batches):
                assert not broken
                count += 0 if chunk is None else chunk.count
    rest = decoder.flush()
    return Answer(max(seconds, 1e-9), count + (0 if rest is None else rest.count))
