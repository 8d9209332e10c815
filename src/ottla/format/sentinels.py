"""Kafka's own words for "there is none"."""

from typing import Final

NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1
NO_CRC: Final = -1  # not computed, or not to be seen
NO_COUNT: Final = -1  # magic 0 and 1 do not store how many records a batch holds

MAX_SEQUENCE: Final = 2**31 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
