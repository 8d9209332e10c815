"""What a broker does with an append: check, then store the bytes or encode them anew.

Mirrors LogValidator.validateMessagesAndAssignOffsets and the part of UnifiedLog.append around it.
Producers are judged afterwards, with the offsets given here (`ottla.rules.producer`).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ottla.batch.attributes import is_control, is_transactional
from ottla.batch.encode import encode_batches
from ottla.batch.memory import allocate_from_pool
from ottla.batch.new_batch import NewBatch
from ottla.errors import CorruptLogError, Rule, Violation
from ottla.format.attributes import Codec, TimestampType
from ottla.format.sentinels import (
    NO_OFFSET,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
)
from ottla.kernels import gather
from ottla.kernels.append import assign_offsets, find_newest
from ottla.kernels.stamping import stamp_timestamps
from ottla.kernels.tables import Batches, Int64s, RecordBuffers
from ottla.region import PADDING, Bytes, Region
from ottla.rules.append_checks import (
    ASSIGNS_OFFSETS,
    CURRENT_MAGIC,
    AppendPolicy,
    check_batch_counts,
    check_set,
    check_sizes,
    source_codec_of,
    violation,
)
from ottla.rules.append_records import Decoders, validate
from ottla.rules.producer import Origin

_TIMESTAMP_RULES = (Rule.APPEND_TIMESTAMP, Rule.APPEND_TIMESTAMP_TYPE)
_HEADERS_ONLY = gather.CONTROL
_KEYS = gather.CONTROL | gather.KEYS
_ALL = gather.CONTROL | gather.KEYS | gather.VALUES | gather.HEADERS


class Accepted(NamedTuple):
    """What the log would hold, and what the producer would be told.

    Positions in `batches` are those in `data`. `offset_of_max_timestamp` is a batch's, as the time
    index has it. `log_append_time` is -1 where the topic keeps the producer's time.
    """

    data: Bytes
    batches: Batches
    first_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    log_append_time: int
    was_encoded: bool


class Refused(NamedTuple):
    """Why nothing is stored: one violation of the batch, or all of its records'."""

    violations: tuple[Violation, ...]

    @property
    def rule(self) -> Rule:
        """What the producer is told: one bad timestamp outweighs everything else."""
        rules = [each.rule for each in self.violations]
        timed = [rule for rule in rules if rule in _TIMESTAMP_RULES]
        return (timed or rules)[0]


def append(
    region: Region,
    batches: Batches,
    *,
    next_offset: int,
    now: int,
    origin: Origin,
    policy: AppendPolicy,
    decoders: Decoders | None = None,
) -> Accepted | Refused:
    """Judge the batches of one append; `next_offset` is the end of the log.

    Whoever appends often gives the same `decoders` every time.
    """
    if not batches.position.size:
        nothing = np.zeros(0, dtype=np.uint8)
        return Accepted(nothing, batches, next_offset, next_offset - 1, -1, -1, -1, False)
    for found in check_set(region, batches, origin, next_offset, policy):
        return Refused((found,))
    if origin not in ASSIGNS_OFFSETS:
        stored = _take_as_is(region, batches)
    else:
        decoders = Decoders() if decoders is None else decoders
        outcome = _assign(region, batches, next_offset, now, origin, policy, decoders)
        if isinstance(outcome, Refused):
            return outcome
        stored = outcome
    size = int(stored.batches.size.sum())
    if size > policy.segment_bytes:
        detail = "more bytes than a segment may have"
        limit = f"at most {policy.segment_bytes}"
        rule = Rule.APPEND_SET_SIZE
        return Refused((region.violation(rule, detail, at=0, found=str(size), expected=limit),))
    return stored


def _take_as_is(region: Region, batches: Batches) -> Accepted:
    """A replica stores what it gets."""
    data, moved = _copy(region, batches)
    newest = int(np.argmax(moved.max_timestamp))
    first = int(moved.base_offset[0] if moved.base_offset[0] != NO_OFFSET else moved.last_offset[0])
    return Accepted(
        data[: int(moved.size.sum())],
        moved,
        first,
        int(moved.last_offset[-1]),
        int(moved.max_timestamp[newest]),
        int(moved.last_offset[newest]),
        NO_TIMESTAMP,
        was_encoded=False,
    )


