"""Parts of a segment to lines: choose records, word what kernels cannot, render, count."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from ottla.arrow.to_arrow import records_to_arrow
from ottla.batch.attributes import (
    codec_ids,
    has_delete_horizon,
    is_control,
    is_transactional,
    last_sequences,
    timestamp_types,
)
from ottla.batch.control import is_end_marker
from ottla.batch.control_records import read_key_value
from ottla.batch.decode import Chunk, allocate_chunk
from ottla.batch.parts import Part
from ottla.dump.payloads import Form, as_stored, in_form
from ottla.dump.request import Request
from ottla.dump.style import Problem
from ottla.errors import Severity, Stage, Violation
from ottla.format.arrays import Bools
from ottla.format.names import TopicPartition
from ottla.format.sentinels import NO_CRC
from ottla.internal import decode_record
from ottla.kernels.records.select import mark_bytes, mark_header
from ottla.kernels.tables import Int64s, RecordBuffers, Wanted, allocate_bytes, take_batches
from ottla.kernels.text import render
from ottla.kernels.text.render_tables import BatchColumns, RecordColumns
from ottla.log.check.control import check_control_records
from ottla.log.read.bounds import EVERYTHING, Bounds, within
from ottla.region import Bytes, padded

OUTPUT_BYTES: Final = 1 << 20
Write = Callable[[bytes | memoryview], None]  # where lines go; what it is given changes afterwards


class Insert(NamedTuple):
    """A finished line, and the batch and record of a part that it stands between."""

    row: int
    record: int
    line: bytes


class LinePrinter:
    """Prints the parts of one file and counts what it printed.

    `remaining` is how many records may still be printed, None for all; `stopped_at` the batch where
    there were no more.
    """

    def __init__(
        self,
        path: str,
        request: Request,
        write: Write,
        *,
        bounds: Bounds,
        partition: TopicPartition,
        decoder: str | None,
        remaining: int | None,
    ) -> None:
        self.path = path
        self.request = request
        self.write = write
        self.bounds = bounds
        self.style = request.style
        self.partition = partition
        self.decoder = decoder
        self.remaining = remaining
        self.stopped_at: int | None = None
        self.batches = self.records = self.errors = 0
        self.found_error = False
        self.out: Bytes = np.empty(OUTPUT_BYTES, dtype=np.uint8)
        self._ending = padded(self.style.close_line(path))
        self._line_is_done = False  # of the last batch of the part before

    def print_problem(self, problem: Problem) -> None:
        """Print a problem that belongs to no batch."""
        self.write(self._say_problem(problem))

    def print_part(self, part: Part) -> None:
        """Print batches, those of their records that are wanted, and what is wrong with them."""
        shown = choose_records(part.chunk, self.request, self.bounds, self.partition, self.path)
        part, shown = self._limit(part, shown)
        batch_shown, incomplete = self._choose_batches(part, shown)
        inserts = list(self._say_broken(part))
        tails = dict(self._say_tails(part, shown, inserts))
        self.batches += int(np.count_nonzero(batch_shown)) + incomplete
        self.records += int(np.count_nonzero(shown))
        self._render(
            batch_columns(part, hides_crcs=self.request.hides_payload),
            record_columns(part, tails, self.request.form, utf8=self.style.utf8_keys),
            make_plan(batch_shown, part.record_counts, shown, inserts, self._ending),
        )

    def _limit(self, part: Part, shown: Bools) -> tuple[Part, Bools]:
        if self.remaining is None:
            return part, shown
        chosen = np.flatnonzero(shown)[: self.remaining]
        self.remaining -= chosen.size
        if self.remaining > 0:
            return part, shown
        cut = cut_part(part, int(chosen[-1]) + 1)
        self.stopped_at = int(cut.batches.position[-1])
        return cut, shown[: chosen[-1] + 1]

    def _choose_batches(self, part: Part, shown: Bools) -> tuple[Bools, int]:
        """Which batches have a line, and how many are too short for one."""
        lines = np.ones(part.record_counts.size, dtype=np.bool_)
        if self.request.selects() or (self.request.opens_records and self.bounds != EVERYTHING):
            before = np.concatenate(([0], np.cumsum(shown)))
            ends = np.cumsum(part.record_counts)
            lines = before[ends] > before[ends - part.record_counts]
        incomplete = [
            broken.row for broken in part.broken if broken.violation.rule.stage == Stage.HEADER
        ]
        lines[incomplete] = False
        if self.request.hides_payload:  # what a wrong CRC is of may be bytes of records
            lines &= part.batches.crc == part.batches.computed_crc
        if part.resumed and self._line_is_done:
            lines[0] = False
        if lines.size:
            continued = part.resumed and self._line_is_done and lines.size == 1
            self._line_is_done = bool(lines[-1]) or continued
        return lines, len(incomplete)

    def _say_broken(self, part: Part) -> Iterator[Insert]:
        ends = np.cumsum(part.record_counts)
        for broken in part.broken:
            row, stage = broken.row, broken.violation.rule.stage
            record = end = int(ends[row])
            index = broken.index if stage in (Stage.RECORD, Stage.RECORDS) else None
            if stage == Stage.RECORD and part.chunk is not None:
                start = end - int(part.record_counts[row])
                indexes = part.chunk.buffers.index[start:end]
                record = start + int(np.searchsorted(indexes, broken.index))
            yield Insert(row, record, self._say_problem(Problem(broken.violation, index)))

    def _say_tails(
        self, part: Part, shown: Bools, inserts: list[Insert]
    ) -> Iterator[tuple[int, bytes]]:
        """The ends of control records and of decoded ones; an unreadable one adds an insert."""
        control = is_control(part.batches)
        plans = self.request.payloads.get(str(self.partition.topic))
        if part.chunk is None or not (self.decoder or control.any() or plans):
            return
        rows = np.repeat(np.arange(control.size), part.record_counts)[: shown.size]
        wanted = shown if self.decoder else shown & control[rows]
        if plans is not None:
            # Not before: few dumps need what decodes by schemas.
            from ottla.dump.typed import decode_records

            typed = np.flatnonzero(shown & ~control[rows]).tolist()
            tails = decode_records(part.chunk, plans, typed, self.request.encoding)
            wanted = shown & control[rows]
            said = {record: self.style.say_decoded(decoded) for record, decoded in tails}
        else:
            said = {}
        unreadable = dict(check_control_records(part, self.path))
        buffers = part.chunk.buffers
        for record in sorted({*np.flatnonzero(wanted).tolist(), *said}):
            if record in said:
                yield record, said[record]
                continue
            row = int(rows[record])
            key, value = read_key_value(buffers, record)
            if not control[row] and self.decoder:
                yield record, self.style.say_decoded(decode_record(self.decoder, key, value))
                continue
            if record not in unreadable:
                hidden = self.request.hides_payload and not is_end_marker(key)
                say = self.style.say_control
                yield record, self.style.no_control if hidden else say(key, value)
                continue
            yield record, self.style.no_control
            line = self._say_problem(Problem(unreadable[record], int(buffers.index[record])))
            inserts.append(Insert(row, record + 1, line))

    def _say_problem(self, problem: Problem) -> bytes:
        self.errors += 1
        topic, partition = self.partition
        violation = replace(problem.violation, topic=topic, partition=partition)
        if self.request.hides_payload:
            violation = without_payload(violation)
        self.found_error |= violation.rule.severity is Severity.ERROR
        if self.request.quiet:
            return b""
        return self.style.say_problem(problem._replace(violation=violation))

    def _render(self, batches: BatchColumns, records: RecordColumns, plan: render.Plan) -> None:
        cursor = np.zeros(render.CURSOR_SIZE, dtype=np.int64)
        done = False
        while not done:
            if cursor[render.NEEDED] > self.out.size:
                self.out = np.empty(cursor[render.NEEDED], dtype=np.uint8)
            done = self.style.render(self.out, cursor, batches, records, plan)
            self.write(self.out.data[: cursor[render.AT]])


def without_payload(violation: Violation) -> Violation:
    """Without what was read from records, or from bytes that may be theirs as no batch is there."""
    violation = replace(violation, found=None, expected=None)
    if violation.rule.stage is Stage.CONTROL:
        return replace(violation, detail="Kafka cannot read this control record")
    if violation.rule.stage not in (Stage.FRAMING, Stage.HEADER, Stage.CRC):
        return violation
    return replace(violation, size=None, offset=None, last_offset=None)


def choose_records(
    chunk: Chunk | None, request: Request, bounds: Bounds, partition: TopicPartition, path: str
) -> Bools:
    """Which records of a chunk are wanted."""
    if chunk is None:
        return np.zeros(0, dtype=np.bool_)
    chosen = np.ones(chunk.count, dtype=np.bool_)
    if request.keys:
        chosen[:] = False
        keys = chunk.buffers.key_bounds, chunk.buffers.key_bytes, chunk.buffers.key_valid
        for key in request.keys:
            mark_bytes(*keys, _array(key), chosen)
    chosen &= within(chunk.buffers.offset[: chunk.count], bounds)
    for key, value in request.headers:
        marked = np.zeros(chunk.count, dtype=np.bool_)
        mark_header(chunk.buffers, _array(key), _array(value or b""), value is None, marked)
        chosen &= marked
    if request.where is not None:
        # Not before: to import Arrow's functions takes as long as a small dump.
        from ottla.where.evaluate import FilePlace, match_records

        chosen &= match_records(request.where, chunk, FilePlace(partition, path))
    return chosen


def cut_part(part: Part, count: int) -> Part:
    """The part up to its first `count` records, without what comes after the last of them."""
    ends = np.cumsum(part.record_counts)
    last = int(np.searchsorted(ends, count))
    counts = part.record_counts[: last + 1].copy()
    counts[last] -= ends[last] - count
    return replace(
        part,
        batches=take_batches(part.batches, slice(0, last + 1)),
        base_known=part.base_known[: last + 1],
        record_counts=counts,
        broken=[broken for broken in part.broken if broken.row < last],
    )


def batch_columns(part: Part, *, hides_crcs: bool) -> BatchColumns:
    """What the batch lines of a part say; a CRC lets one check what one guesses of records."""
    batches = part.batches
    if hides_crcs:
        nothing = np.full_like(batches.crc, NO_CRC)
        batches = batches._replace(crc=nothing, computed_crc=nothing)
    return BatchColumns(
        stored=batches,
        base_known=part.base_known,
        codec=codec_ids(batches),
        timestamp_type=timestamp_types(batches),
        last_sequence=last_sequences(batches),
        is_transactional=is_transactional(batches),
        is_control=is_control(batches),
        has_delete_horizon=has_delete_horizon(batches),
    )


def record_columns(
    part: Part, tails: dict[int, bytes], form: Form | None, *, utf8: bool
) -> RecordColumns:
    """What the record lines of a part say; `utf8` where header keys must be that."""
    chunk = part.chunk or _no_records()
    buffers = chunk.buffers
    verbatim = form is not None and chunk.count > 0
    payloads = in_form(chunk, form) if form is not None and verbatim else as_stored(buffers)
    if utf8 and not chunk.header_keys_are_ascii:
        buffers = _with_utf8_keys(chunk)
    sizes = np.zeros(chunk.count + 1, dtype=np.int64)
    for record, tail in tails.items():
        sizes[record + 1] = len(tail)
    bounds = np.cumsum(sizes) if tails else sizes
    data = padded(b"".join(tails.values()))
    return RecordColumns(buffers, payloads, verbatim, bounds, data)


def make_plan(
    batch_shown: Bools,
    record_counts: Int64s,
    record_shown: Bools,
    inserts: list[Insert],
    ending: Bytes,
) -> render.Plan:
    """What the kernel is to print in which order."""
    inserts.sort(key=lambda insert: (insert.row, insert.record))
    sizes = [0, *(len(insert.line) for insert in inserts)]
    return render.Plan(
        batch_shown,
        record_counts,
        record_shown,
        np.array([insert.row for insert in inserts], dtype=np.int64),
        np.array([insert.record for insert in inserts], dtype=np.int64),
        np.cumsum(sizes, dtype=np.int64),
        padded(b"".join(insert.line for insert in inserts)),
        ending,
    )


@cache
def _no_records() -> Chunk:
    return Chunk(allocate_chunk(Wanted.OFFSETS, 0, allocate_bytes))


def _with_utf8_keys(chunk: Chunk) -> RecordBuffers:
    """Header keys as Java would print them, where not all are UTF-8."""
    headers = records_to_arrow(chunk, ["headers"]).column(0)
    _, bounds, data = headers.values.field("key").buffers()
    return chunk.buffers._replace(
        header_key_bounds=np.frombuffer(bounds, dtype=np.int32).copy(),
        header_key_bytes=padded(memoryview(data)),
    )


def _array(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)
