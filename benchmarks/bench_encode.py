"""Encode: Arrow to batches in memory, against MemoryRecordsBuilder fed with byte arrays."""

from benchmarks import ours
from benchmarks.corpus import Case, Plan, segment
from benchmarks.kafka_records import KafkaRecords
from benchmarks.rounds import best_rates, timed
from benchmarks.table import millions, ratio
from benchmarks.targets import encode_target

HEADING = ("file", "Ottla Mrec/s", "Java", "ratio", "target", "size to Java's")


def row(case: Case, plan: Plan) -> tuple[str, ...]:
    """Measure one file: its rows are the input of both sides, its size is Java's output."""
    path = segment(case, plan)
    chunks = ours.rows(path, case.records_per_batch)
    count = sum(chunk.num_rows for chunk in chunks)
    size = ours.encoded_bytes(chunks, case)

    def encode() -> int:
        ours.encoded_bytes(chunks, case)
        return count

    with KafkaRecords() as kafka:
        kafka.ask(f"load {path}")
        kafka.ask("rows")
        question = f"encode {case.codec} {case.records_per_batch}"
        contenders = {
            "ottla": timed(encode),
            "java": lambda: kafka.ask(question),
        }
        best = best_rates(contenders, plan.rounds)
    return (
        str(case),
        millions(best["ottla"]),
        millions(best["java"]),
        *ratio(best["ottla"], best["java"], encode_target(case)),
        f"{size / path.stat().st_size:.3f}",
    )
