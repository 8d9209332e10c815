"""Random histories of a whole log: producers, retries, transactions, crashes and cleanings."""

import struct

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import builders
from builders import Row
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.tables import take_batches
from ottla.rules.append.checks import AppendPolicy
from ottla.rules.append.each import Appends, LogEnd, Taken, append_each
from ottla.rules.producers.producer import Duplicate, Origin, Refusal, append, empty_state
from ottla.rules.producers.snapshots import from_snapshot, to_snapshot
from ottla.rules.producers.transactions import Transactions, read_markers
from rules import naive_compaction as model
from rules.histories import TRANSACTIONAL, committed_mask, marker, tables
from rules.naive_compaction import DELETE_RETENTION, Batch, Record
from rules.naive_producers import MAX, Broker
from rules.test_compaction_histories import as_read, clean, decode, visible
from rules.test_producer_histories import WORDS

IDS = st.integers(0, 2)
FIELDS = st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from([b"1", b"22", None]))


class LogHistories(RuleBasedStateMachine):
    """Bytes in a log, and the naive broker's and cleaner's idea of it."""

    def __init__(self) -> None:
        super().__init__()
        self.end = LogEnd(0, empty_state())
        self.data = b""
        self.snapshots = [(0, to_snapshot(self.end.producers))]
        self.naive = Broker()
        self.batches: list[Batch] = []
        self.now = 100
        self.dirty = 0
        self.flushed = 0  # no crash takes what lies below

    def _send(self, sent: bytes, origin: Origin) -> str:
        region, batches, _ = tables(sent)
        compute_crcs(region.data, 0, batches)
        appends = Appends(self.now, origin, AppendPolicy())
        (outcome,) = append_each(self.end, region, batches, appends)
        if isinstance(outcome, Taken):
            self.data += outcome.one(0).data.tobytes()
            return "ok"
        if isinstance(outcome, Duplicate):
            return f"duplicate {outcome.batch.first_offset} {outcome.batch.last_offset}"
        assert isinstance(outcome, Refusal)
        return WORDS[outcome.rule]

    @rule(
        producer_id=IDS,
        epoch=st.sampled_from([0, 0, 0, 1]),
        jump=st.sampled_from([0, 0, 0, 0, -1, 1]),
        fields=st.lists(FIELDS, min_size=1, max_size=3),
        transactional=st.booleans(),
        codec=st.sampled_from([0, 0, 3]),
    )
    def produce(
        self,
        producer_id: int,
        epoch: int,
        jump: int,
        fields: list[tuple[bytes, bytes | None]],
        transactional: bool,
        codec: int,
    ) -> None:
        known = self.naive.producers.get(producer_id)
        sequence = 0
        if known and known.batches and known.epoch == epoch:
            sequence = (known.batches[-1][1] + 1 + jump) % (MAX + 1)
        if known and known.open_since is not None:
            transactional = True
        self._produce((producer_id, epoch, sequence), fields, transactional, codec)

    @rule(producer_id=IDS, back=st.integers(1, 6))
    def retry(self, producer_id: int, back: int) -> None:
        known = self.naive.producers.get(producer_id)
        if known and len(known.batches) >= back:
            first, _, first_offset, last_offset = known.batches[-back]
            fields: list[tuple[bytes, bytes | None]] = [(b"a", b"1")]
            fields *= last_offset - first_offset + 1
            self._produce((producer_id, known.epoch, first), fields, True, 0)

    def _produce(
        self,
        producer: tuple[int, int, int],
        fields: list[tuple[bytes, bytes | None]],
        transactional: bool,
        codec: int,
    ) -> None:
        base = self.naive.end
        rows = [Row(at, self.now, key, value) for at, (key, value) in enumerate(fields)]
        attributes = TRANSACTIONAL if transactional else 0
        sent = builders.batch(rows, attributes=attributes, producer=producer, codec=codec)
        expected = self.naive.produce(*producer, len(rows), transactional, self.now)
        assert self._send(sent, Origin.CLIENT) == expected
        if expected == "ok":
            kept = tuple(Record(base + row.offset, row.key, row.value, self.now) for row in rows)
            last = base + len(rows) - 1
            self.batches.append(Batch(base, last, kept, *producer, transactional))

    @rule(producer_id=IDS, bump=st.integers(0, 1), kind=st.integers(0, 1))
    def finish(self, producer_id: int, bump: int, kind: int) -> None:
        known = self.naive.producers.get(producer_id)
        epoch = max(known.epoch, 0) + bump if known else bump
        base = self.naive.end
        sent = marker(base, producer_id, epoch, kind, timestamp=self.now)
        expected = self.naive.finish(producer_id, epoch, 0, self.now)
        assert self._send(sent, Origin.COORDINATOR) == expected
        if expected == "ok":
            key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
            record = Record(base, key, value, self.now)
            self.batches.append(
                Batch(base, base, (record,), producer_id, epoch, -1, True, kind, True)
            )

    @rule()
    def roll(self) -> None:
        """A new segment: a snapshot is written, and a restart would load it."""
        self.snapshots.append((self.end.next_offset, to_snapshot(self.end.producers)))
        self.end.producers = from_snapshot(self.snapshots[-1][1])
        self.naive.restart()

    @rule(lost=st.integers(1, 5))
    def crash(self, lost: int) -> None:
        """The last batches are gone: the newest snapshot that is left, then the batches after."""
        unsafe = [batch for batch in self.naive.log if batch.offset >= self.flushed][-lost:]
        if not unsafe:
            return
        self.naive.crash(len(self.naive.log) - len(unsafe))
        end = unsafe[0].offset
        self.batches = [batch for batch in self.batches if batch.base < end]
        self.data = self._split(end)[0]
        self.snapshots = [each for each in self.snapshots if each[0] <= end]
        start, entries = self.snapshots[-1]
        self.end = LogEnd(end, from_snapshot(entries))
        region, batches, _ = tables(self.data)
        rest = take_batches(batches, np.flatnonzero(batches.base_offset >= start))
        markers = read_markers(region, rest)
        assert append(self.end.producers, rest, markers, Origin.REPLICATION).stopped is None

    def _split(self, offset: int) -> tuple[bytes, bytes]:
        """The bytes of batches before an offset, and of those from it on."""
        _, batches, _ = tables(self.data)
        at = int(batches.size[batches.base_offset < offset].sum())
        return self.data[:at], self.data[at:]

    @precondition(lambda self: self.snapshots[-1][0] > 0)
    @rule(wait=st.sampled_from([10, DELETE_RETENTION, 5 * DELETE_RETENTION]))
    def clean(self, wait: int) -> None:
        """A round over the closed segments, as far as transactions are decided."""
        self.now += wait
        self.flushed = max(self.flushed, self.snapshots[-1][0])
        limit = min(self.snapshots[-1][0], self._stable())
        closed = [batch for batch in self.batches if batch.last < limit]
        if not closed:
            return
        bound = closed[-1].last + 1
        head, rest = self._split(bound)
        left = model.clean(closed, self.batches, self.dirty, bound, self.now)
        self.data = clean(head, rest, self.dirty, bound, self.now) + rest
        self.batches = left + self.batches[len(closed) :]
        self.dirty = bound

    def _stable(self) -> int:
        unstable = self.naive.first_unstable()
        return self.naive.end if unstable is None else unstable

    @invariant()
    def the_log_holds_what_the_model_holds(self) -> None:
        assert self.end.next_offset == self.naive.end
        assert decode(self.data) == as_read(self.batches)

    @invariant()
    def a_reader_of_committed_records_sees_the_same(self) -> None:
        _, batches, markers = tables(self.data)
        found = Transactions()
        found.add(batches, markers)
        stable = found.last_stable_offset()
        assert stable == self._stable()
        mask = committed_mask(batches, found.aborted(), stable)
        given = [batch for batch, is_given in zip(decode(self.data), mask, strict=True) if is_given]
        seen = [(each.offset, each.key, each.value) for batch in given for each in batch.records]
        assert seen == [row for row in visible(self.batches, [], 0) if row[0] < stable]


TestLogHistories = LogHistories.TestCase
TestLogHistories.settings = settings(stateful_step_count=40)
