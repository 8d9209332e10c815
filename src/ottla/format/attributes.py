"""The attribute bits of a batch, and the codes in them."""

from enum import IntEnum
from typing import Final

from ottla.errors import OptionError

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40


class Codec(IntEnum):
    """Compression type ids; 5, 6 and 7 are unknown to Kafka."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Whose clock a timestamp is; magic 0 has none."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


def codec_of(given: str | int) -> Codec:
    """A codec, its name, or its id.

    >>> codec_of("zstd"), codec_of(Codec.LZ4)
    (<Codec.ZSTD: 4>, <Codec.LZ4: 3>)
    """
    for codec in Codec:
        if given == codec or str(given).upper() == codec.name:
            return codec
    names = ", ".join(codec.name.lower() for codec in Codec)
    raise OptionError(f"{given!r} is no codec: choose one of {names}")


CODEC_NAMES: Final = {codec.value: codec.name.lower() for codec in Codec}
TIMESTAMP_TYPE_NAMES: Final = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


class ControlType(IntEnum):
    """Control record types (ControlRecordType)."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1
