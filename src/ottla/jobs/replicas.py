"""Of several replicas of a partition the one to believe: by leader epoch, then end, then CRCs.

All bytes are read only to choose one that is intact, where several stand equally far.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ottla.catalog.logs import Log
from ottla.catalog.positions import find_log_end, read_index
from ottla.errors import CorruptLogError
from ottla.format.names import (
    LEADER_EPOCH_CHECKPOINT,
    Kind,
    TopicPartition,
)
from ottla.format.sentinels import NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_ID
from ottla.log.compare.replicas import Comparison, compare_replicas
from ottla.log.files.checkpoints import read_leader_epochs
from ottla.log.files.contents import PartitionFiles
from ottla.log.files.partition import Partition, Segment, topic_id_of
from ottla.log.files.small_files import read_small
from ottla.log.files.swaps import Settled
from ottla.log.read.index_entries import entries_of
from ottla.log.read.next_offset import last_known_batch
from ottla.log.read.walk import walk_file
from ottla.log.read.windows import Ending, read_windows
from ottla.storage.files import open_remaining
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import join


class Standing(NamedTuple):
    """How far a replica is: that of a higher epoch is right, whatever others have."""

    epoch: int
    end: int


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the logs of a partition beside the one to believe, and what they have in common.

    The first of each pair is of the one to believe. Of one that `is_missing` the place is all that
    there is. `damage` is known of one whose bytes were read for a choice.
    """

    log: Log
    standing: Standing
    comparison: Comparison
    topic_ids: tuple[str | None, str | None] = (None, None)
    is_missing: bool = False
    damage: str | None = None

    @property
    def is_of_another_topic(self) -> bool:
        """Whether both say whose they are, and not the same."""
        best, its = self.topic_ids
        return best is not None and its is not None and best != its

    @property
    def is_equal(self) -> bool:
        return self.comparison.is_equal and not self.is_missing and not self.is_of_another_topic

    @property
    def state(self) -> str:
        """In a word, the worst that is to be said of it."""
        found = self.comparison
        if self.is_missing:
            return "missing"
        if self.is_of_another_topic:
            return "another topic"
        if found.divergence is not None:
            return "diverged"
        words = {
            "ahead": found.after[1],
            "behind": found.after[0],
            "holes": found.inside[0],
            "more": found.inside[1],
            "starts later": found.before[0],
            "starts before": found.before[1],
        }
        worst = next((word for word, alone in words.items() if alone.records or alone.bytes), None)
        return worst or ("damaged" if any(found.problems) else "equal")


@dataclass(frozen=True, slots=True)
class Replicas:
    """All logs of one partition: the one to believe, and the others."""

    best: Log
    standing: Standing
    others: tuple[Replica, ...]


def standing_of(partition: Partition, storage: StorageOptions) -> Standing:
    """From the checkpoint of epochs and the last headers."""
    epoch = _last_written_epoch(partition, storage)
    entry = partition.find(LEADER_EPOCH_CHECKPOINT)
    if entry is not None:
        try:
            known = read_leader_epochs(read_small(entry, storage), entry.path)
        except CorruptLogError:
            known = []
        epoch = max([epoch, *(each.epoch for each in known)])
    return Standing(epoch, find_log_end(partition, storage))


def _last_written_epoch(partition: Partition, storage: StorageOptions) -> int:
    for segment in reversed(partition.segments):
        epoch = _highest_epoch(segment, storage)
        if epoch is not None:
            return epoch
    return NO_PARTITION_LEADER_EPOCH


def _highest_epoch(segment: Segment, storage: StorageOptions) -> int | None:
    """Of the batches from the last one on that the index knows; None without any."""
    index = read_index(segment, storage)
    found: int | None = None
    with open_remaining(segment.log, storage) as file:
        for headers in walk_file(file, start=last_known_batch(file, index)):
            epochs = headers.batches.partition_leader_epoch
            if epochs.size:
                known = NO_PARTITION_LEADER_EPOCH if found is None else found
                found = max(int(np.max(epochs)), known)
    return found


