"""Spark reads an Avro topic as typed columns, and as bytes.

Ten fields of a record take more room in Arrow than the datum that they come from, and all of it
goes into the JVM: what is measured is a whole read, not decoding alone.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import fastavro
import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.bench_avro import FLAT, flat_record, written
from benchmarks.bench_spark import MOST_ROUNDS, session
from benchmarks.corpus import SEGMENTS, Plan, link_partitions, size_of
from benchmarks.rounds import WARM_UP_TURNS, best_rates, timed
from benchmarks.table import millions, ratio
from benchmarks.targets import VALUES_TO_BYTES
from ottla import NewBatch, write_segment
from ottla.format.attributes import Codec

HEADING = ("what", "typed, Mrec/s", "bytes", "ratio", "target")
PARTITIONS = 8
SCHEMA_ID = 21
CONFLUENT = b"\0" + SCHEMA_ID.to_bytes(4, "big")
QUERIES = {
    "count()": ("count(1)", "count(1)"),
    "a sum": ("sum(length(value.note))", "sum(length(value))"),
}


def log_directory(plan: Plan) -> Path:
    """`_schemas`, and one segment as every partition of a topic."""
    count = 10 * plan.uncompressed_bytes // 1000
    root = SEGMENTS / "values" / f"flat-{count}"
    source = root / "orders-0" / f"{0:020d}.log"
    if not source.exists():
        registry = root / "_schemas-0" / source.name
        for path in (source, registry):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_segment([_registered()], registry)
        lz4 = NewBatch(codec=Codec.LZ4)
        write_segment(_records(count), source, new_batch=lz4, batch_bytes=60_000)
    link_partitions(source, root, PARTITIONS)
    return root


def _registered() -> pa.RecordBatch:
    key = {"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 1}
    value = {"subject": "orders-value", "version": 1, "id": SCHEMA_ID, "schema": json.dumps(FLAT)}
    columns = {"key": key, "value": value | {"deleted": False}}
    return pa.RecordBatch.from_pydict(
        {name: [json.dumps(column).encode()] for name, column in columns.items()}
    )


def _records(count: int) -> Iterator[pa.RecordBatch]:
    chance = random.Random(21)
    parsed = fastavro.parse_schema(FLAT)
    values = [CONFLUENT + written(parsed, flat_record(chance)) for _ in range(10_000)]
    for start in range(0, count, len(values)):
        some = values[: count - start]
        keys = [b"user-%02d" % (number % 100) for number in range(len(some))]
        yield pa.RecordBatch.from_pydict({"key": keys, "value": some})


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Two queries over the same records."""
    root = log_directory(plan)
    reader = session().read.format("kafka-log").option("subscribe", "orders")
    plain = reader.load(str(root))
    typed = reader.option("valueAs", "registry").load(str(root))
    records = plain.count()
    assert typed.where("value is not null").count() == records
    turns = {}
    for what, (ours, theirs) in QUERIES.items():
        turns[f"{what} typed"] = timed(lambda ours=ours: _run(typed, ours, records))
        turns[f"{what} bytes"] = timed(lambda theirs=theirs: _run(plain, theirs, records))
    best = best_rates(turns, min(plan.rounds, MOST_ROUNDS), WARM_UP_TURNS)
    for what in QUERIES:
        figures = best[f"{what} typed"], best[f"{what} bytes"]
        label = f"lz4, {size_of(root) >> 20} MiB, flat records of ten fields: {what}"
        yield (label, *map(millions, figures), *ratio(*figures, VALUES_TO_BYTES))


def _run(frame: DataFrame, query: str, records: int) -> int:
    frame.selectExpr(query).collect()
    return records
