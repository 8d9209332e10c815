"""Walk the batch headers of a file, and check every CRC: against preadv and against Java.

Ours reads the file from the page cache; Java has it in memory already.
"""

import os
from pathlib import Path

from benchmarks import ours
from benchmarks.corpus import Case, Plan, segment
from benchmarks.kafka_records import Answer, KafkaRecords
from benchmarks.rounds import Turn, best_rates, timed
from benchmarks.table import ratio
from benchmarks.targets import VERIFY_TO_PREADV

HEADING = (
    "file",
    "headers GB/s",
    "Java",
    "verify GB/s",
    "Java",
    "preadv",
    "verify to preadv",
    "target",
)
WINDOW_BYTES = 512 << 10


def row(case: Case, plan: Plan) -> tuple[str, ...]:
    """Measure one file."""
    path = segment(case, plan)
    size = path.stat().st_size
    with KafkaRecords() as kafka:
        kafka.ask(f"load {path}")

        def java(question: str) -> Turn:
            return lambda: Answer(kafka.ask(question).seconds, size)

        contenders = {
            "headers": timed(lambda: ours.walk_headers(path)),
            "java headers": java("scan"),
            "verify": timed(lambda: ours.verify(path)),
            "java verify": java("verify"),
            "preadv": timed(lambda: read_with_preadv(path)),
        }
        best = best_rates(contenders, plan.rounds)
    figures = (f"{rate / 1e9:.1f}" for rate in best.values())
    return (str(case), *figures, *ratio(best["verify"], best["preadv"], VERIFY_TO_PREADV))


def read_with_preadv(path: Path) -> int:
    """Bring every byte of a file into one small buffer: the least that a check of it can do."""
    window = bytearray(WINDOW_BYTES)
    position = 0
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while count := os.preadv(descriptor, [window], position):
            position += count
    finally:
        os.close(descriptor)
    return position