def group_replicas(logs: Iterable[Log]) -> list[list[Log]]:
    """The logs of each partition, in the order of names."""
    by_name: dict[TopicPartition, list[Log]] = {}
    for log in logs:
        by_name.setdefault(log.name, []).append(log)
    return [by_name[name] for name in sorted(by_name)]


def compare_logs(replicas: Sequence[Log], storage: StorageOptions) -> Replicas:
    """The one to believe of the logs of one partition by headers alone, and how others differ."""
    standings = [standing_of(log.partition, storage) for log in replicas]
    return _compare(replicas, standings, standings.index(max(standings)), {}, storage)


def choose_intact(replicas: Sequence[Log], storage: StorageOptions) -> Replicas:
    """As `compare_logs`; of several that stand equally far the first whose CRCs are right."""
    standings = [standing_of(log.partition, storage) for log in replicas]
    best = max(standings)
    equals = [at for at, found in enumerate(standings) if found == best]
    damages: dict[int, str] = {}
    for at in equals if len(equals) > 1 else ():
        why = first_damage(replicas[at].partition, storage)
        if why is None:
            return _compare(replicas, standings, at, damages, storage)
        damages[at] = why
    return _compare(replicas, standings, equals[0], damages, storage)


def _compare(
    replicas: Sequence[Log],
    standings: Sequence[Standing],
    chosen: int,
    damages: Mapping[int, str],
    storage: StorageOptions,
) -> Replicas:
    ids = [topic_id_of(log.partition, storage) for log in replicas]
    others = tuple(
        Replica(
            log,
            standings[number],
            compare_replicas(replicas[chosen].partition, log.partition, storage),
            (ids[chosen], ids[number]),
            damage=damages.get(number),
        )
        for number, log in enumerate(replicas)
        if number != chosen
    )
    return Replicas(replicas[chosen], standings[chosen], others)


def compare_missing(log: Log, place: str, storage: StorageOptions) -> Replicas:
    """A log of which another place has nothing."""
    partition = log.partition
    nothing = replace(
        partition,
        path=join(place, str(log.name)),
        files=PartitionFiles((), (), Settled(()), {}),
    )
    other = Replica(
        Log(nothing),
        Standing(NO_PARTITION_LEADER_EPOCH, 0),
        compare_replicas(partition, nothing, storage),
        is_missing=True,
    )
    return Replicas(log, standing_of(partition, storage), (other,))


def first_damage(partition: Partition, storage: StorageOptions) -> str | None:
    """The first bytes of a partition that are no intact batch; all of it is read."""
    last = len(partition.segments) - 1
    before = -1
    for number, segment in enumerate(partition.segments):
        with open_remaining(segment.log, storage) as file:
            ending = Ending.LOG if number == last else Ending.SEGMENT
            for window in read_windows(file, ending=ending):
                if window.violation is not None:
                    return str(window.violation)
                batches = window.batches
                ends = np.concatenate([[before], batches.last_offset])
                # No CRC covers the base offset: that it rises is all that can be asked of it.
                wrong = (batches.crc != batches.computed_crc) | (np.diff(ends) <= 0)
                rows = np.flatnonzero(wrong)
                if rows.size:
                    position = int(batches.position[rows[0]])
                    return f"the batch at {position} of {segment.log.path} is not intact"
                before = int(ends[-1])
    return None


def highest_producer_id(partition: Partition, storage: StorageOptions) -> int:
    """Of the batches that can be read, also behind damage that the index leads past."""
    highest = NO_PRODUCER_ID
    for segment in partition.segments:
        index = segment.side_files.get(Kind.OFFSET_INDEX)
        with open_remaining(segment.log, storage) as file:
            find_next = entries_of(file, index, segment.base_offset, storage)
            for window in read_windows(file, find_next=find_next):
                sound = window.batches.crc == window.batches.computed_crc
                ids = window.batches.producer_id[sound]
                highest = int(ids.max(initial=highest))
    return highest
