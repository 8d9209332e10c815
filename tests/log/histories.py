"""Replicas as leaders, followers, crashes and the cleaner leave them, and what they have in common.

Slow and obvious: a replica is a list of batches, a batch a list of records. Nothing here imports
what is tested.
"""

import random
from pathlib import Path
from typing import NamedTuple

from builders import Row, batch


class Written(NamedTuple):
    """A batch: the offsets that its header claims, the epoch of its leader, its records."""

    first: int
    last: int
    epoch: int
    rows: tuple[Row, ...]


Replica = list[Written]


def end_of(replica: Replica) -> int:
    return replica[-1].last + 1 if replica else 0


def lead(replica: Replica, epoch: int, chooser: random.Random) -> None:
    """Append some batches as the leader of an epoch."""
    alike = chooser.random() < 0.5  # as other leaders write: then only the epoch tells them apart
    for _ in range(chooser.randrange(1, 6)):
        first = end_of(replica)
        rows = tuple(
            Row(first + at, 1000, b"k", b"v" if alike else chooser.randbytes(5))
            for at in range(chooser.randrange(1, 7))
        )
        replica.append(Written(first, rows[-1].offset, epoch, rows))


def follow(replica: Replica, leader: Replica, chooser: random.Random) -> None:
    """Cut what the leader does not have, then fetch some of what follows."""
    same = 0
    while same < min(len(replica), len(leader)) and replica[same][:3] == leader[same][:3]:
        same += 1
    del replica[same:]
    behind = chooser.random() < 0.5
    replica += leader[same : same + chooser.randrange(len(leader) - same + 1) if behind else None]


def clean(replica: Replica, chooser: random.Random) -> Replica:
    """Take records away, sometimes all of a batch; headers keep their offsets."""
    cleaned = []
    for written in replica:
        rows = tuple(row for row in written.rows if chooser.random() < 0.7)
        if rows:
            cleaned.append(written._replace(rows=rows))
        elif chooser.random() < 0.5:
            cleaned.append(written._replace(rows=()))
    return cleaned


def history(seed: int, count: int = 2) -> list[Replica]:
    """Replicas after some elections, clean and unclean."""
    chooser = random.Random(seed)
    replicas: list[Replica] = [[] for _ in range(count)]
    for epoch in range(chooser.randrange(1, 6)):
        leader = chooser.randrange(count)
        lead(replicas[leader], epoch, chooser)
        for number in range(count):
            if number != leader and chooser.random() < 0.6:  # others are down
                follow(replicas[number], replicas[leader], chooser)
    if chooser.random() < 0.5:
        replicas = [clean(each, chooser) if chooser.random() < 0.6 else each for each in replicas]
    if chooser.random() < 0.3:
        number = chooser.randrange(count)
        replicas[number] = replicas[number][chooser.randrange(len(replicas[number]) + 1) :]
    return replicas


def write_replica(replica: Replica, directory: Path, chooser: random.Random) -> None:
    """Its files, in some segments."""
    directory.mkdir(parents=True)
    base, held = (replica[0].first if replica else 0), b""
    for written in replica:
        if held and chooser.random() < 0.2:
            (directory / f"{base:020d}.log").write_bytes(held)
            base, held = written.first, b""
        held += batch(
            written.rows,
            base_offset=written.first,
            last_offset_delta=written.last - written.first,
            leader_epoch=written.epoch,
        )
    (directory / f"{base:020d}.log").write_bytes(held)


class Expected(NamedTuple):
    """Where two replicas part, in which epochs, and the offsets that each has alone."""

    divergence: tuple[int, tuple[int, int]] | None
    alone: tuple[set[int], set[int]]


def compare(first: Replica, second: Replica) -> Expected:
    """Record by record."""
    records = [
        {row.offset: (written.epoch, row) for written in replica for row in written.rows}
        for replica in (first, second)
    ]
    common = sorted(records[0].keys() & records[1].keys())
    parted = next((at for at in common if records[0][at] != records[1][at]), None)
    divergence = None
    if parted is not None:
        divergence = parted, (records[0][parted][0], records[1][parted][0])
        common = [at for at in common if at < parted]
    alone = (set(records[0]) - set(common), set(records[1]) - set(common))
    return Expected(divergence, alone)
