"""The two Python clients that can read batches from bytes: to Python objects, record by record."""

from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record import MemoryRecords as KafkaPythonRecords

PREFIX_BYTES = 4 << 20  # kafka-python needs seconds for more, and the rate is the same


def decode_aiokafka(data: bytes) -> int:
    """Every record as a Python object, CRC checked; returns how many."""
    count = 0
    records = AiokafkaRecords(data)
    while records.has_next():
        batch = records.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        for record in batch:
            _ = (record.offset, record.timestamp, record.key, record.value, record.headers)
            count += 1
    return count


def decode_kafka_python(data: bytes) -> int:
    """Every record as a Python object, CRC checked; returns how many."""
    count = 0
    records = KafkaPythonRecords(data)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        for record in batch:
            _ = (record.offset, record.timestamp, record.key, record.value, record.headers)
            count += 1
    return count
