"""The log directory of a small, unlucky cluster: what `ottla demo` shows everything on.

Seeded, so that every demo tells the same story.
"""

import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from ottla.batch.encode import encode, encode_control
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.format.attributes import Codec, ControlType
from ottla.kernels.records.scan import scan
from ottla.kernels.tables import allocate_batches, take_batches
from ottla.log.files.identity import write_topic_id
from ottla.log.write.index_builder import SegmentConfig
from ottla.log.write.segment_writer import SegmentWriter
from ottla.publish.checked import StagedFile
from ottla.publish.journal import commit, is_published, publish, run_job
from ottla.region import Region, padded

START: Final = 1_760_000_000_000
DAMAGED: Final = "payments-0"
HANGING_PRODUCER: Final = 4002

_SEGMENTS: Final = SegmentConfig(segment_bytes=512 << 10)
_TOPIC_IDS: Final = {
    "orders": "Zk3vQ1cJS0uW0Yq2yH8n4g",
    "clicks": "a7Jm0m2uQ5KX3e9bq1TtJw",
    "users": "Qw8sXo5ZRnSy0b3nVbT1mA",
    "payments": "mC9r1E4pTLa6e5T2s8Yk7w",
}


class Topic(NamedTuple):
    """A partition of the demo: its directory and its batches in order."""

    directory: str
    batches: Iterator[bytes]


def make_logs(path: str) -> None:
    """Write the log directory, then damage one partition of it as a bad disk would."""
    with run_job(path, "demo-data") as job:
        if is_published(job):
            return
        files: list[StagedFile] = []
        for topic in _topics():
            writer = SegmentWriter(job, topic.directory, 0, _SEGMENTS)
            for data in topic.batches:
                table = allocate_batches(len(data) // 26)
                held = padded(data)
                rows, _, _, _ = scan(held, 0, len(data), 0, table)
                batches = take_batches(table, slice(0, rows))
                writer.append(Region(held, len(data), topic.directory, 0), batches)
            name = topic.directory.rpartition("-")[0]
            writer.stage("partition.metadata", write_topic_id(_TOPIC_IDS[name]))
            files += writer.close()
        commit(job, files, [])
        publish(job)
    _damage(os.path.join(path, DAMAGED))


def _topics() -> Iterator[Topic]:
    for partition in range(3):
        yield Topic(f"orders-{partition}", _orders(partition))
    yield Topic("clicks-0", _clicks())
    yield Topic("users-0", _users())
    yield Topic(DAMAGED, _payments())


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
    return NewRecord(offset, START + 40 * offset, key, json.dumps(value).encode(), headers)


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
    return encode_control(marker, START + 40 * offset, [(verdict, {"coordinatorEpoch": 3})])


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


def _damage(directory: str) -> None:
    """Flip a byte in the middle, and lose the last bytes."""
    log = os.path.join(directory, "00000000000000000000.log")
    size = os.path.getsize(log)
    with open(log, "r+b") as file:
        file.seek(size // 2)
        byte = file.read(1)
        file.seek(size // 2)
        file.write(bytes([byte[0] ^ 0x40]))
        file.truncate(size - 700)
