"""A process that writes a log directory as a broker does, until a file tells it to stop.

It appends, rolls, moves the high watermark, and now and then truncates what lies above it and
writes something else there, as after a change of leaders. Last it prints what the logs hold.
"""

import json
import os
import random
import sys
import time
from pathlib import Path

from builders import Row, batch

PARTITIONS = 2
ROLL_EVERY = 40


class Partition:
    """Batches of one directory: first offset, segment, position and values of each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.batches: list[tuple[int, int, int, list[str]]] = []
        self.end = 0
        self.base = 0
        self.high_watermark = 0
        folder.mkdir(parents=True)

    @property
    def log(self) -> Path:
        return self.folder / f"{self.base:020d}.log"

    def append(self, values: list[str], *, pause: float) -> None:
        if sum(base == self.base for _, base, _, _ in self.batches) >= ROLL_EVERY:
            self.base = self.end
        rows = [Row(self.end + at, 1000, None, value.encode()) for at, value in enumerate(values)]
        data = batch(rows, codec=len(values) % 5)
        position = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab", buffering=0) as log:
            log.write(data[:30])
            time.sleep(pause)  # half a batch is there for all to see
            log.write(data[30:])
        self.batches.append((self.end, self.base, position, values))
        self.end += len(values)

    def truncate(self) -> None:
        """Drop what no replica vouches for, as far as it is in the last segment."""
        while self.batches and self.batches[-1][0] >= self.high_watermark:
            first, base, position, _ = self.batches[-1]
            if base != self.base:
                return
            os.truncate(self.log, position)
            self.batches.pop()
            self.end = first


def write_checkpoint(root: Path, partitions: list[Partition]) -> None:
    lines = [f"t {number} {one.high_watermark}" for number, one in enumerate(partitions)]
    staged = root / "replication-offset-checkpoint.tmp"
    staged.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    staged.rename(root / "replication-offset-checkpoint")


def main(root: Path, stop: Path, seed: int) -> None:
    chance = random.Random(seed)
    partitions = [Partition(root / f"t-{number}") for number in range(PARTITIONS)]
    number = 0
    while not stop.exists():
        for one in partitions:
            count = chance.randint(1, 9)
            one.append([f"{number + at}" for at in range(count)], pause=chance.random() / 50)
            number += count
            if chance.random() < 0.1:
                one.truncate()
            if chance.random() < 0.5:
                one.high_watermark = max(one.high_watermark, chance.choice(one.batches[-3:])[0])
        write_checkpoint(root, partitions)
        time.sleep(chance.random() / 5)
    for one in partitions:
        one.high_watermark = one.end
    write_checkpoint(root, partitions)
    held = [[value for batch in one.batches for value in batch[3]] for one in partitions]
    json.dump(held, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
