"""Random logs with transactions, cleaned by a broker, our rules and our job: the same bytes."""

import random
import time
from pathlib import Path

import pytest
from broker import Broker
from clients import create_topic
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from raw_client import RawClient
from test_append_rules import NONE
from test_transaction_rules import patiently

import naive
from builders import Row, batch
from choosing import choose
from jobs.compacting import compact_plainly
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.rules.cleaner.cleanable import CleanerConfig
from ottla.rules.cleaner.compaction import Round
from rules import cleaning
from rules.histories import TRANSACTIONAL

RETENTION = 0  # tombstones may go in the round after the one that saw them first
SEGMENT_MS = 10_000
DEADLINE = 60


class Writer:
    """Sends batches and remembers what the broker must have stored."""

    def __init__(self, client: RawClient, topic: str, folder: Path, seed: int) -> None:
        self.client = client
        self.topic = topic
        self.folder = folder
        self.source = random.Random(seed)
        # Markers carry the broker's clock: only records ahead of it make the segment roll.
        self.timestamp = int(time.time() * 1000) + 60_000
        self.end_offset = 0
        self.sequences = {-1: -1, 1000: 0, 1001: 0}
        self.segments: list[tuple[int, bytes]] = [(0, b"")]
        self.transactional_id = topic
        identity = patiently(lambda: client.init_producer_id(topic))
        self.identity = (identity[1], identity[2])
        self.transactional_sequence = 0

    def send(self, count: int) -> None:
        """A batch of a producer without a transaction."""
        producer_id = self.source.choice(list(self.sequences))
        sequence = self.sequences[producer_id]
        producer = (producer_id, 0 if producer_id >= 0 else -1, sequence)
        if producer_id >= 0:
            self.sequences[producer_id] += count
        self._send(self._rows(count), producer)

    def transact(self, count: int, *, commits: bool) -> None:
        """A transaction of one batch, and the marker that the coordinator writes for it."""
        asked = (self.transactional_id, self.identity)
        patiently(lambda: (self.client.add_partition(*asked, self.topic),))
        producer = (*self.identity, self.transactional_sequence)
        self._send(self._rows(count), producer, transactional_id=self.transactional_id)
        self.transactional_sequence += count
        assert self.client.end_transaction(*asked, commits=commits) == NONE
        deadline = time.monotonic() + DEADLINE
        while self.client.latest_offset(self.topic, committed=True) == self.end_offset - count:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        base, data = self.segments[-1]
        self.segments[-1] = (base, (self.folder / f"{base:020}.log").read_bytes())
        assert self.segments[-1][1].startswith(data)
        self.end_offset += 1

    def _rows(self, count: int) -> list[Row]:
        return [
            Row(
                at,
                self.timestamp + at,
                b"key %d" % self.source.randrange(8),
                None if self.source.random() < 0.2 else b"value %d" % self.source.randrange(99),
                ((b"h", b"1"),) if self.source.random() < 0.2 else (),
            )
            for at in range(count)
        ]

    def _send(
        self,
        rows: list[Row],
        producer: tuple[int, int, int],
        transactional_id: str | None = None,
    ) -> None:
        attributes = 0 if transactional_id is None else TRANSACTIONAL
        sent = batch(rows, producer=producer, attributes=attributes)
        produce = self.client.produce
        answer = patiently(lambda: produce(self.topic, sent, transactional_id=transactional_id))
        assert answer == (NONE, self.end_offset)
        stored = [row._replace(offset=self.end_offset + row.offset) for row in rows]
        base, data = self.segments[-1]
        stored_batch = batch(stored, producer=producer, attributes=attributes)
        self.segments[-1] = (base, data + stored_batch)
        self.end_offset += len(rows)

    def roll(self) -> None:
        """The next batch is so much later that it begins a segment."""
        self.timestamp += 2 * SEGMENT_MS
        self.segments.append((self.end_offset, b""))


