"""NewBatch: what a writer chooses about a batch. CRC, sizes and counts follow from the records."""

from dataclasses import dataclass
from typing import Final

from ottla.codec import resolve_level
from ottla.errors import OptionError
from ottla.format.attributes import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Codec,
    TimestampType,
)
from ottla.format.magic import CURRENT_MAGIC as CURRENT_MAGIC
from ottla.format.sentinels import (
    INT32_MAX,
    INT64_MAX,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)

INT16_MAX: Final = 2**15 - 1


@dataclass(frozen=True, slots=True)
class NewBatch:
    """The settings of a batch, or of each of several, checked as Kafka's MemoryRecordsBuilder does.

    `base_offset` is that of the first record unless said otherwise, as a compacted batch must.
    `last_offset_delta` and `max_timestamp` follow from the records too; they are for batches that
    lost some, or all, of theirs.
    """

    magic: int = CURRENT_MAGIC
    codec: int = Codec.NONE
    level: int | None = None
    timestamp_type: int = TimestampType.CREATE_TIME
    log_append_time: int = NO_TIMESTAMP
    base_offset: int | None = None
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    delete_horizon: int = NO_TIMESTAMP
    last_offset_delta: int | None = None
    max_timestamp: int | None = None

    def __post_init__(self) -> None:
        _check_ranges(self)
        if self.magic > 0 and self.timestamp_type == TimestampType.NO_TIMESTAMP_TYPE:
            raise OptionError(f"magic {self.magic} needs a timestamp type")
        if self.magic < CURRENT_MAGIC:
            _check_legacy(self)
        _check_producer(self)
        resolve_level(self.codec, self.level)

    @property
    def attributes(self) -> int:
        """The attribute bits; magic 0 has no bit for the timestamp type."""
        bits = int(self.codec)
        if self.magic > 0 and self.timestamp_type == TimestampType.LOG_APPEND_TIME:
            bits |= LOG_APPEND_TIME
        if self.is_transactional:
            bits |= TRANSACTIONAL
        if self.is_control:
            bits |= CONTROL
        if self.delete_horizon != NO_TIMESTAMP:
            bits |= DELETE_HORIZON
        return bits


_RANGES: Final = {
    "magic": (0, CURRENT_MAGIC),
    "codec": (Codec.NONE, Codec.ZSTD),
    "timestamp_type": (TimestampType.NO_TIMESTAMP_TYPE, TimestampType.LOG_APPEND_TIME),
    "log_append_time": (NO_TIMESTAMP, INT64_MAX),
    "base_offset": (-INT64_MAX - 1, INT64_MAX),
    "partition_leader_epoch": (NO_PARTITION_LEADER_EPOCH, INT32_MAX),
    "producer_id": (NO_PRODUCER_ID, INT64_MAX),
    "producer_epoch": (NO_PRODUCER_EPOCH, INT16_MAX),
    "base_sequence": (NO_SEQUENCE, INT32_MAX),
    "delete_horizon": (NO_TIMESTAMP, INT64_MAX),
    "last_offset_delta": (0, INT32_MAX),
    "max_timestamp": (NO_TIMESTAMP, INT64_MAX),
}


def _check_ranges(new: NewBatch) -> None:
    for name, (least, most) in _RANGES.items():
        value = getattr(new, name)
        if value is not None and not least <= value <= most:
            raise OptionError(f"{name} is {value}, expected {int(least)} to {int(most)}")


def _check_legacy(new: NewBatch) -> None:
    """What only magic 2 has."""
    wrong = {
        "transactional batches": new.is_transactional,
        "control batches": new.is_control,
        "codec zstd": new.codec == Codec.ZSTD,
        "a delete horizon": new.delete_horizon != NO_TIMESTAMP,
        "a producer id": new.producer_id != NO_PRODUCER_ID,
        "a partition leader epoch": new.partition_leader_epoch != NO_PARTITION_LEADER_EPOCH,
        "last_offset_delta": new.last_offset_delta is not None,
        "max_timestamp": new.max_timestamp is not None,
    }
    for name, asked in wrong.items():
        if asked:
            raise OptionError(f"magic {new.magic} does not support {name}")


def _check_producer(new: NewBatch) -> None:
    """MemoryRecordsBuilder.validateProducerState."""
    if new.producer_id == NO_PRODUCER_ID:
        if new.is_transactional:
            raise OptionError("a transactional batch needs a producer id")
        return
    if new.producer_epoch == NO_PRODUCER_EPOCH:
        raise OptionError("a batch with a producer id needs a producer epoch")
    if new.base_sequence < 0 and not new.is_control:
        raise OptionError("a batch with a producer id needs a base sequence, unless it is control")
