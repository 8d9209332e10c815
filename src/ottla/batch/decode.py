"""Decode the batches of a window into chunks of records: decompress, then one resumable pass.

The only place that turns a kernel's status into a violation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from ottla.codec import Arena, CodecError, OutputTooLarge, decompress_window, open_stream
from ottla.errors import Rule, Violation
from ottla.format.attributes import Codec
from ottla.format.layout import BATCH_OVERHEAD
from ottla.kernels import status
from ottla.kernels.records import gather
from ottla.kernels.records.legacy import open_wrappers
from ottla.kernels.records.validate import validate_batches
from ottla.kernels.tables import (
    Allocate,
    Batches,
    Int64s,
    Payloads,
    RecordBuffers,
    Wanted,
    allocate_bytes,
    allocate_payloads,
    take_batches,
)
from ottla.region import PADDING, Bytes, Region

DEFAULT_MAX_BATCH_BYTES: Final = 256 << 20

CHUNK_RECORDS: Final = 32768
CHUNK_BYTES: Final = 2 << 20
CHUNK_HEADERS: Final = 65536
_REJECTED_ROWS: Final = 1024
MAX_BROKEN_MESSAGES: Final = 1000  # of one wrapper that are named one by one

_RULES: Final = {
    status.HEADER_INCOMPLETE: (
        Rule.BATCH_HEADER_COMPLETE,
        "the batch is shorter than its fixed part",
    ),
    status.CRC_MISMATCH: (Rule.CRC_MATCHES, "the CRC does not match the bytes"),
    status.CODEC_UNKNOWN: (Rule.CODEC_KNOWN, "no such compression type id"),
    status.CODEC_NOT_ALLOWED: (Rule.CODEC_ALLOWED, "zstd needs magic 2"),
    status.CODEC_FAILED: (Rule.DECOMPRESSES, "the records do not decompress"),
    status.BATCH_TOO_LARGE: (Rule.BATCH_BYTES_LIMIT, "raise maxBatchBytes to read it"),
    status.COUNT_NEGATIVE: (Rule.RECORD_COUNT, "the record count is negative"),
    status.RECORD_TRUNCATED: (Rule.RECORD_COMPLETE, "the batch ends inside a record"),
    status.VARINT_TOO_LONG: (Rule.RECORD_VARINT, "a varint has too many bytes"),
    status.RECORD_SIZE: (Rule.RECORD_SIZE, "the record's fields do not fill its declared size"),
    status.FIELD_TOO_LONG: (Rule.RECORD_FIELD_SIZE, "a field is longer than what holds it"),
    status.HEADER_COUNT: (
        Rule.HEADER_COUNT,
        "the header count is negative or larger than the record",
    ),
    status.HEADER_KEY_NULL: (Rule.HEADER_KEY_NOT_NULL, "a header has no key"),
    status.BYTES_REMAIN: (Rule.RECORDS_REMAIN, "bytes remain after the last counted record"),
    status.MESSAGE_TRUNCATED: (
        Rule.WRAPPER_VALUE,
        "a compressed message is shorter than its fixed part",
    ),
    status.WRAPPER_VALUE_NULL: (Rule.WRAPPER_VALUE, "a compressed message has no value"),
    status.WRAPPER_EMPTY: (Rule.WRAPPER_NOT_EMPTY, "a compressed message holds no messages"),
    status.WRAPPER_OFFSET: (
        Rule.WRAPPER_OFFSET,
        "the wrapper's offset is below its last message's",
    ),
    status.INNER_SIZE: (Rule.INNER_FRAMING, "an inner message's size is below 14"),
    status.INNER_COMPRESSED: (Rule.INNER_NOT_COMPRESSED, "an inner message is compressed again"),
}


@dataclass(slots=True)
class Chunk:
    """Decoded records, with the batches that they came from and how many each gave."""

    buffers: RecordBuffers
    count: int = 0
    header_count: int = 0
    header_keys_are_ascii: bool = True
    pieces: list[tuple[Batches, Int64s]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Broken:
    """A violation, and which batch of the window and which of its records broke it."""

    row: int
    index: int
    violation: Violation


class Piece(NamedTuple):
    """A full chunk, or None at the end of a window, and what was left out since the piece before.

    The chunk may hold records from behind what was left out.
    """

    chunk: Chunk | None
    broken: list[Broken]


class _LeftOut:
    """What was left out of a window and is not handed over yet.

    A wrapper can hold millions of broken messages, each of which would cost more memory than it has
    bytes: the last that is named stands for all that follow it, and waits until they are known.
    """

    def __init__(self) -> None:
        self._known: list[Broken] = []
        self._last: Broken | None = None
        self._row = -1
        self._count = 0

    def add(self, broken: Broken) -> None:
        if broken.row != self._row:
            self._name_last()
            self._row, self._count = broken.row, 0
        self._count += 1
        if self._count < MAX_BROKEN_MESSAGES:
            self._known.append(broken)
            return
        if self._last is None:
            self._last = broken
            return
        unnamed = self._count - MAX_BROKEN_MESSAGES
        self._last = replace(
            self._last,
            violation=replace(
                self._last.violation,
                detail=f"message {self._last.index} of the wrapper, and {unnamed} more after it",
                last_offset=broken.violation.last_offset,
            ),
        )

    def take(self, reached: int) -> list[Broken]:
        """What is known when all batches before row `reached` are decoded."""
        if self._row < reached:
            self._name_last()
        taken, self._known = self._known, []
        return taken

    def _name_last(self) -> None:
        if self._last is not None:
            self._known.append(self._last)
            self._last = None


def allocate_chunk(wanted: Wanted, needed: int, allocate: Allocate) -> RecordBuffers:
    """Room for a chunk; `needed` is what a single record or batch is known to take."""
    data = max(CHUNK_BYTES, needed) + PADDING
    flags = int(wanted)  # an enum is slow at this
    keys, values, headers = (
        flags & flag != 0 for flag in (gather.KEYS, gather.VALUES, gather.HEADERS)
    )
    records = CHUNK_RECORDS
    named = max(CHUNK_HEADERS, needed // 2 + 1) if headers else 0

    def bounds(present: bool, count: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        array = allocate((count + 1) * 4 if present else 4).view(np.int32)
        array[0] = 0
        return array

    def bits(present: bool, count: int) -> Bytes:
        array = allocate(count // 8 + 1 if present else 1)
        array.fill(0xFF)
        return array

    return RecordBuffers(
        offset=allocate(records * 8).view(np.int64),
        timestamp=allocate(records * 8).view(np.int64),
        index=allocate(records * 8 if flags & gather.INDEXES else 8).view(np.int64),
        key_bounds=bounds(keys, records),
        key_bytes=allocate(data if keys else PADDING),
        key_valid=bits(keys, records),
        value_bounds=bounds(values, records),
        value_bytes=allocate(data if values else PADDING),
        value_valid=bits(values, records),
        header_bounds=bounds(headers, records),
        header_key_bounds=bounds(headers, named),
        header_key_bytes=allocate(data if headers else PADDING),
        header_value_bounds=bounds(headers, named),
        header_value_bytes=allocate(data if headers else PADDING),
        header_value_valid=bits(headers, named),
    )


class Decoder:
    """Turns windows into chunks; keeps the arena and the half-filled chunk between windows.

    `payloads` says of each batch of the window decoded last where its records lie.
    """

    def __init__(
        self,
        wanted: Wanted,
        *,
        check_crcs: bool = True,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        allocate: Allocate = allocate_bytes,
    ) -> None:
        self.wanted = wanted | Wanted.INNER_CRCS if check_crcs else wanted
        self.check_crcs = check_crcs
        self.max_batch_bytes = max_batch_bytes
        self.allocate = allocate
        self.arena = Arena()
        self.cursor = np.zeros(gather.CURSOR_SIZE, dtype=np.int64)
        self.saved = self.cursor.copy()
        self.rejected = np.zeros((_REJECTED_ROWS, gather.REJECTED_FIELDS), dtype=np.int64)
        self.buffers: RecordBuffers | None = None
        self.pieces: list[tuple[Batches, Int64s]] = []
        self.payloads = allocate_payloads(0)
        self._left_out = _LeftOut()
        self._spare: RecordBuffers | None = None

    def decode(self, region: Region, batches: Batches) -> Iterator[Piece]:
        """Give the chunks that become full, and all that was left out of the window.

        Records that fill no chunk stay until the next window or `flush`.
        """
        self._left_out = _LeftOut()
        yield from self._decode(region, batches)
        broken = self._left_out.take(batches.position.size)
        if broken:
            yield Piece(None, broken)

    def _decode(self, region: Region, batches: Batches) -> Iterator[Piece]:
        payloads = self.payloads = allocate_payloads(batches.position.size, self.allocate)
        compressed, broken = validate_batches(
            region.data,
            region.position,
            batches,
            payloads,
            self.check_crcs,
            self.max_batch_bytes,
        )
        self.cursor[gather.BROKEN] = broken
        if compressed == 0:
            yield from self._gather(region, batches, payloads, {}, 0)
            return
        self._open_empty(region, batches, payloads)
        first = 0
        while first < batches.position.size:
            last, failures = self._decompress(region, batches, payloads, first)
            rows = slice(first, last)
            opened = take_batches(batches, rows)
            spans = Payloads(*(column[rows] for column in payloads))
            broken = len(failures) + open_wrappers(self.arena.data, opened, spans)
            self.cursor[gather.BROKEN] += broken
            yield from self._gather(region, opened, spans, failures, first)
            first = last

    def _gather(
        self,
        region: Region,
        batches: Batches,
        payloads: Payloads,
        failures: dict[int, CodecError],
        origin: int,
    ) -> Iterator[Piece]:
        """Gather rows that are decompressed; `origin` is the first one's row in the window."""
        cursor = self.cursor
        cursor[gather.ROW] = 0
        cursor[gather.INDEX] = 0
        first = 0
        outcome = status.CHUNK_FULL
        while outcome == status.CHUNK_FULL:
            if self.buffers is None:
                self.buffers = self._allocate()
            outcome = gather.gather(
                region.data,
                self.arena.data,
                batches,
                payloads,
                int(self.wanted),
                self.buffers,
                cursor,
                self.rejected,
                self.saved,
            )
            reached = int(cursor[gather.ROW])
            if cursor[gather.BROKEN] or cursor[gather.REJECTED]:
                self._note_broken(
                    region, batches, payloads, failures, origin, slice(first, reached)
                )
            taken = slice(first, reached + (outcome == status.CHUNK_FULL))
            if payloads.rows[taken].any():
                self.pieces.append((take_batches(batches, taken), payloads.rows[taken].copy()))
            first = reached
            if outcome == status.CHUNK_FULL:
                payloads.rows[taken] = 0
                chunk = self.flush()
                if chunk is not None:
                    yield Piece(chunk, self._left_out.take(origin + reached))

    def _allocate(self) -> RecordBuffers:
        needed, spare = int(self.cursor[gather.NEEDED]), self._spare
        self.cursor[gather.NEEDED], self._spare = 0, None
        if spare is None or needed:
            return allocate_chunk(self.wanted, needed, self.allocate)
        for valid in (spare.key_valid, spare.value_valid, spare.header_value_valid):
            valid.fill(0xFF)
        return spare

    def reuse(self, chunk: Chunk) -> None:
        """Decode into the memory of a chunk again, which nobody has any more."""
        self._spare = chunk.buffers

    def flush(self) -> Chunk | None:
        """What is left, if anything; the next chunk gets buffers of its own.

        Also after nothing: whoever gives out memory again must know that none of it is held.
        """
        cursor = self.cursor
        buffers, pieces = self.buffers, self.pieces
        count, header_count = int(cursor[gather.RECORDS]), int(cursor[gather.HEADER])
        ascii_only = not cursor[gather.NOT_ASCII]
        self.buffers, self.pieces = None, []
        cursor[gather.RECORDS : gather.NOT_ASCII + 1] = 0
        if buffers is None or count == 0:
            return None
        return Chunk(buffers, count, header_count, ascii_only, pieces)

    def _decompress(
        self, region: Region, batches: Batches, payloads: Payloads, first: int
    ) -> tuple[int, dict[int, CodecError]]:
        """Move payloads from row `first` on into the arena, and say where it had enough."""
        rows = slice(first, None)
        self.arena.at = 0
        opened = decompress_window(
            payloads.codec[rows],
            batches.magic[rows],
            payloads.start[rows],
            payloads.stop[rows],
            region.data,
            self.arena,
            self.max_batch_bytes,
        )
        last = first + len(opened.starts)
        moved = first + np.flatnonzero(payloads.codec[first:last])
        payloads.start[moved] = opened.starts[moved - first]
        payloads.stop[moved] = opened.stops[moved - first]
        payloads.in_arena[moved] = 1
        for row, failure in opened.errors.items():
            payloads.in_arena[first + row] = 0
            if payloads.status[first + row] == status.OK:
                too_large = isinstance(failure, OutputTooLarge)
                payloads.status[first + row] = (
                    status.BATCH_TOO_LARGE if too_large else status.CODEC_FAILED
                )
        return last, opened.errors

    def _open_empty(self, region: Region, batches: Batches, payloads: Payloads) -> None:
        """Kafka opens the stream of a compressed batch of no records, and reads nothing of it."""
        unread = (payloads.codec != 0) & (batches.magic == 2) & (batches.count <= 0)
        for row in np.flatnonzero(unread).tolist():
            codec = int(payloads.codec[row])
            payloads.codec[row] = 0
            if batches.count[row] < 0:
                continue
            try:
                open_stream(codec, 2, region.data.data[payloads.start[row] : payloads.stop[row]])
            except CodecError:
                payloads.status[row] = status.CODEC_FAILED
                self.cursor[gather.BROKEN] += 1

    def _note_broken(
        self,
        region: Region,
        batches: Batches,
        payloads: Payloads,
        failures: dict[int, CodecError],
        origin: int,
        rows: slice,
    ) -> None:
        noted = [
            describe(region, batches, payloads, row, failures.get(row))
            for row in (rows.start + np.flatnonzero(payloads.status[rows])).tolist()
        ]
        lines = self.rejected[: self.cursor[gather.REJECTED]].tolist()
        noted += [describe_rejected(region, batches, line) for line in lines]
        self.cursor[gather.REJECTED] = 0
        noted.sort(key=lambda broken: (broken.row, broken.index))
        for broken in noted:
            self._left_out.add(Broken(origin + broken.row, broken.index, broken.violation))