def _copy(region: Region, batches: Batches) -> tuple[Bytes, Batches]:
    """The bytes of the batches one after another, padded, and the table for them."""
    ends = np.cumsum(batches.size)
    moved = Batches(*(column.copy() for column in batches))
    moved.position[:] = ends - batches.size
    data = allocate_from_pool(int(ends[-1]) + PADDING)
    starts = (batches.position - region.position).tolist()
    parts = [
        region.data[start : start + size]
        for start, size in zip(starts, batches.size.tolist(), strict=True)
    ]
    np.concatenate(parts, out=data[: int(ends[-1])])
    return data, moved


def _assign(
    region: Region,
    batches: Batches,
    next_offset: int,
    now: int,
    origin: Origin,
    policy: AppendPolicy,
    decoders: Decoders,
) -> Accepted | Refused:
    """The table of LogValidator: in place where the bytes may stay, else encoded anew."""
    source = source_codec_of(batches)
    target = source if policy.compression_type is None else int(policy.compression_type)
    for found in check_batch_counts(region, batches, source):
        return Refused((found,))
    compressed = source != Codec.NONE or target != Codec.NONE
    in_place = stays_in_place(batches, source, target, policy.magic)
    wanted = _ALL
    if in_place:
        wanted = _KEYS if policy.is_compacted else _HEADERS_ONLY
    records, rows, problems = validate(region, batches, now, origin, policy, decoders[wanted])
    if problems:
        return Refused(problems)
    if in_place and compressed and not _is_sequential(records):
        if batches.magic[0] >= CURRENT_MAGIC:
            # Kafka skipped the keys by then, and fails to build the batch again without them.
            detail = "offset deltas are not 0, 1, 2, ..."
            return Refused((violation(region, batches, 0, Rule.APPEND_RECORD_COUNT, detail),))
        in_place = False
        records, rows, _ = validate(region, batches, now, origin, policy, decoders[_ALL])
    if in_place:
        return _stamp(region, batches, rows, records, next_offset, now, policy, compressed)
    return _encode(region, batches, records, next_offset, now, target, policy)


def stays_in_place(batches: Batches, source: int, target: int, to_magic: int) -> bool:
    """Whether a broker keeps the bytes, as far as headers tell (inPlaceAssignment)."""
    same_magic = bool((batches.magic == to_magic).all())
    if source == Codec.NONE and target == Codec.NONE:
        return same_magic
    if source == Codec.NONE and bool(is_control(batches)[0]):
        return True
    # Inside a compressed message of magic 0 offsets are absolute: they must be written anew.
    return source == target and int(batches.magic[0]) == to_magic != 0


def _is_sequential(records: RecordBuffers) -> bool:
    return bool((records.offset == np.arange(records.offset.size)).all())


def _stamp(
    region: Region,
    batches: Batches,
    rows: Int64s,
    records: RecordBuffers,
    next_offset: int,
    now: int,
    policy: AppendPolicy,
    compressed: bool,
) -> Accepted:
    """Offsets, leader epoch and timestamps into the bytes as they are."""
    data, moved = _copy(region, batches)
    newest = np.empty(rows.size, dtype=np.int64)
    assign_offsets(data, moved, rows, next_offset, policy.leader_epoch)
    find_newest(rows, records.timestamp, newest)
    last, magic = moved.last_offset, int(moved.magic[0])
    append_time = policy.timestamp_type == TimestampType.LOG_APPEND_TIME
    if magic > 0:
        stamps = np.full_like(newest, now) if append_time else newest
        stamp_timestamps(data, 0, moved, int(append_time), stamps)
    best = int(np.argmax(newest))
    max_timestamp, its_offset = int(newest[best]), int(last[best])
    if magic == 0 or (max_timestamp == NO_TIMESTAMP and not append_time):
        max_timestamp, its_offset = NO_TIMESTAMP, int(last[-1]) if compressed else NO_OFFSET
    elif compressed:
        its_offset = int(last[-1])
    if append_time and magic > 0:
        max_timestamp = now
        its_offset = next_offset if magic == 1 and not compressed else int(last[-1])
    return Accepted(
        data[: int(moved.size.sum())],
        moved,
        next_offset,
        int(last[-1]),
        max_timestamp,
        its_offset,
        now if append_time else NO_TIMESTAMP,
        was_encoded=False,
    )


