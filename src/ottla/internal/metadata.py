"""Tables of the cluster's metadata, now or change by change: topics, configs, and everything."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa

from ottla.errors import Row
from ottla.format.attributes import ControlType
from ottla.internal.image import Identity, Image, ImageChange, ImageEntry, MetadataRecord
from ottla.internal.records import (
    CLUSTER_METADATA,
    decode_control_record,
    decode_record,
    why_unusable,
)

NO_OP: Final = b"\x01\x14\x00\x00"  # a controller writes one twice a second
# ConfigResource.Type
RESOURCE_TYPES: Final = {
    2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP",
}  # fmt: skip

_IDS: Final = pa.list_(pa.int32())
# Where the record is that made the row what it is, and why a row has nothing else.
_ORIGIN: Final = [
    pa.field("deleted", pa.bool_()),
    pa.field("logOffset", pa.int64()),
    pa.field("logTimestamp", pa.int64()),
    pa.field("error", pa.string()),
]
TOPICS_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("topicId", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("leader", pa.int32()),
        pa.field("leaderEpoch", pa.int32()),
        pa.field("partitionEpoch", pa.int32()),
        pa.field("leaderRecoveryState", pa.int32()),
        pa.field("replicas", _IDS),
        pa.field("isr", _IDS),
        pa.field("removingReplicas", _IDS),
        pa.field("addingReplicas", _IDS),
        pa.field("eligibleLeaderReplicas", _IDS),
        pa.field("lastKnownElr", _IDS),
        pa.field("directories", pa.list_(pa.string())),
        *_ORIGIN,
    ]
)
CONFIGS_SCHEMA: Final = pa.schema(
    [
        pa.field("resourceType", pa.string()),
        pa.field("resourceName", pa.string()),
        pa.field("name", pa.string()),
        pa.field("value", pa.string()),
        *_ORIGIN,
    ]
)
# `type` is the record that defines the thing, `data` its fields with all changes, as JSON.
METADATA_SCHEMA: Final = pa.schema(
    [
        pa.field("type", pa.string()),
        pa.field("version", pa.int32()),
        pa.field("data", pa.string()),
        *_ORIGIN,
    ]
)

Project = Callable[[Identity, ImageEntry], Row | None]


def current_topics(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """One row for each partition of each topic."""
    return _current(batches, _topic_row, TOPICS_SCHEMA)


def topic_history(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Partitions as each change left them."""
    return _history(batches, _topic_row, TOPICS_SCHEMA)


def current_configs(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """One row for each config that is set."""
    return _current(batches, _config_row, CONFIGS_SCHEMA)


def config_history(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Configs as they were set and deleted."""
    return _history(batches, _config_row, CONFIGS_SCHEMA)


def current_metadata(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """One row for each thing in the metadata: what a snapshot would hold."""
    return _current(batches, _metadata_row, METADATA_SCHEMA)


def metadata_history(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Things as each change left them."""
    return _history(batches, _metadata_row, METADATA_SCHEMA)


def read_image(batches: Iterable[pa.RecordBatch]) -> tuple[Image, list[Row]]:
    """The image at the end of the records, and a row for each record that could not be read."""
    image = Image()
    errors: list[Row] = []
    for batch in batches:
        for _ in _changes(image, batch, errors):
            pass
    return image, errors


def _current(batches: Iterable[pa.RecordBatch], project: Project, schema: pa.Schema) -> pa.Table:
    image, errors = read_image(batches)
    rows = [
        row | _origin(entry.offset, entry.timestamp, deleted=False)
        for identity, entry in image.entries.items()
        if (row := project(identity, entry)) is not None
    ]
    return pa.Table.from_pylist(rows + errors, schema=schema)


def _history(
    batches: Iterable[pa.RecordBatch], project: Project, schema: pa.Schema
) -> Iterator[pa.Table]:
    image = Image()
    for batch in batches:
        errors: list[Row] = []
        rows = [
            row | _origin(change.offset, change.timestamp, deleted=change.deleted)
            for change in _changes(image, batch, errors)
            if (row := project(change.identity, change.entry)) is not None
        ]
        yield pa.Table.from_pylist(rows + errors, schema=schema)


def _origin(offset: int, timestamp: int, *, deleted: bool) -> Row:
    return {"deleted": deleted, "logOffset": offset, "logTimestamp": timestamp}


def _changes(image: Image, batch: pa.RecordBatch, errors: list[Row]) -> Iterator[ImageChange]:
    names = ("offset", "timestamp", "key", "value", "isControl")
    for offset, timestamp, key, value, is_control in zip(
        *(batch[name].to_pylist() for name in names), strict=True
    ):
        if value == NO_OP:
            continue
        if is_control:
            decoded = decode_control_record(key, value)
            kind = decoded.key["type"] if decoded.key and "type" in decoded.key else ""
            if kind == ControlType.SNAPSHOT_HEADER.name:
                image.clear()
        else:
            decoded = decode_record(CLUSTER_METADATA, key, value)
            kind = decoded.value["type"] if decoded.value and "type" in decoded.value else ""
        if problem := why_unusable(decoded):
            errors.append({"logOffset": offset, "logTimestamp": timestamp, "error": problem})
        elif decoded.value is not None and "data" in decoded.value:
            version, data = decoded.value["version"], decoded.value["data"]
            yield from image.apply(MetadataRecord(kind, version, data, offset, timestamp))


def _topic_row(identity: Identity, entry: ImageEntry) -> Row | None:
    if identity[0] != "PARTITION_RECORD":
        return None
    data = entry.data
    same = {name: data[name] for name in TOPICS_SCHEMA.names if name in data}
    return same | {
        "topic": data["topicName"],
        "partition": data["partitionId"],
        "leaderRecoveryState": data.get("leaderRecoveryState", 0),
        "eligibleLeaderReplicas": data.get("eligibleLeaderReplicas") or [],
        "lastKnownElr": data.get("lastKnownElr") or [],
    }


def _config_row(identity: Identity, entry: ImageEntry) -> Row | None:
    if identity[0] != "CONFIG_RECORD":
        return None
    number = entry.data["resourceType"]
    return entry.data | {"resourceType": RESOURCE_TYPES.get(number, str(number))}


def _metadata_row(identity: Identity, entry: ImageEntry) -> Row:
    text = json.dumps(entry.data, ensure_ascii=False, separators=(",", ":"))
    return {"type": identity[0], "version": entry.version, "data": text}
