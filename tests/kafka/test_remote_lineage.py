"""Which remote segments a broker reads, by its own method, and which we do: random histories."""

import json
import random
import subprocess
from pathlib import Path

from benchmarks.maven import class_path, java
from broker import KAFKA

from ottla.log.files.checkpoints import EpochStart
from ottla.log.tiered.lineage import is_within, with_records
from tiered.naive_lineage import Made
from tiered.test_lineage import segment

CASES = 20_000
Epochs = list[tuple[int, int]]


def history(chance: random.Random) -> tuple[Epochs, Made]:
    """A lineage and a segment that is of it, of a branch of it, or of anything."""
    lineage = epochs(chance, chance.randrange(10))
    start = chance.randrange(60)
    end = start + chance.randrange(30)
    own = lineage if chance.random() < 0.7 else epochs(chance, 0)
    inside = [(epoch, offset) for epoch, offset in own if start < offset <= end]
    before = [epoch for epoch, offset in own if offset <= start]
    mine = [*([(before[-1], start)] if before else [(0, start)]), *inside]
    if chance.random() < 0.2:
        at = chance.randrange(len(mine))
        mine[at] = mine[at][0] + chance.choice([0, 1]), mine[at][1] + chance.choice([0, 1])
    return lineage, Made(0, start, end, tuple(sorted(dict(mine).items())), 0)


def epochs(chance: random.Random, first: int) -> Epochs:
    """Epochs rise; one that wrote nothing begins where the next one does."""
    found, epoch, offset = [], chance.randrange(3), first
    for _ in range(chance.randrange(1, 6)):
        found.append((epoch, offset))
        epoch, offset = epoch + chance.randrange(1, 3), offset + chance.choice([0, 1, 10, 20])
    return found


def test_a_broker_reads_the_same_segments() -> None:
    chance = random.Random(19)
    cases = [history(chance) for _ in range(CASES)]
    lines = "".join(
        json.dumps(
            {
                "lineage": lineage,
                "start": made.start,
                "end": made.end,
                "epochs": made.epochs,
            }
        )
        + "\n"
        for lineage, made in cases
    )
    # Compiled as it starts, with all that a broker has: our other programs need less of it.
    command = java(str(Path(__file__).with_name("Lineage.java")), class_path(KAFKA))
    told = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    theirs = [line == "true" for line in told.stdout.splitlines()]
    ours = [
        is_within(segment(made), with_records([EpochStart(*each) for each in lineage]))
        for lineage, made in cases
    ]
    assert 0.2 < sum(theirs) / CASES < 0.8
    differing = [case for case, one, two in zip(cases, ours, theirs, strict=True) if one != two]
    assert differing == []
