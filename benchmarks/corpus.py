"""The segments that every benchmark reads: seeded, written by Kafka's MemoryRecordsBuilder."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.kafka_records import KafkaRecords

CODECS = ("none", "lz4", "snappy", "gzip", "zstd")
SEGMENTS = Path(__file__).parent / "java" / "target" / "segments"

_RECORD_OVERHEAD = 20  # key, header of every fourth record, varints: files of about equal size


@dataclass(frozen=True, slots=True)
class Case:
    """One file: what its records look like and how they were batched."""

    codec: str
    value_bytes: int = 100
    records_per_batch: int = 500
    shape: str = "text"

    def __str__(self) -> str:
        name = f"{self.codec}, {self.value_bytes} B, {self.records_per_batch} per batch"
        return name if self.shape == "text" else f"{name}, {self.shape}"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure."""

    cases: tuple[Case, ...]
    uncompressed_bytes: int
    rounds: int


FULL = Plan(
    cases=(
        *(Case(codec, value_bytes=size) for size, codec in product((100, 20, 1000), CODECS)),
        *(
            Case(codec, value_bytes=size, records_per_batch=count)
            for count, size, codec in product((5, 1), (100, 20, 1000), CODECS)
        ),
        *(
            Case(codec, shape=shape)
            for shape, codec in product(("headers", "nulls", "random", "repetitive"), CODECS)
        ),
    ),
    uncompressed_bytes=48 << 20,
    rounds=7,
)
QUICK = Plan(
    cases=(
        *(Case(codec) for codec in CODECS),
        *(
            Case(codec, records_per_batch=count)
            for count, codec in product((5, 1), ("none", "lz4"))
        ),
    ),
    uncompressed_bytes=8 << 20,
    rounds=3,
)


def segment(case: Case, plan: Plan) -> Path:
    """The file of a case, written the first time it is asked for."""
    records = plan.uncompressed_bytes // (case.value_bytes + _RECORD_OVERHEAD)
    name = f"{case.shape}-{case.codec}-{case.records_per_batch}-{case.value_bytes}-{records}.log"
    path = SEGMENTS / name
    if not path.exists():
        SEGMENTS.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        with KafkaRecords() as kafka:
            kafka.ask(
                f"generate {unfinished} {case.shape.upper()} {case.codec} "
                f"{case.records_per_batch} {case.value_bytes} {records}"
            )
        unfinished.rename(path)
    return path


def link_partitions(source: Path, root: Path, partitions: int) -> None:
    """One segment as every partition of a topic."""
    for number in range(partitions):
        target = root / f"orders-{number}" / f"{0:020d}.log"
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.hardlink_to(source)


def size_of(root: Path) -> int:
    """The bytes of all logs."""
    return sum(path.stat().st_size for path in root.rglob("*.log"))
