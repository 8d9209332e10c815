"""Random histories of producers, coordinators, retries and restarts against the naive broker."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.errors import Rule
from ottla.rules.producers.producer import (
    Appended,
    Duplicate,
    Origin,
    append,
    empty_state,
    open_rows,
    remove_expired,
)
from ottla.rules.producers.snapshots import from_snapshot, to_snapshot
from rules.histories import data_batch, known_producers, marker, tables
from rules.naive_producers import MAX, Broker

WORDS = {
    Rule.PRODUCER_EPOCH_FENCED: "fenced",
    Rule.SEQUENCE_IN_ORDER: "out of order",
    Rule.TRANSACTION_STATE: "not transactional",
    Rule.COORDINATOR_EPOCH_FENCED: "coordinator fenced",
}
IDS = st.integers(0, 3)
EPOCHS = st.integers(0, 2)


def answer(done: Appended) -> str:
    if done.stopped is None:
        return "ok"
    if isinstance(done.stopped, Duplicate):
        return f"duplicate {done.stopped.batch.first_offset} {done.stopped.batch.last_offset}"
    return WORDS[done.stopped.rule]


class Histories(RuleBasedStateMachine):
    """The same requests to both; they must answer alike and know the same."""

    def __init__(self) -> None:
        super().__init__()
        self.naive = Broker()
        self.state = empty_state(capacity=1)
        self.log: list[bytes] = []
        self.snapshots = [(0, to_snapshot(self.state))]
        self.now = 0

    @rule(
        producer_id=IDS,
        epoch=EPOCHS,
        jump=st.sampled_from([0, 0, 0, 0, -1, -2, -5, 1]),
        start=st.sampled_from([0, 0, 5, MAX - 3]),
        count=st.integers(1, 4),
        transactional=st.booleans(),
        late=st.integers(0, 50),
    )
    def produce(
        self,
        producer_id: int,
        epoch: int,
        jump: int,
        start: int,
        count: int,
        transactional: bool,
        late: int,
    ) -> None:
        known = self.naive.producers.get(producer_id)
        sequence = start
        if known and known.batches and known.epoch == epoch:
            sequence = (known.batches[-1][1] + 1 + jump) % (MAX + 1)
        self.now += late
        self._send(producer_id, epoch, sequence, count, transactional)

    @rule(producer_id=IDS, back=st.integers(1, 7))
    def retry(self, producer_id: int, back: int) -> None:
        known = self.naive.producers.get(producer_id)
        if known and len(known.batches) >= back:
            first, _, first_offset, last_offset = known.batches[-back]
            self._send(producer_id, known.epoch, first, last_offset - first_offset + 1, True)

    def _send(
        self, producer_id: int, epoch: int, sequence: int, count: int, transactional: bool
    ) -> None:
        batch = data_batch(
            self.naive.end,
            count,
            producer=(producer_id, epoch, sequence),
            transactional=transactional,
            timestamp=self.now,
        )
        _, batches, markers = tables(batch)
        found = answer(append(self.state, batches, markers, Origin.CLIENT))
        self.log += [batch] if found == "ok" else []
        assert found == self.naive.produce(
            producer_id, epoch, sequence, count, transactional, self.now
        )

    @rule(
        producer_id=IDS,
        epoch=EPOCHS,
        coordinator_epoch=st.integers(0, 2),
        control_type=st.integers(0, 1),
    )
    def finish(
        self, producer_id: int, epoch: int, coordinator_epoch: int, control_type: int
    ) -> None:
        batch = marker(
            self.naive.end,
            producer_id,
            epoch,
            control_type,
            coordinator_epoch=coordinator_epoch,
            timestamp=self.now,
        )
        _, batches, markers = tables(batch)
        found = answer(append(self.state, batches, markers, Origin.COORDINATOR))
        self.log += [batch] if found == "ok" else []
        assert found == self.naive.finish(producer_id, epoch, coordinator_epoch, self.now)

    @rule()
    def restart(self) -> None:
        self.snapshots.append((len(self.log), to_snapshot(self.state)))
        self.state = from_snapshot(self.snapshots[-1][1])
        self.naive.restart()

    @rule(lost=st.integers(1, 8))
    def crash(self, lost: int) -> None:
        """The end of the log is gone: the newest snapshot that is left, then the batches after."""
        kept = max(0, len(self.log) - lost)
        self.log = self.log[:kept]
        self.snapshots = [each for each in self.snapshots if each[0] <= kept]
        start, entries = self.snapshots[-1]
        self.state = from_snapshot(entries)
        if start < kept:
            _, batches, markers = tables(self.log[start:])
            assert answer(append(self.state, batches, markers, Origin.REPLICATION)) == "ok"
        self.naive.crash(kept)

    @rule(after=st.integers(10, 200))
    def expire(self, after: int) -> None:
        self.state = remove_expired(self.state, self.now, after)
        self.naive.expire(self.now, after)

    @invariant()
    def both_know_the_same(self) -> None:
        found = {known.producer_id: known for known in known_producers(self.state)}
        assert found.keys() == self.naive.producers.keys()
        for producer_id, expected in self.naive.producers.items():
            known = found[producer_id]
            assert known.producer_epoch == expected.epoch
            assert known.coordinator_epoch == expected.coordinator_epoch
            assert known.last_timestamp == expected.timestamp
            assert known.transaction_first_offset == expected.open_since
            assert [seen[:4] for seen in known.window] == expected.batches[-5:]

    @invariant()
    def the_first_unstable_offset_is_the_same(self) -> None:
        rows = open_rows(self.state)
        found = int(self.state.producers.first_offset[rows[0]]) if rows else None
        assert found == self.naive.first_unstable()


TestHistories = Histories.TestCase
