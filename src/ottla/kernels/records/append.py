"""What a broker looks for in batches and records, and what it writes into those that stay."""

from typing import NamedTuple

import numpy as np

from ottla.format.arrays import Bools, Bytes, Int64s
from ottla.format.attributes import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from ottla.format.layout import (
    LEADER_EPOCH_POSITION,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MESSAGE_MINIMUM,
)
from ottla.format.sentinels import (
    INT64_MAX,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
)
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.ints import read_i32, wrapping_subtract
from ottla.kernels.bytes.writing import write_i32, write_i64
from ottla.kernels.producers.state import CLIENT, RAFT_LEADER, REPLICATION
from ottla.kernels.tables import Batches, Payloads

# What is wrong with a batch, all that applies, in the order in which a broker looks:
# UnifiedLog.analyzeAndValidateRecords,
OTHER_LEADER_EPOCH = 1 << 0
BASE_OFFSET_NOT_ZERO = 1 << 1
OVER_MAX_MESSAGE_BYTES = 1 << 2
CRC_DIFFERS = 1 << 3
SET_FLAWS = OTHER_LEADER_EPOCH | BASE_OFFSET_NOT_ZERO | OVER_MAX_MESSAGE_BYTES | CRC_DIFFERS
# LogValidator.validateBatch,
COUNT_DIFFERS = 1 << 4  # from the offsets
CONTROL_FROM_CLIENT = 1 << 5
PRODUCER_WITHOUT_SEQUENCE = 1 << 6
PRODUCER_IN_OLD_FORMAT = 1 << 7  # which knows none
# and MemoryRecordsBuilder.validateProducerState, if the bytes can not stay.
CONTROL_NOT_ENCODABLE = 1 << 8
TRANSACTION_WITHOUT_PRODUCER = 1 << 9
PRODUCER_WITHOUT_STATE = 1 << 10  # epoch or sequence
# An append that is one batch is too large for a segment; others are measured when they are stored.
OVER_SEGMENT_BYTES = 1 << 11

# What is wrong with a record, the first that applies; 0 is nothing.
OTHER_MAGIC = 1
KEY_MISSING = 2
TIMESTAMP_FAR_FROM_NOW = 3
APPEND_TIME_FROM_CLIENT = 4


class Limits(NamedTuple):
    """The settings of a topic that batches are validated by; a `codec` of -1 is the producer's."""

    magic: int
    codec: int
    leader_epoch: int
    max_message_bytes: int
    segment_bytes: int


class RecordLimits(NamedTuple):
    """What records are validated by: the topic's settings, and how far from `now` they may be.

    `before` and `after` are Java's longs.
    """

    needs_keys: bool
    is_create_topic: bool
    now: int
    before: int
    after: int


class HeaderVerdicts(NamedTuple):
    """What headers say about batches: the bits of what is wrong, and what becomes of the bytes.

    `in_place` is whether they stay, `compressed` whether the batch or the topic has a codec.
    """

    flaws: Int64s
    in_place: Bools
    compressed: Bools


@inlined
def stays_in_place(source: int, target: int, is_control: bool, magic: int, to_magic: int) -> bool:
    """LogValidator's inPlaceAssignment, as far as headers tell."""
    if source == 0 and target == 0:
        return magic == to_magic
    # Inside a compressed message of magic 0 offsets are absolute: they must be written anew.
    return (source == 0 and is_control) or (source == target and magic == to_magic and magic != 0)


