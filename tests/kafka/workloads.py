"""What is produced to the brokers: every codec, client, cleanup and transaction that we must read.

Timestamps are chosen, not taken from the clock: where a segment rolls depends on them alone.
"""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from broker import Broker
from clients import JavaClients, Rdkafka, Sent, create_topic, produce_aiokafka, send
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LEGACY_CODECS = ("none", "gzip", "snappy", "lz4")

SEGMENT_MS = 10_000
_HOUR = 3_600_000
_SETTLE_SECONDS = 60

_HEADERS = ((), (("a", b"1"),), (("trace-id", b"\x00\xff"), ("trace-id", None), ("ü", b"")))


def records(seed: int, count: int, *, first_timestamp: int, headers: bool = True) -> list[Sent]:
    """Null, empty, text and binary keys and values; timestamps that also run backwards."""
    source = random.Random(seed)
    return [
        Sent(
            key=source.choice([None, b"", b"k%d" % source.randrange(20), source.randbytes(9)]),
            value=source.choice([None, b"", b"value %d " % index * 9, source.randbytes(60)]),
            timestamp=first_timestamp + index * 7 - source.randrange(20),
            headers=source.choice(_HEADERS) if headers else (),
        )
        for index in range(count)
    ]


def groups(
    seed: int, *, count: int = 6, size: int = 40, headers: bool = True, begin: int | None = None
) -> list[list[Sent]]:
    """Groups of records, each far enough after the one before it to make the segment roll."""
    begin = _now() - _HOUR if begin is None else begin
    return [
        records(seed + index, size, first_timestamp=begin + index * 3 * SEGMENT_MS, headers=headers)
        for index in range(count)
    ]


def produce_current(broker: Broker, java: JavaClients) -> None:
    """Everything for a broker of the reference version."""
    for codec in CODECS:
        _java(broker, java, codec)
        _rdkafka(broker, codec)
        _aiokafka(broker, codec)
    _log_append_time(broker, java)
    _recompressed_by_the_broker(broker, java)
    _large(broker)
    _many_small_batches(broker)
    _transactions(broker, java)
    _expired(broker, java)
    _records_deleted(broker, java)
    _compacted(broker, java)
    _committed_offsets(broker)


def produce_legacy(broker: Broker, java: JavaClients) -> None:
    """Everything for the broker that writes message formats 0 and 1."""
    # Neither headers nor producer ids have a place in these formats (LogValidator refuses them).
    plain = {"enable_idempotence": "false"}
    for version, magic in (("0.9.0", 0), ("0.10.0", 1)):
        for codec in LEGACY_CODECS:
            topic = f"v{magic}-{codec}"
            create_topic(
                broker.bootstrap,
                topic,
                message_format_version=version,
                segment_ms=str(SEGMENT_MS),
            )
            steps = [send(topic, group) for group in groups(magic, headers=False)]
            java.produce(broker.bootstrap, steps, compression_type=codec, **plain)
            Rdkafka(broker.bootstrap, compression_codec=codec).send(
                topic, records(9, 50, first_timestamp=_now(), headers=False)
            )
    topic = "v1-log-append-time"
    create_topic(
        broker.bootstrap,
        topic,
        message_format_version="0.10.0",
        message_timestamp_type="LogAppendTime",
    )
    for codec in LEGACY_CODECS:
        steps = [send(topic, group) for group in groups(3, headers=False)]
        java.produce(broker.bootstrap, steps, compression_type=codec, **plain)
    _changing_formats(broker, java)


def _changing_formats(broker: Broker, java: JavaClients) -> None:
    """One file with all three magics, as an upgraded cluster leaves it."""
    topic = "mixed-magics"
    create_topic(broker.bootstrap, topic, message_format_version="0.9.0")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for version in ("0.9.0", "0.10.0", "2.8"):
        _alter(admin, topic, {"message.format.version": version})
        for codec in LEGACY_CODECS:
            step = send(topic, records(5, 30, first_timestamp=_now(), headers=False))
            java.produce(
                broker.bootstrap, [step], compression_type=codec, enable_idempotence="false"
            )


