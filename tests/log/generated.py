"""Logs made at random from a seed, for tests that need many batches."""

import random
import struct
from pathlib import Path

import builders
from builders import Row


def random_rows(chooser: random.Random, *, count: int, base: int, gaps: bool) -> list[list[Row]]:
    """Rows of batches with rising offsets; timestamps wander."""
    offset, now, batches = base, 1_000_000, []
    for _ in range(count):
        rows = []
        for _ in range(chooser.randrange(1, 6)):
            now += chooser.randrange(-50, 80)
            value = chooser.randbytes(chooser.choice((10, 100, 900)))
            rows.append(Row(offset, now, b"k%d" % (offset % 7), value))
            offset += chooser.choice((1, 1, 1, 3)) if gaps else 1
        batches.append(rows)
        offset += chooser.choice((0, 0, 0, 11)) if gaps else 0
    return batches


def random_log(seed: int, *, count: int, base: int = 0, gaps: bool = True) -> list[bytes]:
    """Batches of all magics and codecs, as a log has them that old and new brokers wrote."""
    chooser = random.Random(seed)
    data = []
    for rows in random_rows(chooser, count=count, base=base, gaps=gaps):
        magic = chooser.choice((0, 1, 2, 2, 2))
        codec = chooser.randrange(5 if magic == 2 else 4)
        if magic < 2 and codec == 0:
            data += [builders.message(row, magic=magic) for row in rows]
        else:
            data.append(builders.segment(rows, magic=magic, codec=codec))
    return data


def write_partition(folder: Path, name: str, base: int, data: bytes) -> Path:
    """A partition directory of one segment."""
    directory = folder / name
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base:020d}.log"
    path.write_bytes(data)
    return path


TRANSACTIONAL, CONTROL = 0x10, 0x20


def marker(offset: int, producer: int, kind: int) -> bytes:
    """An end-transaction marker (0 abort, 1 commit) of producer epoch 2 and coordinator epoch 0."""
    row = Row(offset, 5, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    flags = TRANSACTIONAL | CONTROL
    return builders.batch([row], attributes=flags, producer=(producer, 2, -1))
