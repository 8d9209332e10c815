"""Encode records into batches: measure, write, compress, seal.

There is one allocation: sizes are exact before anything is written, or, without compression, known
not to be exceeded, because to measure records costs half of writing them. What Kafka's
MemoryRecordsBuilder refuses is refused here, and the error says which rule it was.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.attributes import add_sequence
from ottla.batch.control import Fields, write_control
from ottla.batch.memory import allocate_from_pool
from ottla.batch.new_batch import CURRENT_MAGIC, NewBatch
from ottla.batch.rows import NewRecord, frozen, pack_rows
from ottla.codec import compress_into, resolve_level, room_to_compress
from ottla.errors import CorruptLogError, OptionError, Rule, Violation
from ottla.format.attributes import Codec, ControlType, TimestampType
from ottla.format.layout import BATCH_OVERHEAD
from ottla.format.sentinels import (
    INT32_MAX,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from ottla.kernels import status
from ottla.kernels.records.legacy_write import (
    OVERHEADS,
    measure_legacy,
    seal_wrapper,
    write_legacy,
)
from ottla.kernels.records.scan import scan
from ottla.kernels.records.splitting import split_legacy, split_v2
from ottla.kernels.records.v2_write import (
    EVERY_ROW,
    MOST_FIELDS,
    MOST_OF_HEADER,
    encode_v2,
    measure_v2,
    seal_v2,
    write_payloads_v2,
    write_v2,
)
from ottla.kernels.tables import Batches, Int64s, RecordBuffers, allocate_batches
from ottla.region import PADDING, Bytes

UNPLACED: Final = "records to write"  # they come from no file, as far as an encoder knows
_RULES: Final = {
    status.OFFSET_NOT_RISING: (
        Rule.RECORD_OFFSETS_RISE,
        "an offset is not above the one before it",
    ),
    status.TIMESTAMP_NEGATIVE: (Rule.RECORD_TIMESTAMP, "a timestamp is negative, and not -1"),
    status.HEADERS_NOT_ALLOWED: (Rule.RECORD_HEADERS, "magic 0 and 1 have no record headers"),
    status.OFFSET_DELTA_RANGE: (
        Rule.OFFSET_DELTA_RANGE,
        "an offset is too far from the base offset",
    ),
    status.NEW_BATCH_TOO_LARGE: (Rule.NEW_BATCH_SIZE, "a batch would have 2 GiB or more"),
}


class Encoded(NamedTuple):
    """Batches one after another, and the table that a scan of them gives; positions begin at 0."""

    data: Bytes
    batches: Batches


def encode(records: RecordBuffers, new: NewBatch) -> bytes:
    """Encode all records as one batch; no records give no bytes, as in Kafka."""
    bounds = np.array([0, records.offset.size], dtype=np.int64)
    return encode_batches(records, bounds, new).data.tobytes()


def encode_batches(records: RecordBuffers, bounds: Int64s, new: NewBatch) -> Encoded:
    """Encode rows bounds[b] to bounds[b + 1] as batch b.

    The first batch gets the base offset and sequence of `new`; the others go on from there.
    """
    records = frozen(records)
    if bounds[0] == bounds[-1]:
        return Encoded(np.empty(0, dtype=np.uint8), allocate_batches(0))
    if bounds[0] < 0 or bounds[-1] > records.offset.size:
        raise OptionError(f"bounds reach beyond the {records.offset.size} records")
    if (np.diff(bounds) <= 0).any():
        raise OptionError("every batch needs a record: what compaction emptied is `encode_empty`'s")
    if bounds.size > 2 and new.last_offset_delta is not None:
        raise OptionError("last_offset_delta is for a single batch")
    if new.max_timestamp is not None:
        raise OptionError("max_timestamp is for a batch without records: others know theirs")
    if new.magic == CURRENT_MAGIC:
        return _encode_v2(records, bounds, new)
    if new.codec == Codec.NONE:
        return _encode_messages(records, bounds, new)
    return _encode_wrappers(records, bounds, new)


def split(records: RecordBuffers, new: NewBatch, batch_bytes: int) -> Int64s:
    """Cut records into batches as a producer does with a `batch.size`; return their bounds."""
    records = frozen(records)
    bounds = np.empty(records.offset.size + 1, dtype=np.int64)
    ratio = np.float32(
        0 if new.codec == Codec.NONE else 1
    )  # a producer that has compressed nothing yet
    if new.magic == CURRENT_MAGIC:
        count = split_v2(records, batch_bytes, ratio, new.delete_horizon, bounds)
    else:
        count = split_legacy(records, batch_bytes, ratio, new.magic, bounds)
    return bounds[: count + 1]


def encode_empty(new: NewBatch) -> bytes:
    """Encode what compaction leaves of a batch without records (writeEmptyHeader)."""
    if new.magic < CURRENT_MAGIC:
        raise OptionError(f"magic {new.magic} has no batches without records")
    if new.codec != Codec.NONE:
        raise OptionError("a batch without records is written with codec none")
    if new.delete_horizon != NO_TIMESTAMP:
        raise OptionError("a batch without records has no delete horizon")
    if new.base_offset is None or new.last_offset_delta is None:
        raise OptionError("a batch without records needs base_offset and last_offset_delta")
    batches = _chosen(1, new)
    batches.base_offset[0] = new.base_offset
    batches.base_timestamp[0] = NO_TIMESTAMP
    batches.last_offset_delta[0] = new.last_offset_delta
    batches.max_timestamp[0] = NO_TIMESTAMP if new.max_timestamp is None else new.max_timestamp
    batches.count[0] = 0
    batches.position[0] = 0
    batches.size[0] = BATCH_OVERHEAD
    out = np.zeros(BATCH_OVERHEAD + PADDING, dtype=np.uint8)
    seal_v2(out, batches)
    return out[:BATCH_OVERHEAD].tobytes()


def encode_control(
    new: NewBatch, timestamp: int, controls: Iterable[tuple[ControlType, Fields]]
) -> bytes:
    """Encode control records as one batch, their offsets from `base_offset` on."""
    if not new.is_control:
        raise OptionError("control records can only be in a control batch: set is_control")
    base = new.base_offset or 0
    rows: list[NewRecord] = []
    for control_type, fields in controls:
        _check_control(new, control_type)
        key, value = write_control(control_type, fields)
        rows.append(NewRecord(base + len(rows), timestamp, key, value))
    return encode(pack_rows(rows), new)


def _check_control(new: NewBatch, control_type: ControlType) -> None:
    """MemoryRecordsBuilder.appendEndTxnMarker and appendLeaderChangeMessage."""
    is_marker = control_type in (ControlType.ABORT, ControlType.COMMIT)
    if is_marker and new.producer_id == NO_PRODUCER_ID:
        raise OptionError("an end-transaction marker needs a producer id")
    if is_marker and not new.is_transactional:
        raise OptionError("an end-transaction marker needs a transactional batch")
    without_epoch = new.partition_leader_epoch == NO_PARTITION_LEADER_EPOCH
    if control_type is ControlType.LEADER_CHANGE and without_epoch:
        raise OptionError("a leader change needs a partition leader epoch")


def _encode_v2(records: RecordBuffers, bounds: Int64s, new: NewBatch) -> Encoded:
    batches = _chosen(bounds.size - 1, new)
    _base_on_first(batches, records, bounds, new)
    room = _most_bytes(records, bounds)
    batches.last_offset[:] = records.offset[bounds[1:] - 1]
    # What is wrong with the records is said before that the end is too low: they are measured then.
    if new.codec == Codec.NONE and room <= INT32_MAX and not _ends_too_low(batches, new):
        _finish(batches, new)
        out = _allocate(room)
        *outcome, end = encode_v2(records, bounds, batches, out)
        refuse((outcome[0], outcome[1]), records)
        return Encoded(out[:end], batches)
    sizes = np.empty(records.offset.size, dtype=np.int64)
    refuse(measure_v2(records, EVERY_ROW, bounds, batches, sizes), records)
    _finish(batches, new)
    if new.codec == Codec.NONE:
        batches.position[:] = _starts(batches.size)
        out = _allocate(int(batches.size.sum()))
        write_v2(records, EVERY_ROW, bounds, batches, sizes, out)
    else:
        raw_sizes = batches.size - BATCH_OVERHEAD
        starts = _starts(raw_sizes)
        raw = _allocate(int(raw_sizes.sum()))
        write_payloads_v2(records, EVERY_ROW, bounds, batches, sizes, starts, raw)
        pieces = zip(starts.tolist(), raw_sizes.tolist(), strict=True)
        out = _compress_each(raw, pieces, new, BATCH_OVERHEAD, batches.position, batches.size)
        seal_v2(out, batches)
    return Encoded(out[: out.size - PADDING], batches)


def _most_bytes(records: RecordBuffers, bounds: Int64s) -> int:
    """No batches of these records are larger: what is not used of it is never touched."""
    first, last = int(bounds[0]), int(bounds[-1])
    first_header, last_header = int(records.header_bounds[first]), int(records.header_bounds[last])
    spans = (
        (records.key_bounds, first, last),
        (records.value_bounds, first, last),
        (records.header_key_bounds, first_header, last_header),
        (records.header_value_bounds, first_header, last_header),
    )
    held = sum(int(column[stop]) - int(column[start]) for column, start, stop in spans)
    others = MOST_OF_HEADER * (last_header - first_header) + MOST_FIELDS * (last - first)
    return held + others + BATCH_OVERHEAD * (bounds.size - 1)


def _encode_messages(records: RecordBuffers, bounds: Int64s, new: NewBatch) -> Encoded:
    """Messages without a wrapper: each is a batch, wherever the bounds are."""
    starts, sizes = _measure_messages(records, bounds, new)
    out = _allocate(int(sizes.sum()))
    write_legacy(records, bounds, np.zeros_like(starts), starts, _kind(new), out)
    return _scanned(out, records.offset.size)


def _encode_wrappers(records: RecordBuffers, bounds: Int64s, new: NewBatch) -> Encoded:
    """Compressed messages; inside a wrapper of magic 1 offsets are relative to its base."""
    first = bounds[:-1]
    starts, sizes = _measure_messages(records, bounds, new)
    bases = records.offset[first].copy() if new.magic == 1 else np.zeros_like(starts)
    if new.magic == 1 and new.base_offset is not None:
        bases[0] = new.base_offset
    raw = _allocate(int(sizes.sum()))
    write_legacy(
        records, bounds, bases, starts, _kind(replace(new, codec=Codec.NONE, level=None)), raw
    )
    pieces = zip(starts.tolist(), sizes.tolist(), strict=True)
    out = _compress_each(raw, pieces, new, OVERHEADS[new.magic], starts, sizes)
    newest = np.maximum.reduceat(records.timestamp, first)
    if new.timestamp_type == TimestampType.LOG_APPEND_TIME:
        newest[:] = new.log_append_time
    last = records.offset[bounds[1:] - 1]
    columns = (starts, starts + sizes, last, newest)
    for start, stop, offset, timestamp in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        seal_wrapper(out, start, stop, offset, timestamp, new.magic, new.attributes)
    return _scanned(out, bounds.size - 1)


def _measure_messages(
    records: RecordBuffers, bounds: Int64s, new: NewBatch
) -> tuple[Int64s, Int64s]:
    """Where the messages of each batch begin, and how many bytes they have."""
    sizes = np.empty(bounds.size - 1, dtype=np.int64)
    refuse(measure_legacy(records, bounds, new.magic, sizes), records)
    return _starts(sizes), sizes


def _kind(new: NewBatch) -> tuple[int, int, int]:
    return new.magic, new.attributes, new.log_append_time


def _chosen(count: int, new: NewBatch) -> Batches:
    """Rows with what the writer chose."""
    batches = allocate_batches(count)
    batches.magic[:] = new.magic
    batches.partition_leader_epoch[:] = new.partition_leader_epoch
    batches.attributes[:] = new.attributes
    batches.producer_id[:] = new.producer_id
    batches.producer_epoch[:] = new.producer_epoch
    batches.base_sequence[:] = new.base_sequence
    return batches


def _base_on_first(batches: Batches, records: RecordBuffers, bounds: Int64s, new: NewBatch) -> None:
    """Offsets, timestamps and sequences count from each batch's first record."""
    first = bounds[:-1]
    batches.base_offset[:] = records.offset[first]
    if new.base_offset is not None:
        batches.base_offset[0] = new.base_offset
    batches.base_timestamp[:] = records.timestamp[first]
    if new.delete_horizon != NO_TIMESTAMP:
        batches.base_timestamp[:] = new.delete_horizon
    if new.base_sequence != NO_SEQUENCE:
        batches.base_sequence[:] = add_sequence(batches.base_sequence, first - first[0])


