"""Three client libraries behind one record type: Java, librdkafka (confluent-kafka), aiokafka."""

import asyncio
import base64
import json
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from benchmarks.maven import class_path, java
from broker import KAFKA
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic


@dataclass(frozen=True, slots=True)
class Sent:
    """A record as an application hands it to a producer."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


def create_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> None:
    """Create a topic; Kafka's config names have dots, ours underscores."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(name, partitions, 1, config=settings)
    for created in admin.create_topics([new]).values():
        created.result()


class JavaClients:
    """One JVM that answers questions.Clients."""

    def __init__(self) -> None:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        command = java("questions.Clients", class_path(KAFKA), "-Xmx512m", quiet)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def ask(self, **request: object) -> Any:
        """Send one request of Clients.java and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the JVM ended at {request['do']}"
        return json.loads(line)

    def produce(
        self, bootstrap: str, steps: Sequence[Sequence[object]], **config: str
    ) -> list[int]:
        """Run the steps of Clients.java's produce in one producer."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        settings["bootstrap.servers"] = bootstrap
        offsets: list[int] = self.ask(do="produce", config=settings, steps=steps)
        return offsets


def send(topic: str, records: Iterable[Sent], partition: int = 0) -> list[object]:
    """The step of JavaClients.produce that sends records."""
    return ["send", [_as_json(topic, partition, record) for record in records]]


def _as_json(topic: str, partition: int, record: Sent) -> dict[str, object]:
    return {
        "topic": topic,
        "partition": partition,
        "timestamp": record.timestamp,
        "key": _base64(record.key),
        "value": _base64(record.value),
        "headers": [[key, _base64(value)] for key, value in record.headers],
    }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


class Rdkafka:
    """A librdkafka producer that fails the test when a record was not delivered."""

    def __init__(self, bootstrap: str, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": "20"} | settings)

    def send(self, topic: str, records: Iterable[Sent], partition: int = 0) -> None:
        """Send and wait for all acknowledgements."""
        for record in records:
            self.producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                timestamp=record.timestamp,
                headers=list(record.headers),
                on_delivery=_must_be_delivered,
            )
        assert self.producer.flush(60) == 0


def _must_be_delivered(error: KafkaError | None, message: Message) -> None:
    assert error is None, error


def produce_aiokafka(
    bootstrap: str,
    topic: str,
    groups: Sequence[Sequence[Sent]],
    outcome: Callable[[int], str] | None = None,
    **config: object,
) -> None:
    """Send groups of records; with `outcome` each group is a transaction that ends in it."""
    asyncio.run(_produce_aiokafka(bootstrap, topic, groups, outcome, config))


async def _produce_aiokafka(
    bootstrap: str,
    topic: str,
    groups: Sequence[Sequence[Sent]],
    outcome: Callable[[int], str] | None,
    config: dict[str, object],
) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **config)
    await producer.start()
    try:
        for index, group in enumerate(groups):
            if outcome is not None:
                await producer.begin_transaction()
            await _send_aiokafka(producer, topic, group)
            if outcome is not None and outcome(index) == "commit":
                await producer.commit_transaction()
            elif outcome is not None:
                await producer.abort_transaction()
    finally:
        await producer.stop()


async def _send_aiokafka(producer: AIOKafkaProducer, topic: str, group: Sequence[Sent]) -> None:
    sent = [
        await producer.send(
            topic,
            record.value,
            record.key,
            partition=0,
            timestamp_ms=record.timestamp,
            headers=list(record.headers),
        )
        for record in group
    ]
    await asyncio.gather(*sent)