@inlined
def find_flaws(batches: Batches, row: int, origin: int, limits: Limits) -> int:
    """What is wrong with a batch as it came."""
    modern = batches.magic[row] >= 2
    attributes = batches.attributes[row] if modern else i64(0)
    has_producer = batches.producer_id[row] > NO_PRODUCER_ID
    found = 0
    if origin == RAFT_LEADER and batches.partition_leader_epoch[row] != limits.leader_epoch:
        found |= OTHER_LEADER_EPOCH
    # Replicas must be able to take whatever the leader has.
    if origin != REPLICATION and batches.size[row] > limits.max_message_bytes:
        found |= OVER_MAX_MESSAGE_BYTES
    if batches.crc[row] != batches.computed_crc[row]:
        found |= CRC_DIFFERS
    if origin == CLIENT:
        delta = wrapping_subtract(batches.last_offset[row], batches.base_offset[row])
        if modern and batches.base_offset[row] != 0:
            found |= BASE_OFFSET_NOT_ZERO
        if modern and (delta < 0 or delta != batches.count[row] - 1):
            found |= COUNT_DIFFERS
        if attributes & CONTROL:
            found |= CONTROL_FROM_CLIENT
        if has_producer and batches.base_sequence[row] < 0:
            found |= PRODUCER_WITHOUT_SEQUENCE
    if limits.magic < 2 and (attributes & TRANSACTIONAL or has_producer):
        found |= PRODUCER_IN_OLD_FORMAT
    return found


@inlined
def find_encoding_flaws(batches: Batches, row: int) -> int:
    """What hinders new bytes."""
    attributes = batches.attributes[row] if batches.magic[row] >= 2 else i64(0)
    has_state = batches.producer_epoch[row] != NO_PRODUCER_EPOCH and batches.base_sequence[row] >= 0
    found = 0
    if attributes & CONTROL:
        found |= CONTROL_NOT_ENCODABLE
    if attributes & TRANSACTIONAL and batches.producer_id[row] == NO_PRODUCER_ID:
        found |= TRANSACTION_WITHOUT_PRODUCER
    if batches.producer_id[row] != NO_PRODUCER_ID and not has_state:
        found |= PRODUCER_WITHOUT_STATE
    return found


@kernel
def validate_headers(
    batches: Batches, origin: int, limits: Limits, headers: HeaderVerdicts
) -> None:
    """Fill `headers`."""
    for row in range(batches.position.size):
        magic = batches.magic[row]
        source = batches.attributes[row] & CODEC_MASK
        target = source if limits.codec < 0 else limits.codec
        is_control = magic >= 2 and batches.attributes[row] & CONTROL != 0
        in_place = stays_in_place(source, target, is_control, magic, limits.magic)
        flaws = find_flaws(batches, row, origin, limits)
        if not in_place:
            flaws |= find_encoding_flaws(batches, row)
        elif batches.size[row] > limits.segment_bytes:
            flaws |= OVER_SEGMENT_BYTES
        headers.flaws[row] = flaws
        headers.in_place[row] = in_place
        headers.compressed[row] = source != 0 or target != 0


@kernel
def mark_other_magic(arena: Bytes, batches: Batches, payloads: Payloads, verdicts: Bytes) -> None:
    """Mark messages of the first wrapper whose magic is not its own."""
    if batches.position.size == 0 or batches.magic[0] > 1 or payloads.in_arena[0] == 0:
        return
    at = payloads.start[0]
    for index in range(verdicts.size):
        if at + LOG_OVERHEAD + MESSAGE_MINIMUM > payloads.stop[0]:
            return
        if arena[at + MAGIC_POSITION] != batches.magic[0]:
            verdicts[index] = OTHER_MAGIC
        at += LOG_OVERHEAD + max(read_i32(arena, at + LENGTH_POSITION), MESSAGE_MINIMUM)


# What becomes of a batch of magic 2 that is an append of its own.
SUSPECT = 0  # something is wrong with it, or special
KEPT = 1  # its bytes stay
REENCODED = 2  # it is encoded anew


class RecordVerdicts(NamedTuple):
    """What was seen of the records of each batch.

    `newest` is the largest timestamp, at least -1; `refused` how many records have a verdict.
    `sequential` is false for compressed bytes that would stay, if the offsets are not 0, 1, 2, ...
    """

    newest: Int64s
    sequential: Bools
    refused: Int64s
    fate: Bytes


@inlined
def are_sequential(offsets: Int64s, first: int, stop: int) -> bool:
    """Whether records have the offsets 0, 1, 2, ..."""
    strays = 0
    for at in range(first, stop):
        strays += offsets[np.uint64(at)] != at - first
    return strays == 0