def _ends_too_low(batches: Batches, new: NewBatch) -> bool:
    """Whether the last record is behind the end that the writer chose."""
    if new.last_offset_delta is None:
        return False
    return bool((batches.last_offset - batches.base_offset > new.last_offset_delta).any())


def _finish(batches: Batches, new: NewBatch) -> None:
    """What the records say, and what overrides it."""
    if _ends_too_low(batches, new):
        raise OptionError("last_offset_delta is below that of the last record")
    batches.last_offset_delta[:] = batches.last_offset - batches.base_offset
    if new.last_offset_delta is not None:
        batches.last_offset_delta[:] = new.last_offset_delta
        batches.last_offset[:] = batches.base_offset + new.last_offset_delta
    if new.timestamp_type == TimestampType.LOG_APPEND_TIME:
        batches.max_timestamp[:] = new.log_append_time


def _compress_each(
    raw: Bytes,
    pieces: Iterator[tuple[int, int]],
    new: NewBatch,
    overhead: int,
    starts: Int64s,
    sizes: Int64s,
) -> Bytes:
    """Compress pieces, each a start and a size, into batches one after another.

    There is room for what goes before each payload. Fills starts and sizes of the batches.
    """
    level = resolve_level(new.codec, new.level)
    out = _allocate(room_to_compress(raw.size, starts.size) + overhead * starts.size)
    view, room = raw.data, out.data
    at, ends = 0, []
    for start, size in pieces:
        payload = view[start : start + size]
        at += overhead
        at += compress_into(new.codec, new.magic, payload, room[at:], level=level)
        ends.append(at)
    sizes[:] = np.diff(ends, prepend=0)
    starts[:] = _starts(sizes)
    return out[: at + PADDING]


def _scanned(out: Bytes, count: int) -> Encoded:
    batches = allocate_batches(count)
    size = out.size - PADDING
    scan(out, 0, size, 0, batches)
    batches.computed_crc[:] = batches.crc
    return Encoded(out[:size], batches)


def _starts(sizes: Int64s) -> Int64s:
    """Where things of these sizes begin when they follow each other."""
    return np.cumsum(sizes) - sizes


def _allocate(size: int) -> Bytes:
    return allocate_from_pool(size + PADDING)


def refuse(outcome: tuple[int, int], records: RecordBuffers) -> None:
    """Turn a status of measuring into the error that names the rule."""
    code, row = outcome
    if code == status.OK:
        return
    rule, detail = _RULES[code]
    offset = int(records.offset[row])
    raise CorruptLogError(Violation(rule, f"row {row}: {detail}", UNPLACED, row, offset=offset))
