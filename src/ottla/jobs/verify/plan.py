"""Verify partitions in parts: slices say what they hold, then each partition is validated in order.

The answer does not depend on how segments are cut.
"""

import json
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.arrow.schema import VIOLATION_SCHEMA
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.catalog.positions import find_batch_starts
from ottla.errors import Rule, Violation
from ottla.kernels.producers.state import Markers
from ottla.kernels.tables import Batches, Wanted, allocate_batches
from ottla.log.check.order import first_offsets
from ottla.log.check.partition import Seen, check_seen, see_tail, see_window
from ottla.log.files.partition import Partition
from ottla.log.read.windows import Window, read_windows
from ottla.publish.account import REQUESTS, account_row, add_rows
from ottla.rules.producers.producer import no_markers
from ottla.storage.files import File, open_remaining
from ottla.storage.listing import Entry
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage.retries import Requests

# What a slice says, a row for each window. `reached` is where reading the slice ended: past its
# stop when a batch did not end there, and then later slices of the segment have nothing to add.
SEEN_SCHEMA: Final = pa.schema(
    [
        pa.field("meeting", pa.int32(), nullable=False),
        pa.field("log", pa.int32(), nullable=False),
        pa.field("segment", pa.int32(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("window", pa.int32(), nullable=False),
        pa.field("reached", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("batches", pa.binary(), nullable=False),
        pa.field("violations", pa.binary(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in REQUESTS),
    ]
)
# Rows of violations, then one whose account is not null for each partition.
VERDICT_SCHEMA: Final = VIOLATION_SCHEMA.append(pa.field("account", pa.string()))
SeenRow = tuple[int, int, int, int, int, int, int, bytes, bytes, int, float]
_COLUMNS: Final = len(Batches._fields) + len(Markers._fields)
# Columns repeat themselves, and all windows of a partition wait for each other: a tenth of it does.
_PACKING: Final = pa.Codec("zstd", 1)
_SEEN_BYTES: Final = 1 << 20  # in one Arrow batch, however little the windows say
_VERDICT_ROWS: Final = 4096
_LAST_WINDOW: Final = 2**31 - 1  # comes after all that were read of its part


@dataclass(frozen=True, slots=True)
class VerifyPart:
    """Bytes of a segment to look at: which log, which of its segments, from where to where.

    `meeting` is where its log is validated. A partition without segments has one part without a
    file, so that it is validated too.
    """

    meeting: int
    log: int
    segment: int
    file: Entry | None
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """`quick` looks at headers and CRCs only."""

    quick: bool = False
    split_bytes: int = 512 << 20  # 64 MiB were checked sooner than Spark started a task for them
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    storage: StorageOptions = DEFAULT_OPTIONS


def plan_verify(
    partitions: Sequence[Partition], options: VerifyOptions, meetings: int = 1
) -> list[VerifyPart]:
    """Every byte of every segment, in parts of about `split_bytes`.

    Logs that follow each other meet: however many meetings there are, all logs stay in one order.
    """
    parts = []
    for log, partition in enumerate(partitions):
        meeting = log * meetings // len(partitions)
        if not partition.segments:
            parts.append(VerifyPart(meeting, log, 0, None, 0, 0))
        for number, segment in enumerate(partition.segments):
            cuts = find_batch_starts(segment, options.split_bytes, options.storage)
            starts = [0, *(cut for cut in cuts if 0 < cut < segment.log.size)]
            stops = [*starts[1:], segment.log.size]
            parts += [
                VerifyPart(meeting, log, number, segment.log, start, stop)
                for start, stop in zip(starts, stops, strict=True)
            ]
    return parts


def see_part(part: VerifyPart, options: VerifyOptions) -> Iterator[pa.RecordBatch]:
    """What a part of a segment says by itself, many windows at a time."""
    rows: list[tuple[object, ...]] = []
    size, requests = 0, Requests()
    for row in requests.counting_each(_see_part(part, options)):
        rows.append((*row, *requests.take()))
        size += len(row[7]) + len(row[8])  # of broken windows violations are all there is
        if size >= _SEEN_BYTES:
            yield _to_arrow(rows)
            rows, size = [], 0
    if rows:
        yield _to_arrow(rows)


def _to_arrow(rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    columns = zip(zip(*rows, strict=True), SEEN_SCHEMA, strict=True)
    arrays = [pa.array(cells, field.type) for cells, field in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=SEEN_SCHEMA)


def _see_part(part: VerifyPart, options: VerifyOptions) -> Iterator[SeenRow]:
    """That a file vanished is a finding like others."""
    try:
        yield from _see_file(part, options)
    except FileNotFoundError as error:
        assert part.file is not None
        lost = Violation(Rule.SLICE_COMPLETE, str(error), part.file.path, part.start)
        yield _pack(part, _LAST_WINDOW, part.stop, _only([lost]), 0.0)


def _see_file(part: VerifyPart, options: VerifyOptions) -> Iterator[SeenRow]:
    decoder = (
        None if options.quick else Decoder(Wanted.CONTROL, max_batch_bytes=options.max_batch_bytes)
    )
    began = time.perf_counter()
    number, window, reached = 0, None, part.stop
    if part.file is None:
        yield _pack(part, 0, 0, _only([]), 0.0)
        return
    with open_remaining(part.file, options.storage) as file:
        told: set[int] = set()
        for window in _windows(file, part, options.max_batch_bytes):
            reached = window.stop if window.resync is None else window.resync
            seen = see_window(window, decoder)
            told.update(_lost_at(file, window))
            yield _pack(part, number, reached, seen, time.perf_counter() - began)
            began, number = time.perf_counter(), number + 1
        if part.stop == part.file.size or reached != part.stop:
            yield _pack(part, number, part.file.size, see_tail(file, window), 0.0)
        _open_rest(file, part, reached)
        lost = [
            damage
            for damage in file.damages
            if damage.position not in told and part.start <= damage.position < part.stop
        ]
        if lost:  # of chunks that batches before them reach into
            yield _pack(part, _LAST_WINDOW, reached, _only(lost), 0.0)


def _open_rest(file: File, part: VerifyPart, reached: int) -> None:
    """Have every chunk opened that reading did not come to."""
    assert part.file is not None
    chunk = 0 if part.file.kept is None else part.file.kept.chunk_bytes
    if chunk and reached < part.stop:
        one = np.empty(1, dtype=np.uint8)
        for position in range(max(part.start, reached), part.stop, chunk):
            file.read_into(one, position, 1)
        file.read_into(one, part.stop - 1, 1)


def _lost_at(file: File, window: Window) -> Iterator[int]:
    """The chunk that a window says is lost."""
    if window.violation is not None and window.violation.rule is Rule.REMOTE_CHUNK_OPENS:
        begin = window.violation.position
        damage = file.damage_within(begin, begin + (window.violation.size or 1))
        if damage is not None:
            yield damage.position


def _only(violations: list[Violation]) -> Seen:
    return Seen(violations, allocate_batches(0), no_markers(0), 0)


def _windows(file: File, part: VerifyPart, max_batch_bytes: int) -> Iterator[Window]:
    """The windows of a part; where batches do not end with it, those of the rest of the file too.

    That is what one who reads the file from its beginning would see.
    """
    at, stop = part.start, min(part.stop, file.size)
    for window in read_windows(file, start=at, end=stop, max_batch_bytes=max_batch_bytes):
        at = window.stop
        if window.violation is not None and window.resync is None and part.stop < file.size:
            yield window._replace(violation=None)
            break
        at = window.stop if window.resync is None else window.resync
        yield window
    if at < part.stop < file.size:
        yield from read_windows(file, start=at, max_batch_bytes=max_batch_bytes)


def _pack(part: VerifyPart, number: int, reached: int, seen: Seen, seconds: float) -> SeenRow:
    table = np.stack([*seen.batches, *seen.markers])
    packed = _PACKING.compress(table, asbytes=True)
    return (
        part.meeting,
        part.log,
        part.segment,
        part.start,
        number,
        reached,
        table.shape[1],
        packed,
        pickle.dumps(seen.violations),
        seen.records,
        seconds,
    )


def _unpack(row: dict[str, Any]) -> Seen:
    size = _COLUMNS * row["count"] * np.dtype(np.int64).itemsize
    data = _PACKING.decompress(row["batches"], size, asbytes=True)
    table = np.frombuffer(data, dtype=np.int64).reshape(_COLUMNS, -1).copy()
    batches = Batches(*table[: len(Batches._fields)])
    markers = Markers(*table[len(Batches._fields) :])
    violations = pickle.loads(row["violations"])  # noqa: S301  from a task of this job
    return Seen(violations, batches, markers, row["records"])


def validate_partitions(
    rows: Iterable[dict[str, Any]], partitions: Sequence[Partition], options: VerifyOptions
) -> Iterator[pa.RecordBatch]:
    """Violations and accounts of the partitions whose rows these are, sorted as in SEEN_SCHEMA."""
    for log, its_rows in groupby(rows, key=lambda row: row["log"]):
        yield from _validate(partitions[log], its_rows, options)


def _validate(
    partition: Partition, rows: Iterable[dict[str, Any]], options: VerifyOptions
) -> Iterator[pa.RecordBatch]:
    accounts = [_empty_account(partition)]
    segments = _segments(rows, len(partition.segments), accounts.append, partition)
    verdicts, count, skipped, requests = [], 0, set(), Requests()
    found = _until_vanished(check_seen(partition, segments, options.storage), partition)
    for violation in requests.counting_each(found):
        verdicts.append(violation.as_row())
        count += 1
        if violation.rule.stage in _WHOLE_BATCH:
            skipped.add((violation.file, violation.position))
        if len(verdicts) == _VERDICT_ROWS:
            yield pa.RecordBatch.from_pylist(verdicts, VERDICT_SCHEMA)
            verdicts = []
    # Two directories may hold one partition: of a second broker, or one that is being moved.
    known = {"path": partition.path, "violations": count, "skippedBatches": len(skipped)}
    sent, size = requests.take()
    accounts.append(account_row(*partition.name, requests=sent, requestBytes=size))
    account = add_rows(accounts) | known
    verdicts.append({"account": json.dumps(account)})
    yield pa.RecordBatch.from_pylist(verdicts, VERDICT_SCHEMA)


def _until_vanished(found: Iterator[Violation], partition: Partition) -> Iterator[Violation]:
    """A side file that is gone ends the check of its partition, and of no other."""
    try:
        yield from found
    except FileNotFoundError as error:
        name, gone = partition.name, Violation(Rule.SLICE_COMPLETE, str(error), partition.path, 0)
        yield replace(gone, topic=name.topic, partition=name.partition)


_WHOLE_BATCH: Final = frozenset({"header", "crc", "records"})


def _segments(
    rows: Iterable[dict[str, Any]],
    count: int,
    account: Callable[[dict[str, Any]], None],
    partition: Partition,
) -> Iterator[Iterator[Seen]]:
    """What each segment says, in order; lazily, so that one window is held at a time."""
    grouped = groupby(rows, key=lambda row: row["segment"])
    for _ in range(count):
        _, its_rows = next(grouped)
        yield _one_segment(its_rows, account, partition)


def _one_segment(
    rows: Iterable[dict[str, Any]],
    account: Callable[[dict[str, Any]], None],
    partition: Partition,
) -> Iterator[Seen]:
    start, reached = 0, 0
    for row in rows:
        if row["start"] != start:
            if row["start"] < reached:
                continue  # an earlier slice had to read on over this one
            start = row["start"]
        reached = row["reached"]
        seen = _unpack(row)
        account(_account(partition, seen, row))
        yield seen


def _empty_account(partition: Partition) -> dict[str, Any]:
    name = partition.name
    return account_row(
        name.topic,
        name.partition,
        readBytes=sum(segment.log.size for segment in partition.segments),
    )


def _account(partition: Partition, seen: Seen, row: dict[str, Any]) -> dict[str, Any]:
    name, batches = partition.name, seen.batches
    broken = sum(violation.rule.stage in _WHOLE_BATCH for violation in seen.violations)
    return account_row(
        name.topic,
        name.partition,
        readBatches=batches.position.size + broken,
        readRecords=seen.records,
        firstOffset=int(first_offsets(batches)[0]) if batches.position.size else None,
        lastOffset=int(batches.last_offset[-1]) if batches.position.size else None,
        **{name: row[name] for name in ("seconds", *REQUESTS)},
    )
