"""Random histories of transactional producers, to a broker and to our rules: the same fate."""

import copy
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from broker import Broker
from clients import create_topic
from raw_client import Answer, RawClient
from tally import compared
from test_append_rules import (
    ERROR_CODES,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION,
    judged,
    scanned,
)
from test_append_verdicts import wait_for
from verification import Verification, skips_a_write, verify

import naive
from builders import Row, batch
from ottla.errors import Rule
from ottla.rules.producers.producer import (
    Origin,
    append,
    empty_state,
    entry,
)
from ottla.rules.producers.transactions import Transactions
from rules.histories import ABORT, COMMIT, TRANSACTIONAL, marker, tables

STEPS = 80
PATIENCE = 30
# org.apache.kafka.common.protocol.Errors
COORDINATOR_LOAD_IN_PROGRESS = 14
NOT_ENOUGH_REPLICAS = 19  # what old clients are told for "ask again"
INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING = 47, 48, 49
CONCURRENT_TRANSACTIONS = 51
AGAIN = (
    UNKNOWN_TOPIC_OR_PARTITION,
    NOT_LEADER_OR_FOLLOWER,
    COORDINATOR_LOAD_IN_PROGRESS,
    NOT_ENOUGH_REPLICAS,
    CONCURRENT_TRANSACTIONS,
)
FENCED = Answer(INVALID_PRODUCER_EPOCH, -1)


class Try(NamedTuple):
    """One batch that might be sent, and on whose behalf."""

    transactional_id: str
    producer_id: int
    epoch: int
    sequence: int
    count: int
    is_transactional: bool


