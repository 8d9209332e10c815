"""Spark reads one record in a hundred: by the option `where`, and by a filter of Spark's own.

The filter gets every record from Python into the JVM first. Keys take turns, so that no batch can
be skipped: what is measured is what it saves that records do not leave the reader.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.bench_spark import MOST_ROUNDS, PARTITIONS, session
from benchmarks.corpus import SEGMENTS, Plan, link_partitions, size_of
from benchmarks.rounds import WARM_UP_TURNS, best_rates, timed
from benchmarks.table import millions, ratio
from benchmarks.targets import WHERE_TO_FILTER
from ottla import NewBatch, write_segment
from ottla.format.attributes import Codec

HEADING = ("what", "where, Mrec/s", "a filter of Spark", "ratio", "target")
USERS = 100
VALUE_BYTES = 100


def log_directory(plan: Plan, codec: Codec) -> Path:
    """One segment as every partition of a topic; values are words, which a codec can shorten."""
    count = plan.uncompressed_bytes // (VALUE_BYTES + 20)
    root = SEGMENTS / "where" / f"{codec.name.lower()}-{count}"
    source = root / "orders-0" / f"{0:020d}.log"
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        write_segment(_records(count), source, new_batch=NewBatch(codec=codec), batch_bytes=60_000)
    link_partitions(source, root, PARTITIONS)
    return root


def _records(count: int) -> Iterator[pa.RecordBatch]:
    chance = random.Random(18)
    words = [chance.randbytes(5).hex().encode() for _ in range(1000)]
    values = [b" ".join(chance.choices(words, k=9)) for _ in range(10_000)]
    for start in range(0, count, 10_000):
        size = min(10_000, count - start)
        keys = [b"user-%02d" % (number % USERS) for number in range(start, start + size)]
        yield pa.RecordBatch.from_pydict({"key": keys, "value": values[:size]})


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """For each codec: how many records, and a sum over their values."""
    for number, codec in enumerate((Codec.NONE, Codec.LZ4, Codec.ZSTD)):
        root = log_directory(plan, codec)
        reader = session().read.format("kafka-log")
        wanted = reader.option("where", "key = 'user-07'").load(str(root))
        filtered = session().read.format("kafka-log").load(str(root)).where("key = 'user-07'")
        records = session().read.format("kafka-log").load(str(root)).count()
        assert (
            wanted.count()
            == filtered.count()
            == -(-(records // PARTITIONS - 7) // USERS) * PARTITIONS
        )
        turns = {
            "count where": timed(_met(wanted.count, records)),
            "count filter": timed(_met(filtered.count, records)),
            "sum where": timed(_met(_summing(wanted), records)),
            "sum filter": timed(_met(_summing(filtered), records)),
        }
        warm_ups = 1 if number else WARM_UP_TURNS
        best = best_rates(turns, min(plan.rounds, MOST_ROUNDS), warm_ups)
        for what, name in (("count()", "count"), ("sum(length(value))", "sum")):
            ours, theirs = best[f"{name} where"], best[f"{name} filter"]
            label = f"{codec.name.lower()}, {size_of(root) >> 20} MiB: {what} of 1 %"
            figures = millions(ours), millions(theirs)
            yield (label, *figures, *ratio(ours, theirs, WHERE_TO_FILTER))


def _met(work: Callable[[], object], records: int) -> Callable[[], int]:
    """The same work; what counts are the records that it had to look at."""

    def run() -> int:
        work()
        return records

    return run


def _summing(frame: DataFrame) -> Callable[[], object]:
    return lambda: frame.selectExpr("sum(length(value))").collect()