def allow_cleaning(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry(
        "min.cleanable.dirty.ratio", "0.0001", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result()


def wait_until_cleaned(broker: Broker, topic: str, offset: int) -> None:
    """The cleaner says in its checkpoint how far it came."""
    checkpoint = broker.log_dir / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + DEADLINE
    while f"{topic} 0 {offset}" not in (checkpoint.read_text() if checkpoint.exists() else ""):
        assert time.monotonic() < deadline, checkpoint.read_text()
        time.sleep(0.1)


def cleaned_part(folder: Path, active_base: int) -> bytes:
    logs = sorted(folder.glob("*.log"))
    return b"".join(path.read_bytes() for path in logs if int(path.stem) < active_base)


def clean(data: bytes, rest: bytes, dirty: int, bound: int, now: int) -> bytes:
    cleaned, _ = cleaning.clean(data, rest, Round(bound, now, RETENTION), dirty=dirty)
    return cleaned.written.tobytes()


def compact(logs: Path, topic: str, segments: dict[int, bytes], dirty: int, now: int) -> bytes:
    """What the job of `ottla compact` leaves of these segments; the last one is active."""
    folder = logs / f"{topic}-0"
    folder.mkdir(parents=True)
    for base, data in segments.items():
        (folder / f"{base:020}.log").write_bytes(data)
    (logs / "cleaner-offset-checkpoint").write_text(f"0\n1\n{topic} 0 {dirty}\n")
    out = logs.with_name(f"{logs.name}-out")
    options = CompactOptions(config=CleanerConfig(0.0, delete_retention_ms=RETENTION))
    compact_plainly(plan_compaction(choose(logs), str(out), options, now=now))
    return cleaned_part(out / folder.name, max(segments))


def newest_horizon(data: bytes) -> int:
    """When the broker cleaned, as far as its output tells; else now."""
    lines = [line for line in naive.decode(data) if line["type"] == "batch"]
    horizons = [line["deleteHorizonMs"] for line in lines if line["deleteHorizonMs"] is not None]
    return max(horizons, default=int(time.time() * 1000))


@pytest.mark.parametrize("seed", range(4))
def test_two_rounds_of_the_brokers_cleaner_leave_the_same_bytes(
    broker: Broker, tmp_path: Path, seed: int
) -> None:
    topic = f"cleaned-{seed}"
    create_topic(
        broker.bootstrap,
        topic,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="1.0",
        segment_ms=str(SEGMENT_MS),
        delete_retention_ms=str(RETENTION),
    )
    folder = broker.log_dir / f"{topic}-0"
    with RawClient(broker.port) as client:
        writer = Writer(client, topic, folder, seed)
        for number in range(4):
            for _ in range(6):
                writer.send(writer.source.randint(1, 4))
            writer.transact(2, commits=number % 2 == 0)
            writer.roll()
        writer.send(1)
        first_bound = writer.segments[-1][0]
        original = b"".join(data for base, data in writer.segments if base < first_bound)
        assert cleaned_part(folder, first_bound) == original
        allow_cleaning(broker, topic)
        wait_until_cleaned(broker, topic, first_bound)
        once = cleaned_part(folder, first_bound)
        now = newest_horizon(once)
        assert clean(original, writer.segments[-1][1], 0, first_bound, now) == once
        assert compact(tmp_path / "first", topic, dict(writer.segments), 0, now) == once
        assert len(once) < len(original)

        middle = writer.segments[-1][1]
        writer.roll()
        writer.send(2)
        second_bound = writer.segments[-1][0]
        wait_until_cleaned(broker, topic, second_bound)
        twice = cleaned_part(folder, second_bound)
        now = max(newest_horizon(twice), newest_horizon(once))
        last = writer.segments[-1][1]
        assert clean(once + middle, last, first_bound, second_bound, now) == twice
        segments = {0: once, first_bound: middle, second_bound: last}
        assert compact(tmp_path / "second", topic, segments, first_bound, now) == twice
