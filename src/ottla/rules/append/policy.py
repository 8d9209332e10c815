"""What a broker is told about a topic to which batches are appended."""

from dataclasses import dataclass

from ottla.errors import OptionError
from ottla.format.attributes import Codec, TimestampType
from ottla.format.magic import CURRENT_MAGIC
from ottla.format.sentinels import INT32_MAX, INT64_MAX, NO_PARTITION_LEADER_EPOCH

ZSTD_PRODUCE_VERSION = 7  # ProduceRequest.validateRecords: older clients could not read it back


@dataclass(frozen=True, slots=True)
class AppendPolicy:
    """A topic's settings with Kafka's defaults; `compression_type` None is "producer"."""

    compression_type: Codec | None = None
    compression_level: int | None = None
    magic: int = CURRENT_MAGIC
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = 3_600_000
    is_compacted: bool = False
    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1 << 30
    leader_epoch: int = 0

    def __post_init__(self) -> None:
        if not NO_PARTITION_LEADER_EPOCH <= self.leader_epoch <= INT32_MAX:
            raise OptionError(f"partition leader epoch {self.leader_epoch} does not fit 32 bits")