class Producer:
    """A transactional id: what its coordinator knows, and the sequence that its client is at."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.producer_id, self.epoch = -1, -1
        self.sequence = 0
        self.is_ongoing = False  # and the partition was added

    @property
    def identity(self) -> tuple[int, int]:
        return self.producer_id, self.epoch


class History:
    """A partition of the broker and ours, step by step."""

    def __init__(self, client: RawClient, topic: str, log: Path, seed: int) -> None:
        self.client = client
        self.topic = topic
        self.log = log
        self.source = random.Random(seed)
        self.now = int(time.time() * 1000)
        self.state = empty_state()
        self.verifications: dict[int, Verification] = {}
        self.transactions = Transactions()
        self.stored = b""
        self.sent: list[Try] = []
        self.fates: set[tuple[int, bool]] = set()
        self.producers = {f"{topic}-{at}": Producer(f"{topic}-{at}") for at in range(3)}
        for producer in self.producers.values():
            self.init(producer)

    def step(self) -> None:
        producer = self.source.choice(list(self.producers.values()))
        kinds = {"begin": 3, "commit": 2, "abort": 1, "init": 1, "next": 9}
        kinds |= {"retry": 3, "gap": 1, "old": 1, "plain": 1, "stranger": 1}
        kind = self.source.choices(list(kinds), list(kinds.values()))[0]
        if kind == "init":
            self.init(producer)
        elif kind == "begin":
            self.begin(producer)
        elif kind in ("commit", "abort"):
            self.end(producer, COMMIT if kind == "commit" else ABORT)
        else:
            self.send(producer, self.attempt(producer, kind))
        stable = self.client.latest_offset(self.topic, committed=True)
        assert self.transactions.last_stable_offset() == stable

    def init(self, producer: Producer) -> None:
        """A new epoch; before it is given, a transaction that was open is aborted."""
        ask = self.client.init_producer_id
        if producer.is_ongoing:
            assert ask(producer.transactional_id).error_code == CONCURRENT_TRANSACTIONS
            self.expect_marker(producer, ABORT)
        answer = patiently(lambda: ask(producer.transactional_id))
        error_code, producer.producer_id, producer.epoch = answer
        assert error_code == NONE
        producer.sequence = 0

    def begin(self, producer: Producer) -> None:
        """What a client sends before its first write to a partition."""
        asked = (producer.transactional_id, producer.identity, self.topic)
        assert patiently(lambda: (self.client.add_partition(*asked),)) == (NONE,)
        producer.is_ongoing = True

    def end(self, producer: Producer, control_type: int) -> None:
        """Commit or abort, if there is something to end."""
        if producer.is_ongoing:
            asked = (producer.transactional_id, producer.identity)
            commits = control_type == COMMIT
            assert self.client.end_transaction(*asked, commits=commits) == NONE
            self.expect_marker(producer, control_type)

    def expect_marker(self, producer: Producer, control_type: int) -> None:
        """Wait for a marker; the clock and the epochs in it are the coordinator's."""
        end_offset = self.transactions.end_offset
        deadline = time.monotonic() + PATIENCE
        while self.client.latest_offset(self.topic, committed=False) == end_offset:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        data = self.log.read_bytes()[len(self.stored) :]
        header, record, _ = naive.decode(data)
        (coordinator_epoch,) = struct.unpack_from(">i", record["value"], 2)
        ours = marker(
            end_offset,
            producer.producer_id,
            header["producerEpoch"],
            control_type,
            coordinator_epoch=coordinator_epoch,
            timestamp=record["timestamp"],
        )
        assert data == ours
        _, batches, markers = tables(ours)
        assert append(self.state, batches, markers, Origin.COORDINATOR).stopped is None
        self.store(ours)
        self.verifications.pop(producer.producer_id, None)
        producer.is_ongoing = False

    def attempt(self, producer: Producer, kind: str) -> Try:
        count = self.source.randint(1, 3)
        following = Try(
            producer.transactional_id, *producer.identity, producer.sequence, count, True
        )
        if kind == "retry" and self.sent:
            return self.source.choice(self.sent[-6:])
        if kind == "gap":
            return following._replace(sequence=producer.sequence + 4)
        if kind == "old":
            return following._replace(epoch=max(0, producer.epoch - 1))
        if kind == "plain":
            return following._replace(is_transactional=False)
        if kind == "stranger":
            return following._replace(transactional_id=self.source.choice(list(self.producers)))
        return following

    def send(self, producer: Producer, attempt: Try) -> None:
        transactional_id = attempt.transactional_id if attempt.is_transactional else None
        data = self.bytes_of(attempt, 0)
        produce = self.client.produce
        answer = patiently(lambda: produce(self.topic, data, transactional_id=transactional_id))
        end_offset = self.transactions.end_offset
        data = self.bytes_of(attempt, end_offset)
        assert self.fate(attempt, data, end_offset) == answer, attempt
        self.fates.add((answer[0], answer[1] < end_offset))
        self.sent.append(attempt)
        if answer == (NONE, end_offset):
            self.store(data)
            if attempt[1:3] == producer.identity:
                producer.sequence = attempt.sequence + attempt.count

    def bytes_of(self, attempt: Try, base_offset: int) -> bytes:
        rows = [Row(base_offset + at, self.now, b"k", b"v") for at in range(attempt.count)]
        attributes = TRANSACTIONAL if attempt.is_transactional else 0
        return batch(rows, attributes=attributes, producer=attempt[1:4])

    def fate(self, attempt: Try, data: bytes, end_offset: int) -> Answer:
        """What our rules say, in the broker's words, after the coordinator had its say."""
        if attempt.is_transactional:
            known = entry(self.state, attempt.producer_id)
            if known is not None and attempt.epoch < known.producer_epoch:
                return FENCED
            is_open = known is not None and known.transaction_first_offset is not None
            if known is None or not is_open or known.producer_epoch != attempt.epoch:
                # UnifiedLog.maybeStartTransactionVerification
                awaited = self.verifications.get(attempt.producer_id)
                self.verifications[attempt.producer_id] = verify(
                    awaited, attempt.sequence, attempt.epoch, self.now
                )
                word = self.word_of_the_coordinator(attempt)
                if word != NONE:
                    return Answer(word, -1)
        awaited = self.verifications.get(attempt.producer_id)
        if skips_a_write(awaited, scanned(data), 0):
            # Repeats and old epochs are found before, but nothing else is.
            alone = judged(copy.deepcopy(self.state), data, end_offset)
            if alone == FENCED or (alone.error_code == NONE and alone.base_offset < end_offset):
                return alone
            return Answer(ERROR_CODES[Rule.SEQUENCE_IN_ORDER], -1)
        answer = judged(self.state, data, end_offset)
        if attempt.is_transactional and answer == (NONE, end_offset):
            self.verifications.pop(attempt.producer_id, None)
        return answer

    def word_of_the_coordinator(self, attempt: Try) -> int:
        """TransactionCoordinator.handleVerifyPartitionsInTransaction."""
        known = self.producers[attempt.transactional_id]
        if attempt.producer_id != known.producer_id:
            return INVALID_PRODUCER_ID_MAPPING
        if attempt.epoch != known.epoch:
            return INVALID_PRODUCER_EPOCH
        return NONE if known.is_ongoing else INVALID_TXN_STATE

    def store(self, data: bytes) -> None:
        _, batches, markers = tables(data)
        self.stored += data
        assert self.transactions.add(batches, markers) == []


def patiently(ask: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
    """Ask until the broker is ready: for the partition, or done with the transaction before."""
    deadline = time.monotonic() + PATIENCE
    while (answer := ask())[0] in AGAIN:
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
    return answer


@pytest.mark.parametrize("seed", range(6))
def test_transactional_histories_meet_the_same_fate(broker: Broker, seed: int) -> None:
    topic = f"transactional-history-{seed}"
    create_topic(broker.bootstrap, topic)
    log = broker.log_dir / f"{topic}-0" / f"{0:020}.log"
    wait_for(log)
    with RawClient(broker.port) as client:
        history = History(client, topic, log, seed)
        for _ in range(STEPS):
            history.step()
    assert log.read_bytes() == history.stored
    compared["records"] += history.transactions.end_offset
    assert len(history.fates) >= 4, "taken, repeated and refused for several reasons"