def _alter(admin: AdminClient, topic: str, config: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result()


def _java(broker: Broker, java: JavaClients, codec: str) -> None:
    topic = f"java-{codec}"
    create_topic(broker.bootstrap, topic, segment_ms=str(SEGMENT_MS))
    steps = [send(topic, group) for group in groups(10)]
    java.produce(broker.bootstrap, steps, compression_type=codec, linger_ms="20")


def _rdkafka(broker: Broker, codec: str) -> None:
    topic = f"rdkafka-{codec}"
    create_topic(broker.bootstrap, topic, segment_ms=str(SEGMENT_MS))
    for idempotence in ("false", "true"):
        client = Rdkafka(broker.bootstrap, compression_codec=codec, enable_idempotence=idempotence)
        for group in groups(20):
            client.send(topic, group)


def _aiokafka(broker: Broker, codec: str) -> None:
    topic = f"aiokafka-{codec}"
    create_topic(broker.bootstrap, topic, segment_ms=str(SEGMENT_MS))
    for idempotence in (False, True):
        produce_aiokafka(
            broker.bootstrap,
            topic,
            [_accepted_by_aiokafka(group) for group in groups(30)],
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotence,
        )


def _accepted_by_aiokafka(group: Sequence[Sent]) -> list[Sent]:
    return [record for record in group if record.key is not None or record.value is not None]


def _log_append_time(broker: Broker, java: JavaClients) -> None:
    topic = "log-append-time"
    create_topic(broker.bootstrap, topic, message_timestamp_type="LogAppendTime")
    for codec in CODECS:
        steps = [send(topic, group) for group in groups(40, count=2)]
        java.produce(broker.bootstrap, steps, compression_type=codec)


def _recompressed_by_the_broker(broker: Broker, java: JavaClients) -> None:
    for codec in CODECS[1:]:
        topic = f"broker-{codec}"
        create_topic(
            broker.bootstrap,
            topic,
            compression_type="uncompressed" if codec == "none" else codec,
        )
        steps = [send(topic, group) for group in groups(50, count=2)]
        java.produce(broker.bootstrap, steps, compression_type="none")


def _large(broker: Broker) -> None:
    """Messages of 900 KB, so that each has a segment of its own."""
    topic = "large"
    create_topic(broker.bootstrap, topic, segment_bytes=str(1 << 20))
    source = random.Random(60)
    for codec in ("none", "zstd"):
        client = Rdkafka(broker.bootstrap, compression_codec=codec)
        for index in range(4):
            value = source.randbytes(900_000)
            client.send(topic, [Sent(b"large", value, _now() + index)])


def _many_small_batches(broker: Broker) -> None:
    """Enough batches for index entries, one record each and up to a dozen."""
    topic = "small-batches"
    create_topic(broker.bootstrap, topic, partitions=2, index_interval_bytes="512")
    client = Rdkafka(broker.bootstrap, compression_codec="lz4")
    source = random.Random(70)
    for index in range(150):
        size = source.choice([1, 1, 5, 12])
        client.send(topic, records(index, size, first_timestamp=_now()), partition=index % 2)


def _transactions(broker: Broker, java: JavaClients) -> None:
    """Committed, aborted, interleaved and left open; by each client; over several segments."""
    topic = "transactions"
    create_topic(broker.bootstrap, topic, partitions=2, segment_ms=str(SEGMENT_MS))
    for number, codec in enumerate(("none", "lz4")):
        # Markers carry the broker's clock: only records ahead of it make the segment roll.
        ahead = _now() + (1 + 8 * number) * 3 * SEGMENT_MS
        steps: list[Sequence[object]] = [["init"]]
        for index, group in enumerate(groups(80 + number, count=8, size=10, begin=ahead)):
            partition = index % 2
            steps += [["begin"], send(topic, group[:5], partition), send(topic, group[5:], 1)]
            steps += [["abort" if index % 3 == 0 else "commit"]]
        java.produce(
            broker.bootstrap, steps, transactional_id=f"java-{codec}", compression_type=codec
        )
    _interleaved_by_rdkafka(broker, topic)
    produce_aiokafka(
        broker.bootstrap,
        topic,
        [_accepted_by_aiokafka(group) for group in groups(95, count=4, size=6)],
        outcome=lambda index: "commit" if index % 2 else "abort",
        transactional_id="aiokafka",
    )
    open_steps = [["init"], ["begin"], send(topic, records(99, 7, first_timestamp=_now()))]
    java.produce(
        broker.bootstrap,
        [*open_steps, ["leave"]],
        transactional_id="left-open",
        transaction_timeout_ms="86400000",
    )
    Rdkafka(broker.bootstrap).send(topic, records(98, 9, first_timestamp=_now()))


def _interleaved_by_rdkafka(broker: Broker, topic: str) -> None:
    first = Rdkafka(broker.bootstrap, transactional_id="rdkafka-1")
    second = Rdkafka(broker.bootstrap, transactional_id="rdkafka-2")
    for client in (first, second):
        client.producer.init_transactions()
    for index, group in enumerate(groups(90, count=4, size=8)):
        for client in (first, second):
            client.producer.begin_transaction()
        first.send(topic, group[:3])
        second.send(topic, group[3:6])
        first.send(topic, group[6:])
        first.producer.commit_transaction()
        if index % 2:
            second.producer.abort_transaction()
        else:
            second.producer.commit_transaction()


def _expired(broker: Broker, java: JavaClients) -> None:
    """Old segments deleted by retention: the log begins at a later one."""
    topic = "expired"
    create_topic(broker.bootstrap, topic, segment_ms=str(SEGMENT_MS), retention_ms=str(24 * _HOUR))
    old = [
        records(index, 30, first_timestamp=_now() - 72 * _HOUR + index * 3 * SEGMENT_MS)
        for index in range(3)
    ]
    steps = [send(topic, group) for group in [*old, *groups(110, count=3)]]
    java.produce(broker.bootstrap, steps)
    _wait_until(lambda: _first_base_offset(broker.log_dir / f"{topic}-0") > 0)


def _records_deleted(broker: Broker, java: JavaClients) -> None:
    """The log start offset moved into the middle of a segment, as kafka-delete-records does."""
    topic = "records-deleted"
    create_topic(broker.bootstrap, topic, segment_ms=str(SEGMENT_MS))
    java.produce(broker.bootstrap, [send(topic, group) for group in groups(120)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 100)]).values():
        deleted.result()


