"""The log directory of a small cluster with a few troubles: what `ottla demo` shows everything on.

Seeded, so that every demo tells the same story.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.encode import encode, encode_control
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.format.attributes import Codec, ControlType
from ottla.format.names import Kind
from ottla.internal import CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.jobs.demo_internal import (
    Story,
    cluster_metadata,
    consumer_offsets,
    transaction_state,
)
from ottla.kernels.records.scan import scan
from ottla.kernels.tables import Batches, allocate_batches, take_batches
from ottla.log.files.identity import write_topic_id
from ottla.log.write.index_builder import SegmentConfig
from ottla.log.write.segment_writer import SegmentWriter
from ottla.publish.checked import StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import commit, is_published, publish, run_job, staged_path
from ottla.region import Region, padded

START: Final = 1_760_000_000_000
DAMAGED: Final = "payments-0"
_BROKEN_BYTE: Final = 91_359  # in the middle of its log
HANGING_PRODUCER: Final = 4002

_ORDER_MS: Final = 40  # between orders
_SEGMENTS: Final = SegmentConfig(segment_bytes=512 << 10)
_SMALL_SEGMENTS: Final = SegmentConfig(segment_bytes=48 << 10)  # the cleaner leaves the last alone
_TOPIC_IDS: Final = {
    "orders": "Zk3vQ1cJS0uW0Yq2yH8n4g",
    "clicks": "a7Jm0m2uQ5KX3e9bq1TtJw",
    "users": "Qw8sXo5ZRnSy0b3nVbT1mA",
    "payments": "mC9r1E4pTLa6e5T2s8Yk7w",
    CONSUMER_OFFSETS: "hX2cV7bNR9e4u1Fq0mZt3A",
    TRANSACTION_STATE: "pT6yL0sKQ3i8w5Gd2nXj1Q",
}
_CONFIGS: Final = {
    "orders": {"min.insync.replicas": "2"},
    "clicks": {"retention.ms": "-1"},
    "users": {"cleanup.policy": "compact", "segment.bytes": "49152"},
    CONSUMER_OFFSETS: {"cleanup.policy": "compact"},
    TRANSACTION_STATE: {"cleanup.policy": "compact"},
}
_METADATA_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"  # Uuid.METADATA_TOPIC_ID


class Topic(NamedTuple):
    """A partition of the demo: its directory and its batches in order."""

    directory: str
    batches: Iterator[bytes]
    segments: SegmentConfig = _SEGMENTS


class StagedTopic(NamedTuple):
    """A partition that is staged."""

    files: list[StagedFile]
    end: int
    hanging_from: int | None  # where the producer that never ended began


def make_logs(path: str) -> None:
    """Write the log directory, with one partition damaged as by a bad disk."""
    with run_job(path, "demo-data") as job:
        if is_published(job):
            return
        written = {topic.directory: _write(job, topic) for topic in _topics()}
        written[DAMAGED] = _damaged(job, written[DAMAGED])
        story = _story(written)
        for topic in _internal_topics(story):
            written[topic.directory] = _write(job, topic)
        commit(job, [file for one in written.values() for file in one.files], [])
        publish(job)


def _write(job: Job, topic: Topic) -> StagedTopic:
    writer = SegmentWriter(job, topic.directory, 0, topic.segments)
    hanging: list[int] = []
    for data in topic.batches:
        table = allocate_batches(len(data) // 26)
        held = padded(data)
        rows, _, _, _ = scan(held, 0, len(data), 0, table)
        batches = take_batches(table, slice(0, rows))
        writer.append(Region(held, len(data), topic.directory, 0), batches)
        hanging += _first_offsets(batches, HANGING_PRODUCER)
    name = topic.directory.rpartition("-")[0]
    topic_id = _TOPIC_IDS.get(name, _METADATA_ID)
    writer.stage("partition.metadata", write_topic_id(topic_id))
    return StagedTopic(writer.close(), writer.next_offset, hanging[0] if hanging else None)


def _first_offsets(batches: Batches, producer: int) -> list[int]:
    written = np.flatnonzero(batches.producer_id == producer)
    return [int(offset) for offset in batches.base_offset[written]]


def _story(written: dict[str, StagedTopic]) -> Story:
    hanging_from = next(one.hanging_from for one in written.values() if one.hanging_from)
    internal = {f"{name}-0": 0 for name in (CONSUMER_OFFSETS, TRANSACTION_STATE)}
    return Story(
        topic_ids=_TOPIC_IDS,
        ends={name: one.end for name, one in written.items()} | internal,
        hanging_producer=HANGING_PRODUCER,
        hanging_from=hanging_from,
        hanging_since=START + _ORDER_MS * hanging_from,
        start=START,
    )


def _topics() -> Iterator[Topic]:
    for partition in range(3):
        yield Topic(f"orders-{partition}", _orders(partition))
    yield Topic("clicks-0", _clicks())
    yield Topic("users-0", _users(), _SMALL_SEGMENTS)
    yield Topic(DAMAGED, _payments())


def _internal_topics(story: Story) -> Iterator[Topic]:
    yield Topic(f"{CONSUMER_OFFSETS}-0", consumer_offsets(story))
    yield Topic(f"{TRANSACTION_STATE}-0", transaction_state(story))
    yield Topic(f"{CLUSTER_METADATA}-0", cluster_metadata(story, _CONFIGS))


def _order(chance: random.Random, offset: int) -> NewRecord:
    customer = chance.randrange(500)
    value = {
        "order": offset,
        "customer": customer,
        "status": chance.choice(["placed", "paid", "shipped", "returned"]),
        "amount": round(chance.lognormvariate(3, 1), 2),
    }
    key = b"customer-%d" % customer
    headers = ((b"trace-id", b"%016x" % chance.getrandbits(64)),) if offset % 4 == 0 else ()
    return NewRecord(offset, START + _ORDER_MS * offset, key, json.dumps(value).encode(), headers)


def _orders(partition: int) -> Iterator[bytes]:
    """Idempotent and transactional producers; in partition 1 one of them never ended."""
    chance = random.Random(partition)  # noqa: S311
    sequences: dict[int, int] = {}
    offset = 0
    for number in range(60):
        producer = 4000 + number % 2
        transactional = number % 6 == 5
        if partition == 1 and number == 40:
            producer, transactional = HANGING_PRODUCER, True
        rows = [_order(chance, offset + index) for index in range(chance.randrange(50, 300))]
        new = NewBatch(
            codec=Codec.LZ4 if number < 40 else Codec.ZSTD,
            partition_leader_epoch=number // 25,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequences.get(producer, 0),
            is_transactional=transactional,
        )
        yield encode(pack_rows(rows), new)
        sequences[producer] = new.base_sequence + len(rows)
        offset += len(rows)
        if transactional and producer != HANGING_PRODUCER:
            verdict = ControlType.ABORT if number % 12 == 11 else ControlType.COMMIT
            yield _marker(new, verdict, offset)
            offset += 1


def _marker(new: NewBatch, verdict: ControlType, offset: int) -> bytes:
    marker = replace(new, codec=Codec.NONE, base_offset=offset, base_sequence=-1, is_control=True)
    return encode_control(marker, START + _ORDER_MS * offset, [(verdict, {"coordinatorEpoch": 3})])


def _clicks() -> Iterator[bytes]:
    """What a broker of 2015 left behind: v0, then v1, some of it in compressed wrappers."""
    chance = random.Random(7)  # noqa: S311
    for number in range(80):
        first = 100 * number
        rows = [
            NewRecord(
                first + index, -1 if number < 20 else START + first + index, None, _click(chance)
            )
            for index in range(100)
        ]
        magic = 0 if number < 20 else 1
        codec = (Codec.NONE, Codec.GZIP, Codec.SNAPPY)[number % 3]
        yield encode(pack_rows(rows), NewBatch(magic=magic, codec=codec))


def _click(chance: random.Random) -> bytes:
    return b"/%s?session=%08x" % (
        chance.choice([b"home", b"cart", b"search", b"item/42"]),
        chance.getrandbits(32),
    )


def _users() -> Iterator[bytes]:
    """A compacted topic before its cleaning: few keys, many versions, some deletions."""
    chance = random.Random(11)  # noqa: S311
    for number in range(50):
        rows = []
        for index in range(200):
            offset, user = 200 * number + index, chance.randrange(1000)
            value = None if chance.random() < 0.05 else b'{"city": %d}' % chance.randrange(90)
            rows.append(NewRecord(offset, START + offset, b"user-%d" % user, value))
        yield encode(pack_rows(rows), NewBatch(codec=Codec.GZIP, partition_leader_epoch=0))


def _payments() -> Iterator[bytes]:
    chance = random.Random(13)  # noqa: S311
    for number in range(60):
        first = 120 * number
        rows = [
            NewRecord(
                first + index,
                START + first + index,
                None,
                b'{"cents": %d}' % chance.getrandbits(20),
            )
            for index in range(120)
        ]
        yield encode(pack_rows(rows), NewBatch(partition_leader_epoch=0))


def _damaged(job: Job, written: StagedTopic) -> StagedTopic:
    """Flip a byte in the middle of the log, and lose its last bytes."""
    files = []
    for file in written.files:
        if file.target.endswith(Kind.LOG):
            file = file._replace(size=file.size - 700)
            with open(staged_path(job, file.staged), "r+b") as log:
                log.seek(_BROKEN_BYTE)
                byte = log.read(1)
                log.seek(_BROKEN_BYTE)
                log.write(bytes([byte[0] ^ 0x40]))
                log.truncate(file.size)
        files.append(file)
    return written._replace(files=files)
