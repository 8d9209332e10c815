"""Ottla on a broker's files against what one would use instead: Spark's Kafka connector, which
reads from the running broker, and kafka-dump-log.

Queries share one Spark session that is already warm. What has a command line is measured from the
start of its process to the end, Python, JVM and Spark included.
"""

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from tests.kafka.broker import JAVA, KAFKA, Broker, new_broker, run_tool

from benchmarks.bench_spark import session
from benchmarks.corpus import FULL, Plan
from benchmarks.maven import class_path, java
from benchmarks.table import millions, ratio
from ottla.catalog.catalog import list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.run import run_output_job
from ottla.options.choice import Choice
from ottla.spark.engine import SparkEngine

HEADING = ("what", "Ottla Mrec/s", "against", "ratio", "target")
TOPIC = "measured"
PARTITIONS = 4
RECORDS = 5_000_000
QUICK_RECORDS = 200_000
VALUE_BYTES = 100
# In a session. A command is a new process each time, and runs long enough to be timed once.
WARM_UP_TURNS = 1
ROUNDS = 2

QUERY_TO_CONNECTOR = 6.0
PARQUET_TO_CONNECTOR = 9.0
DUMP_TO_KAFKA = 10.0
VERIFY_TO_KAFKA = 5.0

Work = Callable[[], object]


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Queries and export in one session, then commands as processes of their own."""
    records = RECORDS if plan == FULL else QUICK_RECORDS
    with tempfile.TemporaryDirectory() as folder:
        with filled_broker(Path(folder), records) as broker:
            spark = session()
            for jar in class_path(JAVA / "spark-connector").split(":")[1:]:
                spark.sql(f"ADD JAR '{jar}'")
            yield from _queries(spark, broker, records)
            yield _export(spark, broker, records, Path(folder) / "out")
        yield from _commands(broker.log_dir, records)


@contextmanager
def filled_broker(folder: Path, records: int) -> Iterator[Broker]:
    """A running broker with one topic of lz4 batches, produced by kafka-producer-perf-test."""
    broker = new_broker(folder)
    broker.jvm = ("-Xmx1g",)  # as fast as it can be, unlike in tests
    payloads = folder / "payloads"
    payloads.write_text("\n".join(_values(10_000)))
    broker.start()
    address = ("--bootstrap-server", broker.bootstrap)
    topic = ("--create", "--topic", TOPIC, "--partitions", str(PARTITIONS))
    run_tool("org.apache.kafka.tools.TopicCommand", *address, *topic)
    run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", TOPIC, "--num-records", str(records), "--throughput", "-1"),
        *("--payload-file", str(payloads)),
        "--producer-props",
        f"bootstrap.servers={broker.bootstrap}",
        "compression.type=lz4",
        "linger.ms=20",
        "batch.size=65536",
    )
    try:
        yield broker
    finally:
        broker.stop()


def _values(number: int) -> Iterator[str]:
    """Lines of JSON, each VALUE_BYTES long."""
    source = random.Random(7)
    for index in range(number):
        fields = f'{{"id":{index},"user":"u{source.randrange(5000)}","amount":{source.random()}'
        yield f'{fields},"note":"'.ljust(VALUE_BYTES - 2, "x") + '"}'


def _queries(spark: SparkSession, broker: Broker, records: int) -> Iterator[tuple[str, ...]]:
    ours, theirs = _ours(spark, broker), connector_frame(spark, broker)
    assert ours.count() == theirs.count() == records
    work: list[tuple[str, Callable[[DataFrame], object], float]] = [
        ("count()", DataFrame.count, QUERY_TO_CONNECTOR),
        ("sum(length(value))", sum_lengths, QUERY_TO_CONNECTOR),
    ]
    for what, run, target in work:
        turns = {"ours": lambda run=run: run(ours), "theirs": lambda run=run: run(theirs)}
        best = best_of(records, WARM_UP_TURNS, ROUNDS, **turns)
        yield figure_line(f"{what}, and Spark's Kafka connector", best, target)


def _ours(spark: SparkSession, broker: Broker) -> DataFrame:
    return spark.read.format("kafka-log").option("subscribe", TOPIC).load(str(broker.log_dir))


def connector_frame(spark: SparkSession, broker: Broker, headers: str = "false") -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.option("subscribe", TOPIC).option("includeHeaders", headers).load()


def sum_lengths(frame: DataFrame) -> object:
    return frame.selectExpr("sum(length(value))").collect()


def _export(spark: SparkSession, broker: Broker, records: int, out: Path) -> tuple[str, ...]:
    names = (out / str(number) for number in count())

    def ours() -> None:
        chosen = ChosenLogs(list_catalog([str(broker.log_dir)]), Choice(topics=(TOPIC,)))
        run_output_job(SparkEngine(spark), plan_export(chosen, str(next(names)), ExportOptions()))

    def theirs() -> None:
        frame = connector_frame(spark, broker, headers="true")  # an export has them
        writer = frame.write.partitionBy("topic", "partition")
        writer.option("compression", "zstd").parquet(str(next(names)))

    best = best_of(records, WARM_UP_TURNS, ROUNDS, ours=ours, theirs=theirs)
    shutil.rmtree(out)
    what = "export to Parquet, and connector with Spark's writer"
    return figure_line(what, best, PARQUET_TO_CONNECTOR)


def _commands(log_dir: Path, records: int) -> Iterator[tuple[str, ...]]:
    logs = sorted(str(log) for log in log_dir.glob(f"{TOPIC}-*/*.log"))
    ottla = str(Path(sys.executable).with_name("ottla"))
    tool = java("org.apache.kafka.tools.DumpLogSegments", class_path(KAFKA), "-Xmx1g")
    tool += ["--files", ",".join(logs), "--deep-iteration"]
    commands: list[tuple[str, list[str], list[str], float]] = [
        (
            "dump, and kafka-dump-log --print-data-log",
            [ottla, "dump", "--format", "text", *logs],
            [*tool, "--print-data-log"],
            DUMP_TO_KAFKA,
        ),
        (
            "verify, and kafka-dump-log --deep-iteration",
            [ottla, "verify", str(log_dir), "--topic", TOPIC, "--quiet"],
            tool,
            VERIFY_TO_KAFKA,
        ),
    ]
    for what, ours, theirs, target in commands:
        turns = {"ours": lambda ours=ours: _run(ours), "theirs": lambda it=theirs: _run(it)}
        best = best_of(records, 0, 1, **turns)
        yield figure_line(what, best, target)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr


def best_of(records: int, warm_up: int, rounds: int, **contenders: Work) -> dict[str, float]:
    """Records per second of each; they take turns, of which the first `warm_up` do not count."""
    best = dict.fromkeys(contenders, 0.0)
    for number in range(warm_up + rounds):
        for name, work in contenders.items():
            begin = time.perf_counter()
            work()
            rate = records / (time.perf_counter() - begin)
            if number >= warm_up:
                best[name] = max(best[name], rate)
    return best


def figure_line(what: str, best: dict[str, float], target: float | None) -> tuple[str, ...]:
    ours, theirs = best["ours"], best["theirs"]
    return (what, millions(ours), millions(theirs), *ratio(ours, theirs, target))
