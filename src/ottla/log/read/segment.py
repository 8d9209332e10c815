"""Read a segment file: windows of whole batches, then their headers or their records as Arrow.

A window is about WINDOW_BYTES of the file, or one larger batch; memory does not grow with the file.
"""

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.arrow.from_arrow import records_from_arrow
from ottla.arrow.schema import RECORD_COLUMNS, RECORD_SCHEMA
from ottla.arrow.to_arrow import batches_to_arrow, records_to_arrow, wanted_flags
from ottla.batch.attributes import last_sequences
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.batch.encode import encode_batches, split
from ottla.batch.memory import allocate_from_pool
from ottla.batch.new_batch import NewBatch
from ottla.errors import CorruptLogError, OptionError, PublishError, Rule, Severity, Violation
from ottla.format.sentinels import MAX_SEQUENCE
from ottla.kernels import status
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.records.scan import scan
from ottla.kernels.tables import Batches, Int64s, Wanted, allocate_batches, take_batches
from ottla.log.read.buffer import WINDOW_BYTES, Buffer
from ottla.region import Region
from ottla.storage.files import (
    File,
    Path,
    is_remote,
    local_path,
    open_file,
    open_output,
    sync_directory,
)

PRODUCER_BATCH_BYTES: Final = 16384  # the default of a producer's batch.size
_TABLE_ROWS: Final = 1 << 10  # to begin with; the next window gets twice what the last one held


class Mode(StrEnum):
    """What to do about a broken batch (the words of Spark's file sources)."""

    FAILFAST = "FAILFAST"
    DROPMALFORMED = "DROPMALFORMED"
    PERMISSIVE = "PERMISSIVE"


class Window(NamedTuple):
    """Whole batches, and what stopped the cutting of more.

    `stop` is where the next batch begins. A `violation` is about the bytes there; reading goes on
    at `resync`, or ends when that is None.
    """

    region: Region
    batches: Batches
    stop: int
    violation: Violation | None = None
    resync: int | None = None


def read_windows(
    file: File,
    *,
    start: int = 0,
    end: int | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    check_crcs: bool = True,
) -> Iterator[Window]:
    """Cut the file into windows; each must be used before the next is asked for."""
    with Buffer(file, start, file.size if end is None else end) as buffer:
        yield from _cut_windows(buffer, max_batch_bytes, check_crcs)


def _cut_windows(buffer: Buffer, max_batch_bytes: int, check_crcs: bool) -> Iterator[Window]:
    capacity = _TABLE_ROWS
    at = buffer.position
    needed = WINDOW_BYTES
    while True:
        buffer.advance(at, needed)
        table = allocate_batches(capacity, allocate_from_pool)
        rows, stopped, outcome, size = scan(buffer.data, 0, buffer.size, buffer.position, table)
        batches = take_batches(table, slice(0, rows))
        capacity = max(_TABLE_ROWS, 2 * rows)
        if check_crcs:
            compute_crcs(buffer.data, buffer.position, batches)
        at = buffer.position + stopped
        violation, resync = _judge_stop(buffer, at, outcome, size, max_batch_bytes)
        yield Window(buffer.region(), batches, at, violation, resync)
        if violation is not None and resync is None:
            return
        if resync is not None:
            at = resync
        needed = WINDOW_BYTES
        if outcome == status.END:
            if buffer.position + buffer.size >= buffer.end and (
                size == 0 or at + size > buffer.end
            ):
                return
            needed = max(WINDOW_BYTES, size)


def _judge_stop(
    buffer: Buffer, at: int, outcome: int, size: int, max_batch_bytes: int
) -> tuple[Violation | None, int | None]:
    region, inside = buffer.region(), at - buffer.position
    if outcome == status.SIZE_TOO_SMALL:
        if size == 0 and _only_zeros(buffer.file, at, buffer.end):
            detail = "nothing but zeros to the end of the file: preallocated, never written"
            return region.violation(Rule.ZERO_TAIL, detail, at=inside, size=buffer.end - at), None
        detail = "the length field is too small for any batch"
        return (
            region.violation(
                Rule.BATCH_SIZE_MINIMUM, detail, at=inside, found=str(size), expected="at least 14"
            ),
            None,
        )
    if outcome == status.SIZE_TOO_LARGE:
        detail = "the length field is too large for any batch"
        return region.violation(Rule.BATCH_SIZE_RANGE, detail, at=inside, found=str(size)), None
    if outcome == status.MAGIC_UNKNOWN:
        magic = int(buffer.data[inside + 16].view(np.int8))
        after = at + size if at + size <= buffer.end else None
        detail = "no such message format"
        return (
            region.violation(
                Rule.MAGIC_KNOWN,
                detail,
                at=inside,
                size=size,
                found=str(magic),
                expected="0, 1 or 2",
            ),
            after,
        )
    if outcome == status.END and size > max_batch_bytes and at + size <= buffer.end:
        detail = "the batch is larger than maxBatchBytes"
        return (
            region.violation(
                Rule.BATCH_BYTES_LIMIT,
                detail,
                at=inside,
                size=size,
                expected=f"at most {max_batch_bytes}",
            ),
            at + size,
        )
    return None, None


def _only_zeros(file: File, position: int, end: int) -> bool:
    block = np.empty(min(WINDOW_BYTES, end - position), dtype=np.uint8)
    while position < end:
        got = file.read_into(block, position, min(block.size, end - position))
        if got == 0 or block[:got].any():
            return got == 0
        position += got
    return True


