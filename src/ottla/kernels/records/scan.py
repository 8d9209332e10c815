"""Cut batches out of bytes: the first 17 bytes are alike in every format."""

from ottla.format.arrays import Bytes
from ottla.format.attributes import CODEC_MASK
from ottla.format.layout import (
    ATTRIBUTES_POSITION,
    BASE_SEQUENCE_POSITION,
    BASE_TIMESTAMP_POSITION,
    BATCH_OVERHEAD,
    COUNT_POSITION,
    CRC_POSITION,
    FRAME_SIZE,
    LAST_OFFSET_DELTA_POSITION,
    LEADER_EPOCH_POSITION,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    MESSAGE_ATTRIBUTES_POSITION,
    MESSAGE_CRC_POSITION,
    MESSAGE_MINIMUM,
    MESSAGE_TIMESTAMP_POSITION,
    PRODUCER_EPOCH_POSITION,
    PRODUCER_ID_POSITION,
)
from ottla.format.sentinels import (
    INT32_MAX,
    NO_COUNT,
    NO_OFFSET,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.crc import compute_crc
from ottla.kernels.bytes.ints import read_i8, read_i16, read_i32, read_i64, read_u32, wrapping_add
from ottla.kernels.bytes.memory import prefetch
from ottla.kernels.status import END, MAGIC_UNKNOWN, OK, SIZE_TOO_LARGE, SIZE_TOO_SMALL, TABLE_FULL
from ottla.kernels.tables import Batches

# Each small batch says where the next begins, so the processor would wait for memory at each.
_SMALL = 4096


@inlined
def frame_at(data: Bytes, at: int, left: int) -> tuple[int, int]:
    """The size of the batch at `at` and a status, as ByteBufferLogInputStream sees them.

    Kafka checks the size before it knows whether the magic is there, and says "end" to whatever
    is cut off; END with a size of 0 means that not even the size can be known.
    """
    if left < LOG_OVERHEAD:
        return 0, END
    length = read_i32(data, at + LENGTH_POSITION)
    if length < MESSAGE_MINIMUM:
        return length, SIZE_TOO_SMALL
    if left < FRAME_SIZE:
        return 0, END
    magic = read_i8(data, at + MAGIC_POSITION)
    if magic < 0 or magic > 2:
        return length + LOG_OVERHEAD, MAGIC_UNKNOWN
    # Kafka adds the 12 bytes as an int: the sum overflows and the slice fails.
    if length + LOG_OVERHEAD > INT32_MAX:
        return length, SIZE_TOO_LARGE
    return length + LOG_OVERHEAD, OK if length + LOG_OVERHEAD <= left else END


@inlined
def view_v2(data: Bytes, at: int, size: int, row: int, batches: Batches) -> None:
    """Read the fixed part; a batch too short for it has zeros where nothing is."""
    if size < BATCH_OVERHEAD:
        batches.partition_leader_epoch[row] = 0
        batches.crc[row] = 0
        batches.attributes[row] = 0
        batches.last_offset_delta[row] = 0
        batches.base_timestamp[row] = 0
        batches.max_timestamp[row] = 0
        batches.producer_id[row] = 0
        batches.producer_epoch[row] = 0
        batches.base_sequence[row] = 0
        batches.count[row] = 0
        batches.last_offset[row] = batches.base_offset[row]
        return
    batches.partition_leader_epoch[row] = read_i32(data, at + LEADER_EPOCH_POSITION)
    batches.crc[row] = read_u32(data, at + CRC_POSITION)
    batches.attributes[row] = read_i16(data, at + ATTRIBUTES_POSITION) & 0xFFFF
    delta = read_i32(data, at + LAST_OFFSET_DELTA_POSITION)
    batches.last_offset_delta[row] = delta
    batches.last_offset[row] = wrapping_add(batches.base_offset[row], delta)
    batches.base_timestamp[row] = read_i64(data, at + BASE_TIMESTAMP_POSITION)
    batches.max_timestamp[row] = read_i64(data, at + MAX_TIMESTAMP_POSITION)
    batches.producer_id[row] = read_i64(data, at + PRODUCER_ID_POSITION)
    batches.producer_epoch[row] = read_i16(data, at + PRODUCER_EPOCH_POSITION)
    batches.base_sequence[row] = read_i32(data, at + BASE_SEQUENCE_POSITION)
    batches.count[row] = read_i32(data, at + COUNT_POSITION)


@inlined
def view_legacy(data: Bytes, at: int, row: int, batches: Batches) -> None:
    """Read a v0 or v1 message; the smallest one still holds a v1 timestamp."""
    attributes = i64(data[at + MESSAGE_ATTRIBUTES_POSITION])
    batches.partition_leader_epoch[row] = NO_PARTITION_LEADER_EPOCH
    batches.crc[row] = read_u32(data, at + MESSAGE_CRC_POSITION)
    batches.attributes[row] = attributes
    batches.last_offset_delta[row] = 0
    batches.last_offset[row] = batches.base_offset[row]
    if attributes & CODEC_MASK:
        batches.base_offset[row] = NO_OFFSET
    batches.base_timestamp[row] = NO_TIMESTAMP
    batches.max_timestamp[row] = NO_TIMESTAMP
    if batches.magic[row] == 1:
        batches.max_timestamp[row] = read_i64(data, at + MESSAGE_TIMESTAMP_POSITION)
    batches.producer_id[row] = NO_PRODUCER_ID
    batches.producer_epoch[row] = NO_PRODUCER_EPOCH
    batches.base_sequence[row] = NO_SEQUENCE
    batches.count[row] = NO_COUNT


@inlined
def fill_row(data: Bytes, at: int, size: int, origin: int, batches: Batches, row: int) -> None:
    """Read the header of a batch of which `frame_at` gave the size."""
    batches.position[row] = origin + at
    batches.size[row] = size
    batches.base_offset[row] = read_i64(data, at)
    batches.magic[row] = read_i8(data, at + MAGIC_POSITION)
    batches.computed_crc[row] = -1
    if batches.magic[row] == 2:
        view_v2(data, at, size, row, batches)
    else:
        view_legacy(data, at, row, batches)


@inlined
def _scan(
    data: Bytes, start: int, stop: int, origin: int, batches: Batches, checks: bool
) -> tuple[int, int, int, int]:
    at = start
    for row in range(batches.position.size):
        size, status = frame_at(data, at, stop - at)
        if status != OK:
            return row, at, status, size
        fill_row(data, at, size, origin, batches, row)
        if checks:
            compute_crc(data, at, row, batches)
        elif size < _SMALL:
            for line in range(at, at + size, 64):
                prefetch(data, line + _SMALL)
        at += size
    return batches.position.size, at, TABLE_FULL, 0


@kernel
def scan(
    data: Bytes, start: int, stop: int, origin: int, batches: Batches
) -> tuple[int, int, int, int]:
    """Fill rows from data[start:stop]; return (rows, where it stopped, status, size seen there)."""
    return _scan(data, start, stop, origin, batches, False)


@kernel
def scan_and_check(
    data: Bytes, start: int, stop: int, origin: int, batches: Batches
) -> tuple[int, int, int, int]:
    """As `scan`, and fill `computed_crc`: in one pass bytes come from memory once only."""
    return _scan(data, start, stop, origin, batches, True)