def describe_rejected(region: Region, batches: Batches, line: list[int]) -> Broken:
    """The violation of one v0 or v1 message; the others of its wrapper are given."""
    row, index, offset, code, stored, computed = line
    found = expected = None
    if code == status.CRC_MISMATCH:
        rule, detail = Rule.INNER_CRC_MATCHES, f"message {index} of the wrapper"
        found, expected = f"{computed:#010x}", f"{stored:#010x}"
    else:
        rule, detail = Rule.MESSAGE_FIELDS, f"message {index} is shorter than its fields"
    violation = region.violation(
        rule,
        detail,
        at=int(batches.position[row]) - region.position,
        size=int(batches.size[row]),
        offset=offset,
        last_offset=offset,
        found=found,
        expected=expected,
    )
    return Broken(row, index, violation)


def describe(
    region: Region, batches: Batches, payloads: Payloads, row: int, failure: CodecError | None
) -> Broken:
    """The violation of a batch that was left out whole."""
    code = int(payloads.status[row])
    rule, detail = _RULES[code]
    found = expected = None
    index = int(payloads.failed_index[row])
    if code == status.CRC_MISMATCH:
        found, expected = f"{batches.computed_crc[row]:#010x}", f"{batches.crc[row]:#010x}"
    elif code == status.HEADER_INCOMPLETE:
        found, expected = str(batches.size[row]), f"at least {BATCH_OVERHEAD}"
    elif code in (status.CODEC_UNKNOWN, status.CODEC_NOT_ALLOWED):
        largest = Codec.ZSTD if batches.magic[row] == 2 else Codec.LZ4
        found, expected = str(batches.attributes[row] & 7), f"0 to {largest.value}"
    elif code == status.BATCH_TOO_LARGE and failure is None:
        found = f"{batches.size[row]} bytes"
    elif failure is not None:
        detail = f"{detail}: {failure}"
    elif code == status.COUNT_NEGATIVE:
        found = str(batches.count[row])
    elif code >= status.RECORD_TRUNCATED:
        inside = int(payloads.failed_at[row] - payloads.start[row])
        detail = f"{detail} (record {index}, byte {inside} of the records)"
    known_base = code != status.HEADER_INCOMPLETE and (
        batches.base_offset[row] != -1 or batches.magic[row] == 2
    )
    violation = region.violation(
        rule,
        detail,
        at=int(batches.position[row]) - region.position,
        size=int(batches.size[row]),
        offset=int(batches.base_offset[row]) if known_base else None,
        last_offset=int(batches.last_offset[row]) if code != status.HEADER_INCOMPLETE else None,
        found=found,
        expected=expected,
    )
    return Broken(row, index, violation)
