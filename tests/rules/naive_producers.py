"""A broker's memory of its producers, as plain objects (kafka-facts of ProducerStateManager)."""

from dataclasses import dataclass, field

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


@dataclass
class Broker:
    """Answers "ok", "duplicate FIRST LAST" or why not, and assigns offsets to what it takes."""

    end: int = 0
    producers: dict[int, Entry] = field(default_factory=dict)

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
        if epoch != known.epoch:
            known.batches = []
        known.batches.append((sequence, last, self.end, self.end + count - 1))
        known.epoch, known.timestamp = epoch, now
        if transactional and known.open_since is None:
            known.open_since = self.end
        self.producers[producer_id] = known
        self.end += count
        return "ok"

    def finish(self, producer_id: int, epoch: int, coordinator_epoch: int, now: int) -> str:
        known = self.producers.get(producer_id, Entry())
        if epoch < known.epoch:
            return "fenced"
        if coordinator_epoch < known.coordinator_epoch:
            return "coordinator fenced"
        if epoch != known.epoch:
            known.batches = []
        known.epoch, known.coordinator_epoch = epoch, coordinator_epoch
        known.timestamp, known.open_since = now, None
        self.producers[producer_id] = known
        self.end += 1
        return "ok"

    def restart(self) -> None:
        """A snapshot keeps only the newest batch of each producer."""
        for known in self.producers.values():
            known.batches = known.batches[-1:]

    def expire(self, now: int, after: int) -> None:
        self.producers = {
            producer_id: known
            for producer_id, known in self.producers.items()
            if known.open_since is not None or now - known.timestamp < after
        }

    def first_unstable(self) -> int | None:
        opened = [known.open_since for known in self.producers.values()]
        return min((offset for offset in opened if offset is not None), default=None)