def _encode(
    region: Region,
    batches: Batches,
    records: RecordBuffers,
    next_offset: int,
    now: int,
    target: int,
    policy: AppendPolicy,
) -> Accepted | Refused:
    """All records in one batch of the topic's magic and codec, with the first batch's producer."""
    for found in _check_encodable(region, batches, target, policy):
        return Refused((found,))
    append_time = policy.timestamp_type == TimestampType.LOG_APPEND_TIME
    modern = policy.magic >= CURRENT_MAGIC
    count = records.offset.size
    new = NewBatch(
        magic=policy.magic,
        codec=target,
        level=policy.compression_level,
        timestamp_type=policy.timestamp_type,
        log_append_time=now if append_time else NO_TIMESTAMP,
        base_offset=next_offset if modern else None,
        partition_leader_epoch=policy.leader_epoch if modern else NO_PARTITION_LEADER_EPOCH,
        producer_id=int(batches.producer_id[0]),
        producer_epoch=int(batches.producer_epoch[0]),
        base_sequence=int(batches.base_sequence[0]),
        is_transactional=bool(is_transactional(batches)[0]),
    )
    moved = records._replace(offset=next_offset + np.arange(count))
    try:
        encoded = encode_batches(moved, np.array([0, count], dtype=np.int64), new)
    except CorruptLogError as error:
        given = error.violation
        return Refused((violation(region, batches, 0, given.rule, given.detail, given.found),))
    for found in check_sizes(region, encoded.batches, policy):
        return Refused((found,))
    max_timestamp, its_offset = _encoded_max(moved, next_offset, now, target, policy)
    return Accepted(
        encoded.data,
        encoded.batches,
        next_offset,
        next_offset + count - 1,
        max_timestamp,
        its_offset,
        now if append_time else NO_TIMESTAMP,
        was_encoded=True,
    )


def _check_encodable(
    region: Region, batches: Batches, target: int, policy: AppendPolicy
) -> Iterator[Violation]:
    """What Kafka's own builder throws at (MemoryRecordsBuilder)."""
    if target == Codec.ZSTD and policy.magic < CURRENT_MAGIC:
        yield violation(region, batches, 0, Rule.APPEND_CODEC, "zstd needs magic 2")
    if is_control(batches)[0]:
        # LogValidator does not hand the control flag on.
        detail = "a control batch can not be encoded anew"
        yield violation(region, batches, 0, Rule.APPEND_CONTROL, detail)
    sequence, epoch = int(batches.base_sequence[0]), int(batches.producer_epoch[0])
    if batches.producer_id[0] > NO_PRODUCER_ID and min(sequence, epoch) < 0:
        detail = "a producer id without epoch or sequence can not be encoded anew"
        yield violation(region, batches, 0, Rule.APPEND_SEQUENCE, detail, sequence)


def _encoded_max(
    records: RecordBuffers, next_offset: int, now: int, target: int, policy: AppendPolicy
) -> tuple[int, int]:
    """MemoryRecordsBuilder.info: the largest timestamp and the offset that stands for it."""
    last = next_offset + records.offset.size - 1
    single = policy.magic >= CURRENT_MAGIC or target != Codec.NONE
    if policy.timestamp_type == TimestampType.LOG_APPEND_TIME:
        return now, last if single else next_offset
    newest = int(records.timestamp.max()) if policy.magic > 0 else NO_TIMESTAMP
    if newest == NO_TIMESTAMP:
        return NO_TIMESTAMP, NO_OFFSET
    return newest, last if single else next_offset + int(np.argmax(records.timestamp))
