"""Batches that other people's clients read: aiokafka and kafka-python."""

from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from kafka.record.memory_records import MemoryRecords as PythonRecords

from ottla.batch.encode import encode
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.format.attributes import CODEC_NAMES, Codec

ROWS = [
    NewRecord(
        100 + index,
        1700000000000 + index * 7,
        None if index % 3 == 0 else b"key-%d" % index,
        b"v" * index,
    )
    for index in range(200)
]
WITH_HEADERS = [row._replace(headers=[(b"h", b"1"), (b"n", None)]) for row in ROWS]
CLIENTS = {"aiokafka": AioRecords, "kafka-python": PythonRecords}


def can_read(client: str, magic: int, codec: int) -> bool:
    """What a client is able to: one wants the right lz4 checksum in magic 0, one has no snappy."""
    if client == "aiokafka":
        return (magic, codec) != (0, Codec.LZ4)
    return codec != Codec.SNAPPY


CASES = [
    pytest.param(client, magic, codec, id=f"{client}-v{magic}-{CODEC_NAMES[codec]}")
    for client in CLIENTS
    for magic in (0, 1, 2)
    for codec in range(5)
    if (magic == 2 or codec < Codec.ZSTD) and can_read(client, magic, codec)
]


def records(reader: Any) -> list[Any]:
    found = []
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        found += list(batch)
    return found


@pytest.mark.parametrize(("client", "magic", "codec"), CASES)
def test_a_client_reads_the_records(client: str, magic: int, codec: int) -> None:
    rows = WITH_HEADERS if magic == 2 else ROWS
    found = records(CLIENTS[client](encode(pack_rows(rows), NewBatch(magic=magic, codec=codec))))
    assert [(record.offset, record.key, record.value) for record in found] == [
        (row.offset, row.key, row.value) for row in rows
    ]
    expected = [row.timestamp if magic else None for row in rows]
    assert [record.timestamp for record in found] == expected
    if magic == 2:
        assert [list(record.headers) for record in found] == [[("h", b"1"), ("n", None)]] * len(
            rows
        )


def test_a_client_reads_the_producer_and_the_transaction() -> None:
    new = NewBatch(producer_id=9, producer_epoch=3, base_sequence=5, is_transactional=True)
    batch = AioRecords(encode(pack_rows(ROWS), new)).next_batch()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 3, 5)
    assert batch.is_transactional
