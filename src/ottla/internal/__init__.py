"""Records of Kafka's internal topics: schema tables, one interpreter, the state they add up to."""

from ottla.internal.records import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    INTERNAL_TOPICS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    DecodedRecord,
    decode_control_record,
    decode_record,
)

__all__ = [
    "CLUSTER_METADATA",
    "CONSUMER_OFFSETS",
    "INTERNAL_TOPICS",
    "REMOTE_LOG_METADATA",
    "SHARE_GROUP_STATE",
    "TRANSACTION_STATE",
    "DecodedRecord",
    "decode_control_record",
    "decode_record",
]