@inlined
def validate_record(
    at: int,
    timestamp: int,
    key_valid: Bytes,
    claims_time: bool,
    limits: RecordLimits,
) -> int:
    """LogValidator.validateRecord, but for messages of another magic."""
    needs_keys, is_create_topic, now, before, after = limits
    if needs_keys and not key_valid[at >> 3] >> (at & 7) & 1:
        return KEY_MISSING
    if is_create_topic and timestamp != NO_TIMESTAMP:
        if wrapping_subtract(now, timestamp) > before or wrapping_subtract(timestamp, now) > after:
            return TIMESTAMP_FAR_FROM_NOW
    elif claims_time:
        return APPEND_TIME_FROM_CLIENT
    return 0


@kernel
def validate_records(
    batches: Batches,
    headers: HeaderVerdicts,
    rows: Int64s,
    offsets: Int64s,
    timestamps: Int64s,
    key_valid: Bytes,
    limits: RecordLimits,
    verdicts: Bytes,
    seen: RecordVerdicts,
) -> None:
    """Fill `verdicts`, where another magic may be noted already, and `seen`.

    rows[b] records are of batch b.
    """
    needs_keys, is_create_topic, now, before, after = limits
    first = 0
    for row in range(rows.size):
        stop = first + rows[row]
        oldest, newest = i64(INT64_MAX), i64(NO_TIMESTAMP)
        for at in range(first, stop):
            # Nobody asks whether an unsigned index is negative, so that this takes four at a time.
            timestamp = timestamps[np.uint64(at)]
            oldest = min(oldest, timestamp)
            newest = max(newest, timestamp)
        magic = batches.magic[row]
        claims_time = magic > 0 and batches.attributes[row] & LOG_APPEND_TIME != 0
        # Nearly always the oldest and the newest record speak for all of them.
        near = min(now, oldest) >= 0 and now - oldest <= before and newest - now <= after
        timely = near if is_create_topic else not claims_time
        seen.refused[row] = 0
        if needs_keys or not timely or magic < 2:
            for at in range(first, stop):
                if verdicts[at] == 0:
                    verdicts[at] = validate_record(
                        at, timestamps[at], key_valid, claims_time, limits
                    )
                seen.refused[row] += verdicts[at] != 0
        seen.newest[row] = newest
        stays_compressed = headers.in_place[row] and headers.compressed[row]
        seen.sequential[row] = not stays_compressed or are_sequential(offsets, first, stop)
        # What is broken has no records.
        sound = headers.flaws[row] == 0 and seen.refused[row] == 0 and stop > first
        if not sound or not seen.sequential[row]:
            seen.fate[row] = SUSPECT
        else:
            seen.fate[row] = KEPT if headers.in_place[row] else REENCODED
        first = stop


@kernel
def validate_appends(
    batches: Batches,
    origin: int,
    limits: Limits,
    rows: Int64s,
    offsets: Int64s,
    timestamps: Int64s,
    key_valid: Bytes,
    record_limits: RecordLimits,
    verdicts: Bytes,
    headers: HeaderVerdicts,
    seen: RecordVerdicts,
) -> None:
    """Headers and records in one call: each costs as much as the work for a window."""
    validate_headers(batches, origin, limits, headers)
    validate_records(
        batches, headers, rows, offsets, timestamps, key_valid, record_limits, verdicts, seen
    )


@kernel
def assign_offsets(
    data: Bytes, batches: Batches, rows: Int64s, next_offset: int, leader_epoch: int
) -> None:
    """Offsets and leader epoch into batches that stay as they are; the table is kept true.

    RecordBatch.setLastOffset: magic 2 stores its first offset. Old formats have no leader epoch.
    """
    last = next_offset - 1
    for row in range(rows.size):
        at = batches.position[row]
        last += rows[row]
        stored = last - batches.last_offset_delta[row]
        write_i64(data, at, stored)
        if batches.magic[row] == 2 or batches.base_offset[row] != NO_OFFSET:
            batches.base_offset[row] = stored
        batches.last_offset[row] = last
        if batches.magic[row] == 2:
            write_i32(data, at + LEADER_EPOCH_POSITION, leader_epoch)
            batches.partition_leader_epoch[row] = leader_epoch
