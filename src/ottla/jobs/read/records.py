"""Read a slice: its records, its batch headers, or what is wrong with it.

Batches that the bounds or the isolation leave out are dropped from the table before anything of
them is decompressed; records are looked at one by one only where a batch crosses a bound.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.arrow.to_arrow import batches_to_arrow, records_to_arrow, wanted_flags
from ottla.batch.decode import Broken, Chunk, Decoder
from ottla.batch.memory import allocate_from_pool
from ottla.catalog.logs import Bounds, report_loss
from ottla.catalog.positions import find_entry, read_index_file
from ottla.catalog.slices import Slice
from ottla.errors import CorruptLogError, Rule, Severity, Stage, Violation
from ottla.format.arrays import Bools
from ottla.format.sentinels import INT64_MAX
from ottla.kernels.tables import Batches, Int64s, allocate_batches, concat_batches, take_batches
from ottla.log.files.offset_index import OffsetIndex
from ottla.log.files.transaction_index import read_transaction_index
from ottla.log.read.segment import Mode, Window, read_windows
from ottla.options.read import Isolation, ReadOptions
from ottla.region import PADDING, Region
from ottla.rules.producers.transactions import aborted_mask
from ottla.storage.files import File, open_file

FindEntry = Callable[[int, int], int | None]

# Microseconds in an int64 reach this many milliseconds, to both sides (SPARK-56243).
MAX_TIMESTAMP: Final = INT64_MAX // 1000


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
    for window in _windows(part, options):
        if window.batches.position.size:
            yield batches_to_arrow(window.batches)
        if options.mode is Mode.FAILFAST and _is_error(window.violation):
            raise CorruptLogError(_named([window.violation], part)[0])


def _is_error(violation: Violation | None) -> TypeGuard[Violation]:
    return violation is not None and violation.rule.severity is Severity.ERROR


def _open(part: Slice, options: ReadOptions) -> File | None:
    """The file; None if it is gone and that is to be no error."""
    try:
        return open_file(part.log, options.storage)
    except FileNotFoundError as error:
        report_loss(str(error), options)
        return None


def _read(part: Slice, columns: Sequence[str], options: ReadOptions) -> Iterator[Reading]:
    decoder = Decoder(
        wanted_flags(columns),
        max_batch_bytes=options.max_batch_bytes,
        allocate=allocate_from_pool,
    )
    for window in _windows(part, options):
        violations: list[Violation] = []
        for chunk, broken in decoder.decode(window.region, window.batches):
            violations += _asked(broken, part)
            if violations and options.mode is Mode.FAILFAST:
                break  # the chunk may hold what is behind the damage
            if chunk is not None:
                yield _finish(chunk, part, columns)
        if _is_error(window.violation):
            violations.append(window.violation)
        if violations and options.mode is not Mode.FAILFAST:
            yield _finish_chunk(decoder.flush(), part, columns)
        if violations:
            yield Reading(None, _named(violations, part))
    yield _finish_chunk(decoder.flush(), part, columns)


def _asked(broken: Sequence[Broken], part: Slice) -> list[Violation]:
    """What is broken of what the slice asks for."""
    return [bad.violation for bad in broken if _is_asked(bad.violation, part)]


def _windows(part: Slice, options: ReadOptions) -> Iterator[Window]:
    """Windows of the slice with only the batches that are wanted."""
    file = _open(part, options)
    if file is None:
        return
    with file:
        if file.size < part.stop:
            report_loss(
                f"{file.path} shrank to {file.size} bytes while bytes up to {part.stop} "
                "were to be read",
                options,
            )
        for window in _whole_windows(file, part, options):
            wanted = _wanted_batches(window.batches, part, options)
            yield window._replace(batches=take_batches(window.batches, wanted))


def _whole_windows(file: File, part: Slice, options: ReadOptions) -> Iterator[Window]:
    """Windows of the slice; after damage reading goes on at the next batch that the index knows.

    Slices may begin at any batch that the index knows, so only this gives the same rows and
    violations however a segment is cut.
    """
    at, stop = part.start, min(part.stop, file.size)
    find_next = _entries(file, part, options)
    while at < stop:
        for window in read_windows(
            file, start=at, end=stop, max_batch_bytes=options.max_batch_bytes
        ):
            settled = _settle(window, part, find_next)
            yield settled
            at = window.stop
            if settled.violation is not None:
                at = stop if settled.resync is None else settled.resync
            if settled.resync != window.resync:
                break
        else:
            if at >= stop or file.size < part.stop:
                return
            following = find_next(at, file.size)
            if following is None and part.is_last and part.stop == part.log.size:
                return  # a batch that is half written
            yield _cut_short(file, at, following)
            at = stop if following is None else following


def _entries(file: File, part: Slice, options: ReadOptions) -> FindEntry:
    """Finds the batches that the index knows; the index is read when first asked."""

    @cache
    def index() -> OffsetIndex | None:
        try:
            return read_index_file(part.index, part.base_offset, options.storage)
        except FileNotFoundError:
            return None

    return lambda after, before: find_entry(file, index(), after, before)


def _settle(window: Window, part: Slice, find_next: FindEntry) -> Window:
    """The window with the place after damage at which every reader of the segment goes on."""
    batches = window.batches
    for row in np.flatnonzero(batches.crc != batches.computed_crc).tolist():
        position = int(batches.position[row])
        inside = find_next(position, position + int(batches.size[row]))
        if inside is not None:
            whole = take_batches(batches, slice(0, row))
            reaching = _reaches_over(window.region.path, position, inside)
            return Window(window.region, whole, position, reaching, inside)
    violation = window.violation
    if violation is None or _is_end(violation, part):
        return window
    if violation.rule is Rule.ZERO_TAIL:
        detail = "nothing but zeros to the end of the slice, and batches after it"
        violation = replace(violation, rule=Rule.BATCH_SIZE_MINIMUM, detail=detail)
    limit = part.log.size if window.resync is None else window.resync
    following = find_next(window.stop, limit)
    return window._replace(
        violation=violation, resync=window.resync if following is None else following
    )


def _is_end(violation: Violation, part: Slice) -> bool:
    """Whether this is the preallocated end of the log; before a cut zeros are damage."""
    return violation.rule is Rule.ZERO_TAIL and part.stop == part.log.size


def _reaches_over(path: str, position: int, following: int) -> Violation:
    detail = "the length reaches past the place where, by the index, a later batch begins"
    return Violation(
        Rule.BATCH_SIZE_RANGE, detail, path, position, expected=f"at most {following - position}"
    )


def _cut_short(file: File, position: int, following: int | None) -> Window:
    """No more batches before the end of the slice, and yet no end of the log."""
    region = Region(np.zeros(PADDING, dtype=np.uint8), 0, file.path, position)
    if following is not None:
        violation = _reaches_over(file.path, position, following)
    else:
        detail = "half a batch, and it is not the end of the log"
        violation = region.violation(Rule.SLICE_COMPLETE, detail, at=0)
    return Window(region, allocate_batches(0), position, violation, following)


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
