"""Byte layouts, declared once: used to read, to write and to point into a batch."""

from typing import Final

import numpy as np

BATCH_V2: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("partition_leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
# The key follows its length, and the value its own.
MESSAGE_V0: Final = np.dtype(
    [
        ("offset", ">i8"),
        ("length", ">i4"),
        ("crc", ">u4"),
        ("magic", "i1"),
        ("attributes", "i1"),
        ("key_length", ">i4"),
    ]
)
MESSAGE_V1: Final = np.dtype(
    [
        ("offset", ">i8"),
        ("length", ">i4"),
        ("crc", ">u4"),
        ("magic", "i1"),
        ("attributes", "i1"),
        ("timestamp", ">i8"),
        ("key_length", ">i4"),
    ]
)


def position_of(field: str, layout: np.dtype[np.void] = BATCH_V2) -> int:
    """Where a field begins.

    >>> position_of("magic"), position_of("attributes"), BATCH_V2.itemsize
    (16, 21, 61)
    """
    fields = layout.fields
    assert fields is not None
    return fields[field][1]


# Alike in every format.
LENGTH_POSITION: Final = position_of("length")
MAGIC_POSITION: Final = position_of("magic")
LOG_OVERHEAD: Final = position_of("partition_leader_epoch")  # offset and length
FRAME_SIZE: Final = MAGIC_POSITION + 1  # what must be read to cut a batch
BATCH_OVERHEAD: Final = BATCH_V2.itemsize
MESSAGE_MINIMUM: Final = 14  # the smallest legal length field, in every format

# Where the fields of a batch begin, and what its CRC covers, up to the end.
LEADER_EPOCH_POSITION: Final = position_of("partition_leader_epoch")
CRC_POSITION: Final = position_of("crc")
ATTRIBUTES_POSITION: Final = position_of("attributes")
CRC_COVERS: Final = ATTRIBUTES_POSITION
LAST_OFFSET_DELTA_POSITION: Final = position_of("last_offset_delta")
BASE_TIMESTAMP_POSITION: Final = position_of("base_timestamp")
MAX_TIMESTAMP_POSITION: Final = position_of("max_timestamp")
PRODUCER_ID_POSITION: Final = position_of("producer_id")
PRODUCER_EPOCH_POSITION: Final = position_of("producer_epoch")
BASE_SEQUENCE_POSITION: Final = position_of("base_sequence")
COUNT_POSITION: Final = position_of("count")

# The same of a v0 or v1 message.
MESSAGE_CRC_POSITION: Final = position_of("crc", MESSAGE_V1)
MESSAGE_CRC_COVERS: Final = position_of("magic", MESSAGE_V1)
MESSAGE_ATTRIBUTES_POSITION: Final = position_of("attributes", MESSAGE_V1)
MESSAGE_TIMESTAMP_POSITION: Final = position_of("timestamp", MESSAGE_V1)

CRC_SIZE: Final = 4
KEY_LENGTH_SIZE: Final = 4  # of a message
VALUE_LENGTH_SIZE: Final = 4
RECORD_ATTRIBUTES_SIZE: Final = 1  # between the length of a v2 record and its deltas

INDEX_ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_INDEX_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
TRANSACTION_INDEX_ENTRY: Final = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)
PRODUCER_SNAPSHOT_HEAD: Final = np.dtype([("version", ">i2"), ("crc", ">u4"), ("count", ">i4")])
PRODUCER_SNAPSHOT_ENTRY: Final = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("current_transaction_first_offset", ">i8"),
    ]
)
