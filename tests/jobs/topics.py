"""Partition directories as a broker leaves them, and the rows that are in them.

Every segment has its own magic and codec; there are gaps, transactions that cross segments, and
indexes for some partitions. What is written is remembered, so that no reader is needed to know it.
"""

import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

from builders import Row, batch, message, wrapper

INDEX_EVERY = 512
TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1
NO_TIMESTAMP = -1

# Magic and codec of each segment in turn; magic 0 and 1 know no zstd.
FORMATS = [(0, 0), (0, 1), (1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (1, 0)]


@dataclass
class Written:
    """What a partition holds; `aborted` and `open_from` are what read_committed leaves out."""

    topic: str
    partition: int
    rows: list[Row] = field(default_factory=list)
    aborted: set[int] = field(default_factory=set)
    open_from: int | None = None
    end: int = 0

    def committed(self) -> list[Row]:
        limit = self.end if self.open_from is None else self.open_from
        return [row for row in self.rows if row.offset < limit and row.offset not in self.aborted]


class Segment:
    """Bytes of a log with its indexes."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.log = bytearray()
        self.index = bytearray()
        self.times = bytearray()
        self.aborts = bytearray()
        self.newest = (NO_TIMESTAMP, 0)
        self.since = 0

    def append(self, data: bytes, last_offset: int, newest: int) -> None:
        if newest > self.newest[0]:
            self.newest = (newest, last_offset)
        if self.since > INDEX_EVERY:
            self.index += struct.pack(">ii", last_offset - self.base, len(self.log))
            self.note_time()
            self.since = 0
        self.since += len(data)
        self.log += data

    def note_time(self) -> None:
        if self.newest[0] > NO_TIMESTAMP:
            entry = struct.pack(">qi", self.newest[0], self.newest[1] - self.base)
            if not self.times.endswith(entry):
                self.times += entry

    def write(self, folder: Path, *, indexes: bool) -> None:
        self.note_time()
        files = {".log": self.log}
        if indexes:
            files |= {".index": self.index, ".timeindex": self.times}
            files |= {".txnindex": self.aborts} if self.aborts else {}
        for suffix, data in files.items():
            (folder / f"{self.base:020d}{suffix}").write_bytes(data)


def marker(offset: int, producer: int, kind: int, timestamp: int) -> bytes:
    row = Row(offset, timestamp, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return batch([row], attributes=TRANSACTIONAL | CONTROL, producer=(producer, 0, -1))


def write_partition(
    folder: Path,
    *,
    seed: int,
    segments: int = 5,
    batches: int = 12,
    records: int = 20,
    indexes: bool = True,
    transactions: bool = True,
    value_size: int = 60,
) -> Written:
    """Write a partition directory; its name says topic and partition."""
    chance = random.Random(seed)
    topic, _, partition = folder.name.rpartition("-")
    written = Written(topic, int(partition))
    folder.mkdir(parents=True)
    offset, clock = 0, 1_700_000_000_000
    opened: dict[int, int] = {}
    touched: dict[int, list[int]] = {}
    for number in range(segments):
        magic, codec = FORMATS[(seed + number * 3) % len(FORMATS)]
        segment = Segment(offset)
        for _ in range(batches):
            rows = []
            for _ in range(chance.randint(1, records)):
                clock += chance.randint(-5, 40)
                rows.append(
                    _row(chance, offset, clock if magic else NO_TIMESTAMP, value_size, magic)
                )
                offset += chance.choice([1, 1, 1, 2, 7])
            offset = rows[-1].offset + 1
            producer = chance.choice([None, 1, 2, 3]) if magic == 2 and transactions else None
            data = _data(rows, magic, codec, producer)
            if producer is not None:
                opened.setdefault(producer, rows[0].offset)
                touched.setdefault(producer, []).extend(row.offset for row in rows)
            for piece, last in data:
                segment.append(piece, last, max(row.timestamp for row in rows))
            written.rows += rows
            if opened and chance.random() < 0.4:
                producer, first = chance.choice(sorted(opened.items()))
                kind = chance.choice([ABORT, COMMIT])
                segment.append(marker(offset, producer, kind, clock), offset, clock)
                del opened[producer]
                offsets = touched.pop(producer)
                if kind == ABORT:
                    written.aborted |= set(offsets)
                    stable = min([*opened.values(), offset + 1])
                    segment.aborts += struct.pack(">hqqqq", 0, producer, first, offset, stable)
                offset += 1
            offset += chance.choice([0, 0, 0, 5])
        segment.write(folder, indexes=indexes)
    written.end = max(row.offset for row in written.rows) + 1
    written.open_from = min(opened.values(), default=None)
    return written


def _row(chance: random.Random, offset: int, timestamp: int, value_size: int, magic: int) -> Row:
    key = chance.choice([None, b"", b"key-%d" % (offset % 17)])
    value = chance.choice([None, chance.randbytes(chance.randint(0, value_size)), b"text" * 9])
    headers = ()
    if magic == 2 and chance.random() < 0.3:
        headers = ((b"name", b"%d" % offset), (b"name", None))
    return Row(offset, timestamp, key, value, headers)


def _data(rows: list[Row], magic: int, codec: int, producer: int | None) -> list[tuple[bytes, int]]:
    last = rows[-1].offset
    if magic == 2:
        if producer is None:
            return [(batch(rows, codec=codec), last)]
        data = batch(rows, codec=codec, attributes=TRANSACTIONAL, producer=(producer, 0, 0))
        return [(data, last)]
    if codec:
        return [(wrapper(rows, magic=magic, codec=codec), last)]
    return [(message(row, magic=magic), row.offset) for row in rows]


def write_topic(root: Path, topic: str, *, partitions: int = 3, **options: int) -> list[Written]:
    """Partitions with and without indexes."""
    return [
        write_partition(
            root / f"{topic}-{number}", seed=number + 7, indexes=number % 2 == 0, **options
        )
        for number in range(partitions)
    ]
