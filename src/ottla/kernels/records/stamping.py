"""Overwrite fields of sealed batches, and their CRC where it covers the field."""

from ottla.format.arrays import Bytes, Int64s
from ottla.format.attributes import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from ottla.format.layout import (
    ATTRIBUTES_POSITION,
    CRC_COVERS,
    CRC_POSITION,
    LEADER_EPOCH_POSITION,
    MAX_TIMESTAMP_POSITION,
    MESSAGE_ATTRIBUTES_POSITION,
    MESSAGE_CRC_COVERS,
    MESSAGE_CRC_POSITION,
    MESSAGE_TIMESTAMP_POSITION,
)
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.crc import crc32, crc32c_inlined
from ottla.kernels.bytes.ints import read_i64
from ottla.kernels.bytes.writing import write_i8, write_i16, write_i32, write_i64
from ottla.kernels.tables import Batches

KEPT_BITS = CODEC_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON


@kernel
def shift_offsets(data: Bytes, origin: int, batches: Batches, shift: int) -> None:
    """Add to the offset that every batch begins with; `origin` is the position of data[0]."""
    for row in range(batches.position.size):
        at = batches.position[row] - origin
        write_i64(data, at, read_i64(data, at) + shift)


@kernel
def stamp_leader_epochs(data: Bytes, origin: int, batches: Batches, epoch: int) -> None:
    """Write the leader epoch into batches of magic 2; the others have none."""
    for row in range(batches.position.size):
        if batches.magic[row] == 2:
            write_i32(data, batches.position[row] - origin + LEADER_EPOCH_POSITION, epoch)


@inlined
def stamp_v2(data: Bytes, start: int, stop: int, attributes: int, timestamp: int) -> int:
    """Write attributes and largest timestamp; return the new CRC."""
    write_i16(data, start + ATTRIBUTES_POSITION, attributes)
    write_i64(data, start + MAX_TIMESTAMP_POSITION, timestamp)
    crc = crc32c_inlined(data, start + CRC_COVERS, stop)
    write_i32(data, start + CRC_POSITION, crc)
    return crc


@inlined
def stamp_v1(data: Bytes, start: int, stop: int, attributes: int, timestamp: int) -> int:
    """Write attributes and timestamp; return the new CRC."""
    write_i8(data, start + MESSAGE_ATTRIBUTES_POSITION, attributes)
    write_i64(data, start + MESSAGE_TIMESTAMP_POSITION, timestamp)
    crc = crc32(data, start + MESSAGE_CRC_COVERS, stop)
    write_i32(data, start + MESSAGE_CRC_POSITION, crc)
    return crc


@kernel
def stamp_timestamps(
    data: Bytes, origin: int, batches: Batches, append_time: int, timestamps: Int64s
) -> None:
    """Write timestamp type and largest timestamp of magic 1 and 2 where they change, and the CRC.

    Kafka computes the attributes anew, so bits that mean nothing are lost.
    """
    for row in range(batches.position.size):
        before = batches.attributes[row]
        timestamp = timestamps[row]
        same_type = (before & LOG_APPEND_TIME != 0) == (append_time != 0)
        if same_type and batches.max_timestamp[row] == timestamp:
            continue
        start = batches.position[row] - origin
        stop = start + batches.size[row]
        kind = i64(LOG_APPEND_TIME) if append_time else i64(0)
        if batches.magic[row] == 2:
            attributes = (before & KEPT_BITS) | kind
            crc = stamp_v2(data, start, stop, attributes, timestamp)
        else:
            attributes = (before & CODEC_MASK) | kind
            crc = stamp_v1(data, start, stop, attributes, timestamp)
        batches.attributes[row] = attributes
        batches.max_timestamp[row] = timestamp
        batches.crc[row] = crc
        batches.computed_crc[row] = crc