def _compacted(broker: Broker, java: JavaClients) -> None:
    """Cleaned twice by the broker: holes, tombstones with a horizon, markers, empty batches."""
    topic = "compacted"
    create_topic(
        broker.bootstrap,
        topic,
        cleanup_policy="compact",
        segment_ms=str(SEGMENT_MS),
        min_cleanable_dirty_ratio="0.01",
    )
    for number in range(2):
        keyed = [
            [record for record in group if record.key is not None]
            for group in groups(130 + number, count=4)
        ]
        steps: list[Sequence[object]] = [["init"]]
        for index, group in enumerate(keyed):
            steps += [["begin"], send(topic, group), ["abort" if index == 1 else "commit"]]
        java.produce(
            broker.bootstrap, steps, transactional_id=f"compacted-{number}", compression_type="lz4"
        )
        rolled = [Sent(b"last", b"x", _now() + (number + 1) * 3 * SEGMENT_MS)]
        java.produce(broker.bootstrap, [send(topic, rolled)])
        active = max(_base_offsets(broker.log_dir / f"{topic}-0"))
        _wait_until(lambda end=active: _cleaned_up_to(broker.log_dir, topic) >= end)


def _committed_offsets(broker: Broker) -> None:
    """Groups with committed offsets, for the internal topic."""
    _commit_of_a_member(broker)
    _commit_without_membership(broker)


def _commit_without_membership(broker: Broker) -> None:
    group = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing"})
    positions = [TopicPartition("small-batches", 0, 17), TopicPartition("small-batches", 1, 30)]
    group.commit(offsets=positions, asynchronous=False)
    group.close()


def _commit_of_a_member(broker: Broker) -> None:
    group = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
        }
    )
    group.subscribe(["java-none"])
    received = group.consume(50, timeout=30)
    assert received
    group.commit(asynchronous=False)
    group.close()


def _now() -> int:
    return int(time.time() * 1000)


def _base_offsets(partition: Path) -> list[int]:
    return sorted(int(path.stem) for path in partition.glob("*.log"))


def _first_base_offset(partition: Path) -> int:
    return _base_offsets(partition)[0]


def _cleaned_up_to(log_dir: Path, topic: str) -> int:
    checkpoint = log_dir / "cleaner-offset-checkpoint"
    for line in checkpoint.read_text().splitlines()[2:]:
        name, partition, offset = line.split()
        if (name, partition) == (topic, "0"):
            return int(offset)
    return 0


def _wait_until(happened: Callable[[], bool]) -> None:
    """The broker works in its own time; this is the one place that waits for it."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, "the broker did not get there"
        time.sleep(0.2)
