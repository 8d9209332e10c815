"""What three client libraries read of a partition, in one shape."""

import asyncio
import base64
from collections.abc import Callable
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from clients import JavaClients
from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as RdkafkaPartition

FETCH_WAIT_MS = 20  # at the end of a log nothing more will come


class Received(NamedTuple):
    """A record as an application gets it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


Consume = Callable[[str, str, str], list[Received]]


def consume_java(java: JavaClients, bootstrap: str, topic: str, isolation: str) -> list[Received]:
    """All records of partition 0."""
    config = {"bootstrap.servers": bootstrap, "isolation.level": isolation}
    config["fetch.max.wait.ms"] = str(FETCH_WAIT_MS)
    records = java.ask(do="consume", config=config, topic=topic, partition=0)
    return [
        Received(
            record["offset"],
            record["timestamp"],
            _bytes(record["key"]),
            _bytes(record["value"]),
            tuple((key, _bytes(value)) for key, value in record["headers"]),
        )
        for record in records
    ]


def consume_rdkafka(bootstrap: str, topic: str, isolation: str) -> list[Received]:
    """All records of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.partition.eof": "true",
            "fetch.wait.max.ms": str(FETCH_WAIT_MS),
            "enable.auto.commit": "false",
        }
    )
    consumer.assign([RdkafkaPartition(topic, 0, OFFSET_BEGINNING)])
    received: list[Received] = []
    # Its end-of-partition event comes as a message with an error.
    while (message := consumer.poll(30)) is not None and message.error() is None:
        headers = tuple((key, value) for key, value in message.headers() or ())
        timestamp = message.timestamp()[1]
        received.append(
            Received(message.offset(), timestamp, message.key(), message.value(), headers)
        )
    assert message is not None, "no end of partition"
    consumer.close()
    return received


def consume_aiokafka(bootstrap: str, topic: str, isolation: str) -> list[Received]:
    """All records of partition 0."""
    return asyncio.run(_consume_aiokafka(bootstrap, topic, isolation))


async def _consume_aiokafka(bootstrap: str, topic: str, isolation: str) -> list[Received]:
    partition = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level=isolation,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=FETCH_WAIT_MS,
    )
    await consumer.start()
    try:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        received: list[Received] = []
        while await consumer.position(partition) < end:
            for record in (await consumer.getmany(timeout_ms=200)).get(partition, []):
                headers = tuple(record.headers)
                received.append(
                    Received(record.offset, record.timestamp, record.key, record.value, headers)
                )
        return received
    finally:
        await consumer.stop()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
