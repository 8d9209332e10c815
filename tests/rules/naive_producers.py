"""A broker's memory of its producers, as plain objects (kafka-facts of ProducerStateManager)."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

MAX = 2**31 - 1


@dataclass
class Entry:
    epoch: int = -1
    coordinator_epoch: int = -1
    timestamp: int = -1
    open_since: int | None = None
    batches: list[tuple[int, int, int, int]] = field(
        default_factory=list
    )  # first and last sequence, offsets


class Data(NamedTuple):
    """A data batch in the log."""

    offset: int
    producer_id: int
    epoch: int
    sequence: int
    count: int  # type: ignore[assignment]
    transactional: bool
    now: int


class Marker(NamedTuple):
    """The end of a transaction in the log."""

    offset: int
    producer_id: int
    epoch: int
    coordinator_epoch: int
    now: int


@dataclass
class Broker:
    """Answers "ok", "duplicate FIRST LAST" or why not, and assigns offsets to what it takes."""

    end: int = 0
    producers: dict[int, Entry] = field(default_factory=dict)
    log: list[Data | Marker] = field(default_factory=list)
    snapshots: list[tuple[int, dict[int, Entry]]] = field(default_factory=lambda: [(0, {})])

    def produce(
        self, producer_id: int, epoch: int, sequence: int, count: int, transactional: bool, now: int
    ) -> str:
        known = self.producers.get(producer_id, Entry())
        last = (sequence + count - 1) % (MAX + 1)
        if epoch == known.epoch:
            for first_seen, last_seen, first_offset, last_offset in known.batches[-5:]:
                if (first_seen, last_seen) == (sequence, last):
                    return f"duplicate {first_offset} {last_offset}"
        if epoch < known.epoch:
            return "fenced"
        if known.epoch != -1:
            wanted = 0
            if epoch == known.epoch and known.batches:
                wanted = (known.batches[-1][1] + 1) % (MAX + 1)
            if sequence != wanted:
                return "out of order"
        if known.open_since is not None and not transactional:
            return "not transactional"
        self._take(Data(self.end, producer_id, epoch, sequence, count, transactional, now))
        return "ok"

    def _take(self, batch: Data | Marker) -> None:
        """Write it, whatever it is, and remember what it says."""
        known = self.producers.setdefault(batch.producer_id, Entry())
        if batch.epoch != known.epoch:
            known.batches = []
        known.epoch, known.timestamp = batch.epoch, batch.now
        if isinstance(batch, Marker):
            known.coordinator_epoch, known.open_since = batch.coordinator_epoch, None
            self.end = batch.offset + 1
        else:
            last = (batch.sequence + batch.count - 1) % (MAX + 1)
            self.end = batch.offset + batch.count
            known.batches.append((batch.sequence, last, batch.offset, self.end - 1))
            if batch.transactional and known.open_since is None:
                known.open_since = batch.offset
        self.log.append(batch)

    def finish(self, producer_id: int, epoch: int, coordinator_epoch: int, now: int) -> str:
        known = self.producers.get(producer_id, Entry())
        if epoch < known.epoch:
            return "fenced"
        if coordinator_epoch < known.coordinator_epoch:
            return "coordinator fenced"
        self._take(Marker(self.end, producer_id, epoch, coordinator_epoch, now))
        return "ok"

    def restart(self) -> None:
        """A snapshot keeps only the newest batch of each producer."""
        for known in self.producers.values():
            known.batches = known.batches[-1:]
        self.snapshots.append((self.end, deepcopy(self.producers)))

    def crash(self, kept: int) -> None:
        """Only `kept` batches are left; the newest snapshot below their end, then the rest."""
        log = self.log[:kept]
        end = self.log[kept].offset if kept < len(self.log) else self.end
        self.snapshots = [each for each in self.snapshots if each[0] <= end]
        start, producers = self.snapshots[-1]
        self.producers, self.end = deepcopy(producers), start
        self.log = [batch for batch in log if batch.offset < start]
        for batch in log[len(self.log) :]:
            self._take(batch)

    def expire(self, now: int, after: int) -> None:
        self.producers = {
            producer_id: known
            for producer_id, known in self.producers.items()
            if known.open_since is not None or now - known.timestamp < after
        }

    def first_unstable(self) -> int | None:
        opened = [known.open_since for known in self.producers.values()]
        return min((offset for offset in opened if offset is not None), default=None)
