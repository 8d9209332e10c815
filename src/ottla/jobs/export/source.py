"""Whose records an export holds: what it remembers of its source, and how another is told apart.

An export goes on after the last offset in OUT. That offset means something in the same log only.
"""

import hashlib
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import pyarrow as pa

from ottla.catalog.logs import Log
from ottla.catalog.positions import find_log_end
from ottla.catalog.slices import find_slices
from ottla.errors import CorruptLogError, OptionError, PublishError
from ottla.format.names import META_PROPERTIES, PARTITION_METADATA, TopicPartition
from ottla.jobs.read.records import read_slice
from ottla.log.files.identity import read_meta_properties, read_topic_id
from ottla.log.files.small_files import read_small
from ottla.log.read.bounds import Bounds
from ottla.options.read import SliceAccess
from ottla.publish.checked import FinishedPartition
from ottla.storage.listing import exists
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import join

_COLUMNS: Final = ("key", "value", "offset", "timestamp")


class Remembered(NamedTuple):
    """A record by which a log is known again, whatever its format: `digest` is of key and value."""

    offset: int
    timestamp: int
    digest: str


class Source(NamedTuple):
    """What is known of the log that a partition was exported from; None is not known."""

    name: TopicPartition
    topic_id: str | None
    cluster_id: str | None
    records: tuple[Remembered, ...] = ()

    def as_row(self) -> dict[str, Any]:
        return {
            "topic": self.name.topic,
            "partition": self.name.partition,
            "topicId": self.topic_id,
            "clusterId": self.cluster_id,
            "records": [list(record) for record in self.records],
        }


def remember_record(records: pa.RecordBatch, row: int) -> Remembered:
    """One record of a table that has the columns of the core."""
    digest = hashlib.sha256()
    for name in ("key", "value"):
        held = records.column(name)[row].as_py()
        size = -1 if held is None else len(held)
        digest.update(size.to_bytes(8, "big", signed=True) + (held or b""))
    offset, timestamp = (records.column(name)[row].as_py() for name in ("offset", "timestamp"))
    return Remembered(offset, timestamp, digest.hexdigest()[:32])


def identify(log: Log, storage: StorageOptions) -> Source:
    """The ids of a log; a file of them that is broken tells nothing."""
    topic_id = cluster_id = None
    metadata = log.partition.find(PARTITION_METADATA)
    properties = join(posixpath.dirname(log.partition.path) or ".", META_PROPERTIES)
    with suppress(CorruptLogError):
        if metadata is not None:
            topic_id = read_topic_id(read_small(metadata, storage), metadata.path)
    with suppress(CorruptLogError):
        if exists(properties, storage):
            found = read_meta_properties(read_small(properties, storage), properties)
            cluster_id = found.cluster_id
    return Source(log.name, topic_id, cluster_id)


def name_sources(
    identities: Iterable[Source], finished: Mapping[str, FinishedPartition]
) -> list[dict[str, Any]]:
    """The sources of an export with the first and the last record that was taken of each."""
    seen: dict[TopicPartition, list[Remembered]] = {}
    for part in finished.values():
        row = part.account
        name = TopicPartition(row["topic"], row["partition"])
        seen.setdefault(name, []).extend(_parse_records(row.get("remembered", ()), "a journal"))
    rows = []
    for source in identities:
        ends = sorted(seen.get(source.name, []))
        rows.append(source._replace(records=tuple(dict.fromkeys(ends[:1] + ends[-1:]))).as_row())
    return rows


def parse_sources(content: Mapping[str, Any], path: str) -> list[Source]:
    """The sources in an account, which may be anybody's."""
    rows = content.get("sources", [])
    if not isinstance(rows, list):
        raise _unknown(path)
    return [_parse_source(row, path) for row in rows]


def _parse_source(row: Any, path: str) -> Source:
    try:
        ids = (row["topicId"], row["clusterId"])
        name = TopicPartition(str(row["topic"]), int(row["partition"]))
        records = row["records"]
    except (KeyError, TypeError, ValueError) as error:
        raise _unknown(path) from error
    if not all(one is None or isinstance(one, str) for one in ids):
        raise _unknown(path)
    return Source(name, *ids, _parse_records(records, path))


def _parse_records(rows: Any, path: str) -> tuple[Remembered, ...]:
    try:
        return tuple(Remembered(int(at), int(time), str(digest)) for at, time, digest in rows)
    except (TypeError, ValueError) as error:
        raise _unknown(path) from error


def _unknown(path: str) -> PublishError:
    return PublishError(
        f"{path} does not say whose records were exported, as ottla would: choose another OUT"
    )


def check_source(
    log: Log,
    mine: Source,
    before: Sequence[Source],
    last: int | None,
    storage: StorageOptions,
) -> str | None:
    """What tells a log from the ones that earlier exports to the same OUT took; None if nothing.

    Retention takes the head of a log away and compaction any record: it stays the same log.
    """
    same_topic = [source for source in before if source.name.topic == mine.name.topic]
    for source in same_topic:
        if mine.topic_id and source.topic_id and mine.topic_id != source.topic_id:
            return f"the topic id is {mine.topic_id}, was {source.topic_id}"
        if mine.cluster_id and source.cluster_id and mine.cluster_id != source.cluster_id:
            return f"the cluster is {mine.cluster_id}, was {source.cluster_id}"
    if last is None or (mine.topic_id and any(source.topic_id for source in same_topic)):
        return None
    end = find_log_end(log.partition, storage)
    if end <= last:
        return f"it ends at offset {end}, and offset {last} was exported"
    remembered = {one for source in before if source.name == mine.name for one in source.records}
    for record in sorted(remembered):
        difference = _compare(log, record, storage)
        if difference is not None:
            return difference
    return None


def _compare(log: Log, record: Remembered, storage: StorageOptions) -> str | None:
    found = _read_record(log, record.offset, storage)
    if found is None or found == record:
        return None
    if found.timestamp != record.timestamp:
        return f"offset {record.offset} has the timestamp {found.timestamp}, had {record.timestamp}"
    return f"offset {record.offset} holds another key or value than it did"


def _read_record(log: Log, offset: int, storage: StorageOptions) -> Remembered | None:
    for _, part in find_slices(log, Bounds(offset, offset + 1), None, storage):
        for reading in read_slice(part, _COLUMNS, SliceAccess(storage)):
            records = reading.to_arrow(_COLUMNS)
            if records is not None and records.num_rows:
                return remember_record(records, 0)
    return None


def refuse_source(log: Log, out: str, difference: str) -> OptionError:
    """What the user is told."""
    return OptionError(
        f"{log.partition.path} is another source than the one that was exported to {out}"
        f" ({difference}): its records up to the last offset there would be missing; choose"
        " another OUT"
    )
