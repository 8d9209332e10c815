"""Read a slice: its records, its batch headers, or what is wrong with it.

Batches that the bounds or the isolation leave out are dropped from the table before anything of
them is decompressed; records are looked at one by one only where a batch crosses a bound.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.arrow.to_arrow import (
    allocate_from_pool,
    batches_to_arrow,
    records_to_arrow,
    wanted_flags,
)
from ottla.batch.decode import Chunk, Decoder
from ottla.errors import CorruptLogError, Rule, Severity, Stage, Violation
from ottla.jobs.logs import Bounds, report_loss
from ottla.jobs.slices import Slice
from ottla.kernels.tables import Batches, Int64s, concat_batches, take_batches
from ottla.log.segment import Mode, Window, read_windows
from ottla.log.transaction_index import read_transaction_index
from ottla.options.read import Isolation, ReadOptions
from ottla.region import Region
from ottla.rules.transactions import aborted_mask
from ottla.storage import File, open_file

Bools = npt.NDArray[np.bool_]

# Microseconds in an int64 reach this many milliseconds, to both sides (SPARK-56243).
MAX_TIMESTAMP: Final = (2**63 - 1) // 1000


class Reading(NamedTuple):
    """Some records, then what was left out after them."""

    records: pa.RecordBatch | None
    violations: Sequence[Violation] = ()


def read_slice(part: Slice, columns: Sequence[str], options: ReadOptions) -> Iterator[Reading]:
    """The records of a slice; FAILFAST raises the first violation, other modes hand it over."""
    for read in _read(part, columns, options):
        if read.violations and options.mode is Mode.FAILFAST:
            raise CorruptLogError(read.violations[0])
        yield read


def read_violations(part: Slice, options: ReadOptions) -> Iterator[Violation]:
    """What reading the slice leaves out."""
    for read in _read(part, (), options):
        yield from read.violations


def read_headers(part: Slice, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """One row per batch with its CRC verdict; no record is opened."""
    with _open(part, options) as file:
        for window in _windows(file, part, options):
            if window.batches.position.size:
                yield batches_to_arrow(window.batches)


def _open(part: Slice, options: ReadOptions) -> File:
    try:
        return open_file(part.log, options.storage)
    except FileNotFoundError as error:
        report_loss(str(error), options)
        return File(part.log.path, 0, _Nothing())


class _Nothing:
    """The bytes of a file that is gone, where that is to be no error."""

    def read(self, _target: npt.NDArray[np.uint8], _position: int) -> int:
        return 0

    def close(self) -> None:
        return


def _read(part: Slice, columns: Sequence[str], options: ReadOptions) -> Iterator[Reading]:
    decoder = Decoder(
        wanted_flags(columns),
        max_batch_bytes=options.max_batch_bytes,
        allocate=allocate_from_pool,
    )
    with _open(part, options) as file:
        for window in _windows(file, part, options):
            for chunk in decoder.decode(window.region, window.batches):
                yield _finish(chunk, part, columns)
            violations = [
                broken.violation for broken in decoder.broken if _is_asked(broken.violation, part)
            ]
            if window.violation is not None and window.violation.rule.severity is Severity.ERROR:
                violations.append(window.violation)
            if violations:
                yield _finish_chunk(decoder.flush(), part, columns)
                yield Reading(None, _named(violations, part))
    yield _finish_chunk(decoder.flush(), part, columns)


def _windows(file: File, part: Slice, options: ReadOptions) -> Iterator[Window]:
    """Windows of the slice with only the batches that are wanted."""
    if part.stop > file.size and file.size:
        raise CorruptLogError(_cut_short(file, part, file.size))
    reached = part.start
    for window in read_windows(
        file,
        start=part.start,
        end=min(part.stop, file.size),
        max_batch_bytes=options.max_batch_bytes,
    ):
        reached = window.stop if window.resync is None else window.resync
        wanted = _wanted_batches(window.batches, part, options)
        yield window._replace(batches=take_batches(window.batches, wanted))
        if window.violation is not None and window.resync is None:
            return
    if reached < part.stop < part.log.size and file.size:
        raise CorruptLogError(_cut_short(file, part, reached))


def _cut_short(file: File, part: Slice, reached: int) -> Violation:
    """The slice was planned on bytes that are no longer so, or on an index that lied."""
    detail = "a planned part of the file does not end with a batch: it was truncated or rewritten"
    region = Region(np.empty(0, dtype=np.uint8), 0, file.path, reached)
    return region.violation(
        Rule.SLICE_COMPLETE, detail, at=0, found=str(reached), expected=str(part.stop)
    )


def _wanted_batches(batches: Batches, part: Slice, options: ReadOptions) -> Bools:
    wanted = np.ones(batches.position.size, dtype=np.bool_)
    if part.bounds.start is not None:
        wanted &= batches.last_offset >= part.bounds.start
    if part.bounds.stop is not None:
        wanted &= batches.base_offset < part.bounds.stop
    if options.isolation is Isolation.READ_COMMITTED and part.aborted:
        wanted &= ~aborted_mask(batches, read_transaction_index(part.aborted))
    return wanted


def _is_asked(violation: Violation, part: Slice) -> bool:
    """Whether a violation is about something within the bounds; batches outside are not opened."""
    if violation.rule.stage is not Stage.RECORD or violation.offset is None:
        return True
    return _within(np.array([violation.offset]), part.bounds) is None


def _named(violations: Sequence[Violation], part: Slice) -> list[Violation]:
    if part.name is None:
        return list(violations)
    topic, partition = part.name
    return [replace(violation, topic=topic, partition=partition) for violation in violations]


def _finish_chunk(chunk: Chunk | None, part: Slice, columns: Sequence[str]) -> Reading:
    return Reading(None) if chunk is None else _finish(chunk, part, columns)


def _finish(chunk: Chunk, part: Slice, columns: Sequence[str]) -> Reading:
    """A chunk as Arrow, without records outside the bounds or the range of timestamps."""
    timestamps = chunk.buffers.timestamp[: chunk.count]
    kept = _within(chunk.buffers.offset[: chunk.count], part.bounds)
    unfit = (timestamps > MAX_TIMESTAMP) | (timestamps < -MAX_TIMESTAMP)
    violations: list[Violation] = []
    if unfit.any():
        reported = unfit if kept is None else unfit & kept
        violations = _describe_timestamps(chunk, np.flatnonzero(reported), part)
        kept = ~unfit if kept is None else kept & ~unfit
    if not columns:
        return Reading(None, violations)
    records = records_to_arrow(chunk, columns)
    return Reading(records if kept is None else records.filter(pa.array(kept)), violations)


def _within(offsets: Int64s, bounds: Bounds) -> Bools | None:
    """Which records are within the bounds; None if all are."""
    kept = None
    if bounds.start is not None and offsets.min() < bounds.start:
        kept = offsets >= bounds.start
    if bounds.stop is not None and offsets.max() >= bounds.stop:
        below = offsets < bounds.stop
        kept = below if kept is None else kept & below
    return kept


def _describe_timestamps(chunk: Chunk, rows: npt.NDArray[np.intp], part: Slice) -> list[Violation]:
    batches = concat_batches([batches for batches, _ in chunk.pieces])
    owner = np.repeat(
        np.arange(batches.position.size), np.concatenate([n for _, n in chunk.pieces])
    )
    found = [
        Violation(
            Rule.TIMESTAMP_RANGE,
            "the timestamp does not fit into microseconds",
            part.log.path,
            position=int(batches.position[owner[row]]),
            size=int(batches.size[owner[row]]),
            offset=int(chunk.buffers.offset[row]),
            last_offset=int(chunk.buffers.offset[row]),
            found=str(chunk.buffers.timestamp[row]),
            expected=f"within {MAX_TIMESTAMP} ms of 1970",
        )
        for row in rows.tolist()
    ]
    return _named(found, part)
