"""`ottla.open(...).scan(...)` on a broker's files against Spark's Kafka connector on the broker.

Both read the same records of one topic, in turns; the Spark session is already warm.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.compute as pc
from tests.kafka.broker import JAVA

import ottla
from benchmarks.bench_kafka import (
    TOPIC,
    best_of,
    connector_frame,
    figure_line,
    filled_broker,
    sum_lengths,
)
from benchmarks.bench_spark import session
from benchmarks.corpus import FULL, Plan
from benchmarks.maven import class_path

HEADING = ("what", "Ottla Mrec/s", "against", "ratio", "target")
RECORDS = 32_000_000  # about 1 GiB of lz4 batches
QUICK_RECORDS = 200_000
WARM_UP_TURNS = 1
ROUNDS = 2
SCAN_TO_CONNECTOR = 8.0


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Counting records, and adding up the lengths of their values."""
    records = RECORDS if plan == FULL else QUICK_RECORDS
    with (
        tempfile.TemporaryDirectory() as folder,
        filled_broker(Path(folder), records) as broker,
    ):
        spark = session()
        for jar in class_path(JAVA / "spark-connector").split(":")[1:]:
            spark.sql(f"ADD JAR '{jar}'")
        theirs = connector_frame(spark, broker)
        log = ottla.open(broker.log_dir)
        scan = log.scan(TOPIC)
        assert scan.count() == records
        size = f"{log.topics[TOPIC].bytes / 2**30:.2f} GiB"
        pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "count()": (scan.count, theirs.count),
            "sum of lengths": (lambda: lengths_of(scan), lambda: sum_lengths(theirs)),
        }
        for what, (ours, other) in pairs.items():
            best = best_of(records, WARM_UP_TURNS, ROUNDS, ours=ours, theirs=other)
            label = f"scan, {what}, {size}, and Spark's Kafka connector"
            yield figure_line(label, best, SCAN_TO_CONNECTOR)


def lengths_of(scan: ottla.Scan) -> int:
    """The bytes of all values, a batch at a time."""
    values = (batch.column("value") for batch in scan.select(["value"]))
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in values)
