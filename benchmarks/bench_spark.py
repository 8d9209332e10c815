"""The Spark source against a null source: one that yields ready-made batches of the same columns.

What the null source takes is Spark's own cost of bringing Arrow batches from Python into the JVM.
The driver's Python must find both `ottla` and this folder: run it from the project's root.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from benchmarks.corpus import SEGMENTS, Case, Plan, link_partitions, segment, size_of
from benchmarks.rounds import WARM_UP_TURNS, best_rates, timed
from benchmarks.table import millions, ratio
from ottla.connector import CONNECTOR_COLUMNS
from ottla.options.read import ReadOptions, for_batch, parse_read_options
from ottla.spark.reader import KafkaLogReader

HEADING = ("what", "Ottla", "against", "ratio", "target")
CODECS = ("none", "lz4", "zstd")
PARTITIONS = 24  # the same file under so many names: enough to hide that a query has to start
LARGE = 1 << 30
MOST_ROUNDS = 4  # a turn takes seconds

TO_NULL_SOURCE = 0.9
OFFSETS_TO_ALL = 3.0


class NullSource(DataSource):
    """`blueprint` is a log directory whose tasks and first batch it repeats without decoding."""

    @classmethod
    def name(cls) -> str:
        return "null-log"

    def schema(self) -> StructType:
        return from_arrow_schema(CONNECTOR_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        given = {"path": self.options["blueprint"]}
        if "splitbytes" in self.options:
            given["splitbytes"] = self.options["splitbytes"]
        return NullReader(for_batch(parse_read_options(given)), schema)


class NullReader(DataSourceReader):
    """As many tasks and rows as the real source.

    The batch is in a file: in the reader it would travel with each task, which costs Spark more
    than reading it.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        real = KafkaLogReader(options, schema)
        self.counts = []
        for partition in real.partitions():
            batches = real.read(partition)
            first = next(batches)
            self.counts.append(1 + sum(1 for _ in batches))
        self.ready = f"{tempfile.mkdtemp()}/batch.arrow"
        with pa.ipc.new_file(self.ready, first.schema) as writer:
            writer.write_batch(first)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(count) for count in self.counts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = pa.ipc.open_file(self.ready).get_batch(0)
        for _ in range(partition.value):
            yield batch


@cache
def session() -> SparkSession:
    """Two cores, with the settings that docs/spark.md advises."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.python.daemon.module": "ottla.spark.daemon",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(NullSource)
    return spark


def log_directory(case: Case, plan: Plan) -> Path:
    """The case's segment as every partition of a topic."""
    source = segment(case, plan)
    root = SEGMENTS / "spark" / source.stem
    link_partitions(source, root, PARTITIONS)
    return root


def large_directory(plan: Plan) -> Path:
    """One segment of LARGE bytes; offsets repeat, which a read without bounds does not mind."""
    source = segment(Case("none"), plan)
    target = SEGMENTS / "spark-large" / "orders-0" / f"{0:020d}.log"
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        data = source.read_bytes()
        with target.open("wb") as out:
            for _ in range(-(-LARGE // len(data))):
                out.write(data)
    return target.parent.parent


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Throughput for each codec, then what a second core gives; all in one JVM, warmed up once."""
    for codec in CODECS:
        root = log_directory(Case(codec), plan)
        one = {"splitBytes": str(2 * size_of(root))}
        first = WARM_UP_TURNS if codec == CODECS[0] else 1
        yield from _throughput(f"{codec}, one task", str(root), one, plan, first)
        yield from _throughput(f"{codec}, two at a time", str(root), {}, plan, 1)
    yield from _scaling(plan)


def _throughput(
    case: str, root: str, options: dict[str, str], plan: Plan, warm_ups: int
) -> Iterator[tuple[str, ...]]:
    """One task has a core besides the JVM's, as on a cluster that is not full; two share them."""
    ours, null = (
        _load("kafka-log", path=root, **options),
        _load("null-log", blueprint=root, **options),
    )
    narrow = session().read.format("kafka-log").schema("offset bigint")
    contenders = {
        "ours": timed(ours.count),
        "null": timed(null.count),
        "ours sum": timed(_summing(ours)),
        "null sum": timed(_summing(null)),
        "offsets": timed(narrow.options(**options).load(root).count),
    }
    best = best_rates(contenders, min(plan.rounds, MOST_ROUNDS), warm_ups)
    pairs = [
        ("count(), Mrec/s, and the null source", "ours", "null", TO_NULL_SOURCE),
        ("sum(length(value)), Mrec/s, and the null source", "ours sum", "null sum", TO_NULL_SOURCE),
        ("count() of offsets only, Mrec/s, and of all columns", "offsets", "ours", OFFSETS_TO_ALL),
    ]
    for what, one, other, target in pairs:
        figures = millions(best[one]), millions(best[other])
        yield (f"{case}: {what}", *figures, *ratio(best[one], best[other], target))


def _scaling(plan: Plan) -> Iterator[tuple[str, ...]]:
    """By tasks, and by cores: one task alone keeps more than one core busy."""
    root = str(large_directory(plan))
    size = size_of(Path(root))
    whole, half = str(2 * size), str(size // 2 + 1)
    frames = {
        (name, tasks): _load(source, **{place: root}, splitBytes=split)
        for name, source, place in (
            ("ours", "kafka-log", "path"),
            ("null", "null-log", "blueprint"),
        )
        for tasks, split in ((1, whole), (2, half))
    }
    turns = {f"{name} {tasks} 2": timed(frame.count) for (name, tasks), frame in frames.items()}
    turns |= {
        f"{name} 2 1": timed(_on_one_core(frames[name, 2].count)) for name in ("ours", "null")
    }
    best = best_rates(turns, min(plan.rounds, MOST_ROUNDS), 1)
    kinds = {"two tasks to one on two cores": "1 2", "two tasks on two cores to one core": "2 1"}
    for what, less in kinds.items():
        ours, null = (best[f"{name} 2 2"] / best[f"{name} {less}"] for name in ("ours", "null"))
        figures = f"{ours:.2f}", f"{null:.2f}"
        yield (f"{what}, 1 GiB, and the null source", *figures, *ratio(ours, null, TO_NULL_SOURCE))


def _on_one_core(work: Callable[[], int]) -> Callable[[], int]:
    """Hold the JVM and its Python workers to one core meanwhile."""

    def run() -> int:
        allowed = os.sched_getaffinity(0)
        _hold_to({min(allowed)})
        try:
            return work()
        finally:
            _hold_to(allowed)

    return run


def _hold_to(cores: set[int]) -> None:
    for process in _descendants(os.getpid()):
        for thread in Path(f"/proc/{process}/task").glob("*"):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), cores)


def _descendants(process: int) -> Iterator[int]:
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # the thread may have ended
            for child in map(int, children.read_text().split()):
                yield child
                yield from _descendants(child)


def _load(source: str, **options: str) -> DataFrame:
    return session().read.format(source).options(**options).load()


def _summing(frame: DataFrame) -> Callable[[], int]:
    count = frame.count()

    def work() -> int:
        frame.selectExpr("sum(length(value))").collect()
        return count

    return work
