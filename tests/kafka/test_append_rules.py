"""Random histories of idempotent producers, to a broker and to our rules: the same fate."""

import random
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from broker import Broker
from clients import create_topic
from raw_client import Answer, RawClient

from builders import Row, batch
from ottla.errors import Rule
from ottla.kernels.records.scan import scan
from ottla.kernels.tables import Batches, allocate_batches
from ottla.region import padded
from ottla.rules.producers.producer import (
    Duplicate,
    Origin,
    ProducerState,
    append,
    empty_state,
    no_markers,
)

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER_OR_FOLLOWER = 6
# org.apache.kafka.common.protocol.Errors
ERROR_CODES = {
    Rule.SEQUENCE_IN_ORDER: 45,
    Rule.PRODUCER_EPOCH_FENCED: 47,
    Rule.TRANSACTION_STATE: 48,
}
MAX_SEQUENCE = 2**31 - 1


class Try(NamedTuple):
    """One batch that a producer might send."""

    producer_id: int
    epoch: int
    sequence: int
    count: int


def history(seed: int, count: int) -> Iterator[Try]:
    """What goes on as it should, with retries, gaps, other epochs and sequences that wrap."""
    source = random.Random(seed)
    firsts = source.choice([(0, 0, 0), (0, 17, MAX_SEQUENCE - 3)])
    following = {producer: [0, first] for producer, first in enumerate(firsts, start=1000)}
    sent: list[Try] = []
    for _ in range(count):
        producer = source.choice(list(following))
        epoch, sequence = following[producer]
        kind = source.choices(["next", "retry", "gap", "epoch", "old"], [10, 4, 1, 1, 1])[0]
        attempt = Try(producer, epoch, sequence, source.randint(1, 4))
        if kind == "retry" and sent:
            attempt = source.choice(sent[-8:])
        elif kind == "gap":
            attempt = attempt._replace(sequence=(sequence + source.choice([1, 5])) & MAX_SEQUENCE)
        elif kind == "epoch":
            attempt = attempt._replace(epoch=epoch + 1, sequence=source.choice([0, 0, sequence]))
        elif kind == "old":
            attempt = attempt._replace(epoch=max(0, epoch - 1))
        sent.append(attempt)
        yield attempt
        if kind == "next" or (kind == "epoch" and attempt.sequence == 0):
            after = (attempt.sequence + attempt.count) & MAX_SEQUENCE
            following[producer] = [attempt.epoch, after]


def bytes_of(attempt: Try, base_offset: int, timestamp: int) -> bytes:
    rows = [Row(base_offset + index, timestamp, b"k", b"v") for index in range(attempt.count)]
    return batch(rows, producer=(attempt.producer_id, attempt.epoch, attempt.sequence))


def scanned(data: bytes) -> Batches:
    table = allocate_batches(1)
    scan(padded(data), 0, len(data), 0, table)
    return table


def judged(state: ProducerState, data: bytes, end_offset: int) -> Answer:
    """What our rules say, in the broker's words."""
    stopped = append(state, scanned(data), no_markers(1), Origin.CLIENT).stopped
    if stopped is None:
        return Answer(NONE, end_offset)
    if isinstance(stopped, Duplicate):
        return Answer(NONE, stopped.batch.first_offset)
    return Answer(ERROR_CODES[stopped.rule], -1)


@pytest.mark.parametrize("seed", range(12))
def test_idempotent_histories_meet_the_same_fate(broker: Broker, seed: int) -> None:
    topic = f"history-{seed}"
    create_topic(broker.bootstrap, topic)
    timestamp = int(time.time() * 1000)
    state = empty_state()
    stored = b""
    end_offset = 0
    fates = set()
    with RawClient(broker.port) as client:
        for attempt in history(seed, 80):
            answer = send_when_led(client, topic, bytes_of(attempt, 0, timestamp))
            data = bytes_of(attempt, end_offset, timestamp)
            assert judged(state, data, end_offset) == answer, attempt
            fates.add((answer.error_code, answer.base_offset < end_offset))
            if answer == (NONE, end_offset):
                stored += data
                end_offset += attempt.count
    assert (broker.log_dir / f"{topic}-0" / f"{0:020}.log").read_bytes() == stored
    assert len(fates) >= 3, "taken, refused and repeated"


def send_when_led(client: RawClient, topic: str, data: bytes) -> Answer:
    """The controller knows a topic a moment before the broker does, and that before its leader."""
    deadline = time.monotonic() + 30
    while True:
        answer = client.produce(topic, data)
        if answer.error_code not in (UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER):
            return answer
        assert time.monotonic() < deadline
        time.sleep(0.05)