def read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The batch headers of a segment with their CRC verdicts; no record is opened.

    Bytes where no batch can be cut end the reading or are passed over; `ottla verify` names them.
    """
    with open_file(path) as file:
        for window in read_windows(file):
            if window.batches.position.size:
                yield batches_to_arrow(window.batches)


def read_segment(
    path: Path,
    *,
    columns: Sequence[str] = tuple(RECORD_SCHEMA.names),
    mode: str = Mode.FAILFAST,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The records of a segment, control records left out.

    FAILFAST raises CorruptLogError at the first violation; DROPMALFORMED leaves broken batches out.
    PERMISSIVE also gives one row for each of them, null but for `_corrupt`, the last column.
    """
    if mode not in list(Mode):
        raise OptionError(f"no mode {mode!r}; modes are {', '.join(Mode)}")
    wanted = wanted_flags(columns)
    with open_file(path) as file:
        yield from read_records(file, columns, wanted, Mode(mode), max_batch_bytes)


def read_records(
    file: File, columns: Sequence[str], wanted: Wanted, mode: Mode, max_batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The records of an open segment, as `read_segment`."""
    decoder = Decoder(wanted, max_batch_bytes=max_batch_bytes, allocate=allocate_from_pool)
    for window in read_windows(file, max_batch_bytes=max_batch_bytes):
        violations: list[Violation] = []
        for chunk, broken in decoder.decode(window.region, window.batches):
            violations += (bad.violation for bad in broken)
            if violations and mode is Mode.FAILFAST:
                break  # the chunk may hold what is behind the damage
            if chunk is not None:
                yield _finish(records_to_arrow(chunk, columns), mode)
        if window.violation is not None and window.violation.rule.severity is Severity.ERROR:
            violations.append(window.violation)
        if not violations:
            continue
        if mode is Mode.FAILFAST:
            raise CorruptLogError(violations[0])
        if mode is Mode.PERMISSIVE:
            rest = decoder.flush()
            if rest is not None:
                yield _finish(records_to_arrow(rest, columns), mode)
            yield corrupt_rows(violations, columns)
    rest = decoder.flush()
    if rest is not None:
        yield _finish(records_to_arrow(rest, columns), mode)


def _permissive_schema(columns: Sequence[str]) -> pa.Schema:
    fields = [RECORD_COLUMNS[name].with_nullable(True) for name in columns]
    return pa.schema([*fields, pa.field("_corrupt", pa.string())])


def _finish(batch: pa.RecordBatch, mode: Mode) -> pa.RecordBatch:
    if mode is not Mode.PERMISSIVE:
        return batch
    nothing = pa.nulls(batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays(
        [*batch.columns, nothing], schema=_permissive_schema(batch.schema.names)
    )


def corrupt_rows(violations: list[Violation], columns: Sequence[str]) -> pa.RecordBatch:
    """What PERMISSIVE gives for violations: rows that are null but for `_corrupt`."""
    schema = _permissive_schema(columns)
    empty = [pa.nulls(len(violations), field.type) for field in schema][:-1]
    texts = pa.array([str(violation) for violation in violations], pa.string())
    return pa.RecordBatch.from_arrays([*empty, texts], schema=schema)


def write_segment(
    batches: Iterable[pa.RecordBatch],
    path: Path,
    *,
    new_batch: NewBatch = NewBatch(),  # noqa: B008  (frozen)
    batch_bytes: int = PRODUCER_BATCH_BYTES,
) -> int:
    """Write records as a new segment and return its bytes; it appears under its name when whole.

    The columns key, value, offset, timestamp and headers are written, each if it is there. Records
    are cut into batches as a producer with `batch.size` does; sequences go on from batch to batch.
    """
    if is_remote(path):
        raise OptionError(
            f"{path}: write_segment writes local files; the Spark sink writes to stores"
        )
    target = local_path(path)
    if os.path.exists(target):
        raise PublishError(f"{target} exists; Ottla does not overwrite segments")
    staged = f"{target}.{uuid.uuid4().hex}.tmp"
    try:
        with open_output(staged) as out:
            size = _write_batches(batches, out, target, new_batch, batch_bytes)
        os.link(staged, target)  # unlike a rename, this never replaces
        sync_directory(os.path.dirname(target) or ".")
    finally:
        if os.path.exists(staged):
            os.unlink(staged)
    return size


def _write_batches(
    batches: Iterable[pa.RecordBatch], out: Any, path: str, new_batch: NewBatch, batch_bytes: int
) -> int:
    size = 0
    following = new_batch
    next_offset = new_batch.base_offset or 0
    last_offset: int | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        records = records_from_arrow(batch, first_offset=next_offset)
        _require_rising(records.offset, last_offset, path)
        encoded = encode_batches(records, split(records, following, batch_bytes), following)
        out.write(encoded.data)
        size += encoded.data.size
        last_offset = int(encoded.batches.last_offset[-1])
        next_offset = last_offset + 1
        sequence = int(last_sequences(encoded.batches)[-1])
        following = replace(
            following,
            base_offset=None,
            base_sequence=-1 if sequence < 0 else (sequence + 1) % (MAX_SEQUENCE + 1),
        )
    return size


def _require_rising(offsets: Int64s, last: int | None, path: str) -> None:
    """Offsets rise within a segment, whatever batches the records are cut into."""
    before = offsets[0] - 1 if last is None else last
    falling = np.flatnonzero(np.diff(offsets, prepend=before) <= 0)
    if falling.size:
        row = int(falling[0])
        detail = f"an offset is not above the one before it (row {row})"
        offset = int(offsets[row])
        raise CorruptLogError(Violation(Rule.RECORD_OFFSETS_RISE, detail, path, 0, offset=offset))
