"""The views of the internal topics by name: whose records, which columns, and how to make them.

The records of a partition come as Arrow batches with RECORD_COLUMNS, in order of offset, control
records too; for metadata the newest snapshot first and then the log after it. A group and a
transactional id live in one partition, so the tables of partitions only need to be put together.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from ottla.internal.groups import GROUPS_SCHEMA, current_groups, group_history
from ottla.internal.metadata import (
    CONFIGS_SCHEMA,
    METADATA_SCHEMA,
    TOPICS_SCHEMA,
    config_history,
    current_configs,
    current_metadata,
    current_topics,
    metadata_history,
    topic_history,
)
from ottla.internal.offsets import (
    GROUP_OFFSETS_SCHEMA,
    RECORD_COLUMNS,
    current_offsets,
    offset_history,
)
from ottla.internal.records import CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.internal.transactional_ids import (
    TRANSACTIONAL_IDS_SCHEMA,
    current_transactional_ids,
    transactional_id_history,
)

__all__ = ["RECORD_COLUMNS", "VIEWS", "InternalView", "time_columns"]

Batches = Iterable[pa.RecordBatch]


class InternalView(NamedTuple):
    """A table of what the records of a topic add up to, or of each change (`history`)."""

    topic: str
    schema: pa.Schema
    current: Callable[[Batches], pa.Table]
    history: Callable[[Batches], Iterator[pa.Table]]


def time_columns(schema: pa.Schema) -> list[str]:
    """The columns that are milliseconds since 1970."""
    return [name for name in schema.names if name.endswith("Timestamp")]


VIEWS: Final = {
    "group_offsets": InternalView(
        CONSUMER_OFFSETS, GROUP_OFFSETS_SCHEMA, current_offsets, offset_history
    ),
    "groups": InternalView(CONSUMER_OFFSETS, GROUPS_SCHEMA, current_groups, group_history),
    "transactional_ids": InternalView(
        TRANSACTION_STATE,
        TRANSACTIONAL_IDS_SCHEMA,
        current_transactional_ids,
        transactional_id_history,
    ),
    "topics": InternalView(CLUSTER_METADATA, TOPICS_SCHEMA, current_topics, topic_history),
    "configs": InternalView(CLUSTER_METADATA, CONFIGS_SCHEMA, current_configs, config_history),
    "metadata": InternalView(CLUSTER_METADATA, METADATA_SCHEMA, current_metadata, metadata_history),
}
