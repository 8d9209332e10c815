"""Decode: bytes in memory to Arrow, against Kafka's streamingIterator and the Python clients.

Both sides check the CRC and end with key, value, offset, timestamp and headers copied out of the
segment; one thread each.
"""

from kafka.errors import UnsupportedCodecError

from benchmarks import ours
from benchmarks.corpus import Case, Plan, segment
from benchmarks.kafka_records import KafkaRecords
from benchmarks.python_clients import PREFIX_BYTES, decode_aiokafka, decode_kafka_python
from benchmarks.rounds import best_rates, rate_once, timed
from benchmarks.table import millions, ratio
from benchmarks.targets import decode_target

HEADING = ("file", "Ottla Mrec/s", "Java", "ratio", "target", "aiokafka", "kafka-python")


def row(case: Case, plan: Plan) -> tuple[str, ...]:
    """Measure one file."""
    path = segment(case, plan)
    data = path.read_bytes()
    held = ours.hold(data)
    with KafkaRecords() as kafka:
        kafka.ask(f"load {path}")
        contenders = {
            "ottla": timed(lambda: ours.decode(held)),
            "java": lambda: kafka.ask("decode"),
            "aiokafka": timed(lambda: decode_aiokafka(data[:PREFIX_BYTES])),
        }
        best = best_rates(contenders, plan.rounds)
    return (
        str(case),
        millions(best["ottla"]),
        millions(best["java"]),
        *ratio(best["ottla"], best["java"], decode_target(case)),
        millions(best["aiokafka"]),
        _kafka_python(data),
    )


def _kafka_python(data: bytes) -> str:
    try:
        return millions(rate_once(lambda: decode_kafka_python(data[: PREFIX_BYTES // 8])))
    except UnsupportedCodecError:  # it needs packages of its own for some codecs
        return "-"
