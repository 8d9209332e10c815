"""What a broker does with an append: check, then store the bytes or encode them anew.

Mirrors LogValidator.validateMessagesAndAssignOffsets and the part of UnifiedLog.append around it.
Producers are checked afterwards, with the offsets given here (`ottla.rules.producers.producer`).
"""

from typing import NamedTuple

import numpy as np

from ottla.batch.encode import Encoded, encode_batches
from ottla.batch.new_batch import CURRENT_MAGIC, NewBatch
from ottla.errors import CorruptLogError, Rule, Violation
from ottla.format.attributes import Codec
from ottla.format.sentinels import NO_OFFSET, NO_TIMESTAMP
from ottla.kernels.records.append import HeaderVerdicts, assign_offsets
from ottla.kernels.tables import Batches, Int64s, RecordBuffers, take_batches
from ottla.region import Bytes, Region
from ottla.rules.append.checks import (
    ASSIGNS_OFFSETS,
    AppendPolicy,
    check_batch_counts,
    check_encodable,
    check_set,
    check_sizes,
    source_codec_of,
    validate_headers,
    violation,
)
from ottla.rules.append.records import (
    EVERYTHING,
    AppendDecoders,
    validate,
    wanted_in_place,
)
from ottla.rules.append.stored import (
    copy,
    encode_anew,
    is_append_time,
    stamp_times,
    time_index_entries,
)
from ottla.rules.producers.producer import Origin

_TIMESTAMP_RULES = (Rule.APPEND_TIMESTAMP, Rule.APPEND_TIMESTAMP_TYPE)


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
        rules = [violation.rule for violation in self.violations]
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
    decoders: AppendDecoders | None = None,
) -> Accepted | Refused:
    """Validate the batches of one append; `next_offset` is the end of the log.

    Whoever appends often gives the same `decoders` every time.
    """
    if not batches.position.size:
        nothing = np.zeros(0, dtype=np.uint8)
        return Accepted(nothing, batches, next_offset, next_offset - 1, -1, -1, -1, False)
    headers = validate_headers(batches, origin, policy)
    for found in check_set(region, batches, headers.flaws, origin, next_offset, policy):
        return Refused((found,))
    if origin not in ASSIGNS_OFFSETS:
        stored = _take_as_is(region, batches)
    else:
        decoders = AppendDecoders() if decoders is None else decoders
        outcome = _assign(region, batches, headers, next_offset, now, policy, decoders)
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
    data, moved = copy(region, batches)
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


def _assign(
    region: Region,
    batches: Batches,
    headers: HeaderVerdicts,
    next_offset: int,
    now: int,
    policy: AppendPolicy,
    decoders: AppendDecoders,
) -> Accepted | Refused:
    """The table of LogValidator: in place where the bytes may stay, else encoded anew."""
    source = source_codec_of(batches)
    target = source if policy.compression_type is None else int(policy.compression_type)
    for found in check_batch_counts(region, batches, source):
        return Refused((found,))
    in_place = bool(headers.in_place.all())
    wanted = wanted_in_place(policy) if in_place else EVERYTHING
    decoded, seen, problems = validate(region, batches, headers, now, policy, decoders[wanted])
    if problems:
        return Refused(problems)
    if in_place and not seen.sequential.all():
        if batches.magic[0] >= CURRENT_MAGIC:
            # Kafka skipped the keys by then, and fails to build the batch again without them.
            detail = "offset deltas are not 0, 1, 2, ..."
            return Refused((violation(region, batches, 0, Rule.APPEND_RECORD_COUNT, detail),))
        in_place = False
        decoded, _, _ = validate(region, batches, headers, now, policy, decoders[EVERYTHING])
    if in_place:
        rows, newest, compressed = decoded.rows, seen.newest, bool(headers.compressed[0])
        return _stamp(region, batches, rows, newest, next_offset, now, policy, compressed)
    return _encode(
        region, batches, headers.flaws, decoded.records, next_offset, now, target, policy
    )


def _stamp(
    region: Region,
    batches: Batches,
    rows: Int64s,
    newest: Int64s,
    next_offset: int,
    now: int,
    policy: AppendPolicy,
    compressed: bool,
) -> Accepted:
    """Offsets, leader epoch and timestamps into the bytes as they are."""
    data, moved = copy(region, batches)
    stamp_times(data, moved, newest, now, policy)
    assign_offsets(data, moved, rows, next_offset, policy.leader_epoch)
    largest, offset_of_largest = time_index_entries(moved, newest, compressed, now, policy)
    best = int(np.argmax(largest))
    return Accepted(
        data[: int(moved.size.sum())],
        moved,
        next_offset,
        int(moved.last_offset[-1]),
        int(largest[best]),
        int(offset_of_largest[best]),
        now if is_append_time(policy) else NO_TIMESTAMP,
        was_encoded=False,
    )


def _encode(
    region: Region,
    batches: Batches,
    flaws: Int64s,
    records: RecordBuffers,
    next_offset: int,
    now: int,
    target: int,
    policy: AppendPolicy,
) -> Accepted | Refused:
    """All records in one batch of the topic's magic and codec, with the first batch's producer."""
    for found in check_encodable(region, batches, flaws, target, policy):
        return Refused((found,))
    count = records.offset.size
    moved = records._replace(offset=next_offset + np.arange(count))
    try:
        encoded = _encode_set(batches, moved, next_offset, now, target, policy)
    except CorruptLogError as error:
        given = error.violation
        return Refused((violation(region, batches, 0, given.rule, given.detail, given.found),))
    for found in check_sizes(region, encoded.batches, policy):
        return Refused((found,))
    max_timestamp, offset_of_largest = _encoded_max(moved, next_offset, now, target, policy)
    return Accepted(
        encoded.data,
        encoded.batches,
        next_offset,
        next_offset + count - 1,
        max_timestamp,
        offset_of_largest,
        now if is_append_time(policy) else NO_TIMESTAMP,
        was_encoded=True,
    )


def _encode_set(
    batches: Batches,
    records: RecordBuffers,
    next_offset: int,
    now: int,
    target: int,
    policy: AppendPolicy,
) -> Encoded:
    """The records, which have their offsets; none give no bytes (MemoryRecordsBuilder.close)."""
    rows = np.array([records.offset.size])
    if policy.magic >= CURRENT_MAGIC and rows[0]:
        first = take_batches(batches, slice(0, 1))
        encoded = encode_anew(first, rows, records, target, now, policy)
        assign_offsets(encoded.data, encoded.batches, rows, next_offset, policy.leader_epoch)
        return encoded
    new = NewBatch(
        magic=policy.magic,
        codec=target,
        level=policy.compression_level,
        timestamp_type=policy.timestamp_type,
        log_append_time=now if is_append_time(policy) else NO_TIMESTAMP,
    )
    return encode_batches(records, np.append(0, rows), new)


def _encoded_max(
    records: RecordBuffers, next_offset: int, now: int, target: int, policy: AppendPolicy
) -> tuple[int, int]:
    """MemoryRecordsBuilder.info: the largest timestamp and the offset that stands for it."""
    last = next_offset + records.offset.size - 1
    single = policy.magic >= CURRENT_MAGIC or target != Codec.NONE
    if is_append_time(policy):
        return now, last if single else next_offset
    newest = int(records.timestamp.max(initial=NO_TIMESTAMP)) if policy.magic > 0 else NO_TIMESTAMP
    if newest == NO_TIMESTAMP:
        return NO_TIMESTAMP, NO_OFFSET
    return newest, last if single else next_offset + int(np.argmax(records.timestamp))
