"""Locate the fields of v0 and v1 messages (LegacyRecord), alone or inside a wrapper."""

from ottla.format.arrays import Bytes
from ottla.format.attributes import CODEC_MASK, LOG_APPEND_TIME
from ottla.format.layout import (
    KEY_LENGTH_SIZE,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MESSAGE_ATTRIBUTES_POSITION,
    MESSAGE_CRC_COVERS,
    MESSAGE_CRC_POSITION,
    MESSAGE_MINIMUM,
    MESSAGE_TIMESTAMP_POSITION,
    MESSAGE_V0,
    MESSAGE_V1,
    VALUE_LENGTH_SIZE,
)
from ottla.format.sentinels import NO_TIMESTAMP
from ottla.kernels._jit import called, i64, inlined, kernel
from ottla.kernels.bytes.crc import crc32
from ottla.kernels.bytes.ints import read_i32, read_i64, read_u32, wrapping_add
from ottla.kernels.status import (
    FIELD_TOO_LONG,
    INNER_COMPRESSED,
    INNER_SIZE,
    MESSAGE_TRUNCATED,
    OK,
    WRAPPER_EMPTY,
    WRAPPER_OFFSET,
)
from ottla.kernels.tables import Batches, Payloads

_KEY_AT_V0 = MESSAGE_V0.itemsize
_KEY_AT_V1 = MESSAGE_V1.itemsize


@inlined
def locate_fields(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Status, key at, key size, value at, value size of the message at `at`; below 0 is null.

    Kafka reads the layout of v1 for every magic but 0, and ignores bytes after the value.
    """
    zero = i64(0)
    key_at = at + (_KEY_AT_V0 if data[at + MAGIC_POSITION] == 0 else _KEY_AT_V1)
    if key_at > end:
        return MESSAGE_TRUNCATED, 0, zero, 0, zero
    key_size = read_i32(data, key_at - KEY_LENGTH_SIZE)
    value_at = key_at + max(key_size, zero) + VALUE_LENGTH_SIZE
    if value_at > end:
        return FIELD_TOO_LONG, 0, zero, 0, zero
    value_size = read_i32(data, value_at - VALUE_LENGTH_SIZE)
    if value_at + value_size > end:
        return FIELD_TOO_LONG, 0, zero, 0, zero
    return OK, key_at, key_size, value_at, value_size


@inlined
def message_timestamp(data: Bytes, at: int, batches: Batches, row: int, wrapped: bool) -> int:
    """The message's own time; in a v1 wrapper with append time, the wrapper's."""
    magic = data[at + MAGIC_POSITION]
    if magic == 0:
        return i64(NO_TIMESTAMP)
    append_time = batches.attributes[row] & LOG_APPEND_TIME
    if wrapped and magic == 1 and batches.magic[row] == 1 and append_time:
        return i64(batches.max_timestamp[row])
    return read_i64(data, at + MESSAGE_TIMESTAMP_POSITION)


@inlined
def inner_crc(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """The stored and the computed CRC of the message at `at`."""
    stored = read_u32(data, at + MESSAGE_CRC_POSITION)
    return stored, crc32(data, at + MESSAGE_CRC_COVERS, end)


@called
def check_messages(
    data: Bytes, row: int, batches: Batches, payloads: Payloads
) -> tuple[int, int, int]:
    """Check a wrapper's messages and settle their offsets; return (status, index, at).

    As RecordsIterator.DeepRecordsIterator: first all are cut, then the offsets are settled, then
    each is looked at; a cut-off last entry is silently left out. Fills the wrapper's base offset
    where Kafka could tell it.
    """
    start = payloads.start[row]
    stop = payloads.stop[row]
    at = start
    last = at
    count = 0
    while at + LOG_OVERHEAD <= stop:
        size = read_i32(data, at + LENGTH_POSITION)
        if size < MESSAGE_MINIMUM:
            return INNER_SIZE, count, at
        if at + LOG_OVERHEAD + size > stop:
            break
        last = at
        count += 1
        at += LOG_OVERHEAD + size
    if count == 0:
        return WRAPPER_EMPTY, 0, start
    shift = i64(0)
    if batches.magic[row] == 1:
        wrapper = batches.last_offset[row]
        # Old librdkafka produced wrappers with offset 0.
        if wrapper != 0:
            if read_i64(data, last) > wrapper:
                return WRAPPER_OFFSET, count - 1, last
            shift = wrapper - read_i64(data, last)
    payloads.shift[row] = shift
    if data[start + MESSAGE_ATTRIBUTES_POSITION] & CODEC_MASK == 0:
        batches.base_offset[row] = wrapping_add(shift, read_i64(data, start))
        payloads.opened[row] = 1
    at = start
    for index in range(count):
        end = at + LOG_OVERHEAD + read_i32(data, at + LENGTH_POSITION)
        if data[at + MESSAGE_ATTRIBUTES_POSITION] & CODEC_MASK != 0:
            return INNER_COMPRESSED, index, at
        at = end
    return OK, count, at


@kernel
def open_wrappers(arena: Bytes, batches: Batches, payloads: Payloads) -> int:
    """Settle the base offsets of all decompressed wrappers, and note what is broken in them.

    A wrapper whose CRC is wrong keeps that status: Kafka still tells its base offset. Returns how
    many are broken.
    """
    broken = 0
    for row in range(batches.position.size):
        if batches.magic[row] < 2 and payloads.in_arena[row]:
            status, index, at = check_messages(arena, row, batches, payloads)
            if status != OK and payloads.status[row] == OK:
                payloads.status[row] = status
                payloads.failed_index[row] = index
                payloads.failed_at[row] = at
                broken += 1
    return broken
