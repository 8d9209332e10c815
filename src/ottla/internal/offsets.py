"""The offsets that groups had committed, from the records of a `__consumer_offsets` partition.

A commit counts at once, or with the COMMIT marker of its transaction. Whatever the order in which
transactions end, the record with the highest offset wins, be it a commit or a tombstone
(OffsetMetadataManager.replay): so each batch of records is reduced to one row a key, and the whole
log is never in memory.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.format.arrays import Bools, Int64s
from ottla.format.attributes import ControlType
from ottla.internal.commits import DecodedCommits, decode_commits, texts, topic_ids
from ottla.internal.records import CONSUMER_OFFSETS, decode_record, why_unusable
from ottla.kernels.records.offset_commits import BROKEN, COMMIT, TOMBSTONE, UNKNOWN_VERSION, Commits

RECORD_COLUMNS: Final = (
    "offset", "timestamp", "key", "value", "producerId", "isTransactional", "isControl",
)  # fmt: skip

# `logOffset` and `logTimestamp` are those of the record itself, `markerOffset` that of the marker
# which committed its transaction. A row with an `error` is a record that could not be read.
GROUP_OFFSETS_SCHEMA: Final = pa.schema(
    [
        pa.field("group", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("leaderEpoch", pa.int32()),
        pa.field("metadata", pa.string()),
        pa.field("commitTimestamp", pa.int64()),
        pa.field("expireTimestamp", pa.int64()),
        pa.field("topicId", pa.string()),
        pa.field("deleted", pa.bool_()),
        pa.field("logOffset", pa.int64()),
        pa.field("logTimestamp", pa.int64()),
        pa.field("markerOffset", pa.int64()),
        pa.field("error", pa.string()),
    ]
)
# While folding, rows also know their producer.
_ROW_SCHEMA: Final = GROUP_OFFSETS_SCHEMA.append(pa.field("producerId", pa.int64()))

_NEW_ROWS: Final = 1 << 18


def current_offsets(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The committed offset of every group, topic and partition at the end of the records."""
    offsets = CurrentOffsets()
    for batch in batches:
        offsets.add(batch)
    return offsets.table()


class CurrentOffsets:
    """The offsets committed by the records seen so far."""

    def __init__(self) -> None:
        self._fold = _Fold(_last_of_each_key)
        self._settled = _ROW_SCHEMA.empty_table()
        self._new: list[pa.Table] = []
        self._errors = [GROUP_OFFSETS_SCHEMA.empty_table()]

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the next records into account."""
        rows, errors = self._fold.add(batch)
        self._new.append(rows)
        self._errors.append(errors)
        if sum(map(len, self._new)) > max(_NEW_ROWS, len(self._settled)):
            self._merge()  # seldom enough that no row is merged many times

    def table(self) -> pa.Table:
        """One row for each group, topic and partition, then the records that could not be read."""
        self._merge()
        kept = self._settled.filter(pc.invert(self._settled["deleted"]))
        order = [("group", "ascending"), ("topic", "ascending"), ("partition", "ascending")]
        return pa.concat_tables(
            [kept.select(GROUP_OFFSETS_SCHEMA.names).sort_by(order), *self._errors]
        )

    def _merge(self) -> None:
        self._settled = _last_of_each(pa.concat_tables([self._settled, *self._new]))
        self._new = []


def offset_history(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Every commit and deletion, in the order in which they took effect."""
    fold = _Fold(_every_row)
    for batch in batches:
        rows, errors = fold.add(batch)
        if rows["markerOffset"].null_count < len(rows):
            effect = pc.coalesce(rows["markerOffset"], rows["logOffset"])
            keys = [("effect", "ascending"), ("logOffset", "ascending")]
            rows = rows.append_column("effect", effect).sort_by(keys)
        yield pa.concat_tables([rows.select(GROUP_OFFSETS_SCHEMA.names), errors])


def _every_row(batch: pa.RecordBatch, chosen: Bools) -> Bools:  # noqa: ARG001
    return chosen


def _last_of_each_key(batch: pa.RecordBatch, chosen: Bools) -> Bools:
    """Of rows that settle at once only the last of each key matters."""
    codes = batch["key"].dictionary_encode().indices.fill_null(0).to_numpy()
    last = np.full(codes.size, -1)
    at = np.flatnonzero(chosen)
    last[codes[at]] = at  # of equal codes the last one stays
    kept = np.zeros_like(chosen)
    kept[last[last >= 0]] = True
    return kept


@dataclass(slots=True)
class _Fold:
    """What must be remembered from one batch of records to the next: transactions still open.

    `thin` may leave out rows that others of the same batch overrule.
    """

    thin: Callable[[pa.RecordBatch, Bools], Bools]
    undecided: pa.Table = field(default_factory=_ROW_SCHEMA.empty_table)

    def add(self, batch: pa.RecordBatch) -> tuple[pa.Table, pa.Table]:
        """The rows that this batch settles, and a row for each of its broken records."""
        decoded = decode_commits(batch["key"], batch["value"])
        kind = decoded.commits.kind
        is_control = _bools(batch["isControl"])
        transactional = (kind == COMMIT) & _bools(batch["isTransactional"]) & ~is_control
        plain = ((kind == COMMIT) & ~transactional | (kind == TOMBSTONE)) & ~is_control
        plain = self.thin(batch, plain)
        waiting = pa.concat_tables([self.undecided, _rows(batch, decoded, transactional)])
        marker, types = _next_markers(waiting, _markers(batch, is_control))
        committed = waiting.filter(pa.array(types == ControlType.COMMIT))
        committed = committed.set_column(
            committed.schema.get_field_index("markerOffset"),
            _ROW_SCHEMA.field("markerOffset"),
            pa.array(marker[types == ControlType.COMMIT]),
        )
        self.undecided = waiting.filter(pa.array(types == ControlType.UNKNOWN))
        settled = pa.concat_tables([_rows(batch, decoded, plain), committed])
        unusable = (kind == BROKEN) | (kind == UNKNOWN_VERSION)
        return settled, _error_rows(batch, unusable & ~is_control)


def _rows(batch: pa.RecordBatch, decoded: DecodedCommits, chosen: Bools) -> pa.Table:
    at = np.flatnonzero(chosen)
    if at.size == 0:
        return _ROW_SCHEMA.empty_table()
    commits = Commits(*(column[at] for column in decoded.commits))
    records = batch.select(["offset", "timestamp", "producerId"]).take(pa.array(at))
    deleted = commits.kind == TOMBSTONE

    def numbers(column: Int64s, kind: pa.DataType) -> pa.Array:
        return pa.array(column, mask=deleted).cast(kind)

    columns = {
        "group": texts(decoded.keys, commits.group_start, commits.group_size),
        "topic": texts(decoded.keys, commits.topic_start, commits.topic_size),
        "partition": pa.array(commits.partition).cast(pa.int32()),
        "offset": numbers(commits.offset, pa.int64()),
        "leaderEpoch": numbers(commits.leader_epoch, pa.int32()),
        "metadata": texts(decoded.values, commits.metadata_start, commits.metadata_size),
        "commitTimestamp": numbers(commits.commit_timestamp, pa.int64()),
        "expireTimestamp": numbers(commits.expire_timestamp, pa.int64()),
        "topicId": topic_ids(decoded.values, commits.topic_id_start),
        "deleted": pa.array(deleted),
        "logOffset": records["offset"],
        "logTimestamp": records["timestamp"],
        "markerOffset": pa.nulls(at.size, pa.int64()),
        "error": pa.nulls(at.size, pa.string()),
        "producerId": records["producerId"],
    }
    return pa.table(columns, schema=_ROW_SCHEMA)


def _last_of_each(rows: pa.Table) -> pa.Table:
    """The row with the highest offset for each group, topic and partition."""
    if rows.num_rows == 0:
        return rows
    identity = np.zeros(rows.num_rows, dtype=np.int64)
    for name in ("group", "topic", "partition"):
        encoded = rows[name].combine_chunks().dictionary_encode()
        identity = identity * len(encoded.dictionary) + encoded.indices.to_numpy()
    codes = pa.array(identity).dictionary_encode().indices.to_numpy()
    in_order = np.argsort(rows["logOffset"].to_numpy(), kind="stable")
    last = np.empty(int(codes.max()) + 1, dtype=np.int64)
    last[codes[in_order]] = in_order  # of equal codes the last one stays
    return rows.take(pa.array(last)).combine_chunks()


@dataclass(frozen=True, slots=True)
class _EndMarkers:
    """The COMMIT and ABORT markers of a batch of records, in order."""

    producer_id: Int64s
    offset: Int64s
    type: Int64s


def _markers(batch: pa.RecordBatch, is_control: Bools) -> _EndMarkers:
    at = np.flatnonzero(is_control)
    keys = [(key or b"").ljust(4, b"\xff") for key in batch["key"].take(pa.array(at)).to_pylist()]
    types = np.array([int.from_bytes(key[2:4], "big") for key in keys], dtype=np.int64)
    ends = (types == ControlType.COMMIT) | (types == ControlType.ABORT)
    at = at[ends]
    return _EndMarkers(
        batch["producerId"].to_numpy()[at], batch["offset"].to_numpy()[at], types[ends]
    )


def _next_markers(rows: pa.Table, markers: _EndMarkers) -> tuple[Int64s, Int64s]:
    """For each row the offset and type of the marker that ends its transaction, else UNKNOWN."""
    count = rows.num_rows
    offsets = np.concatenate([rows["logOffset"].to_numpy(), markers.offset])
    producers = np.concatenate([rows["producerId"].to_numpy(), markers.producer_id])
    order = np.lexsort((offsets, producers))
    # Walking back through each producer's records, the last marker seen is the next one.
    position = np.empty(offsets.size, dtype=np.int64)
    position[order] = np.arange(offsets.size)
    marker_at = np.sort(position[count:])
    following = np.searchsorted(marker_at, position[:count])
    found = np.append(order[marker_at], -1)[following] if count else np.empty(0, dtype=np.int64)
    ended = (found >= 0) & (producers[found] == producers[:count])
    chosen = np.where(ended, found - count, 0)
    no_marker = np.int64(ControlType.UNKNOWN)
    if markers.offset.size == 0:
        return np.full(count, -1), np.full(count, no_marker)
    return (
        np.where(ended, markers.offset[chosen], -1),
        np.where(ended, markers.type[chosen], no_marker),
    )


def _error_rows(batch: pa.RecordBatch, unusable: Bools) -> pa.Table:
    if not unusable.any():
        return GROUP_OFFSETS_SCHEMA.empty_table()
    records = batch.take(pa.array(np.flatnonzero(unusable))).to_pylist()
    rows = [
        {
            "logOffset": record["offset"],
            "logTimestamp": record["timestamp"],
            "error": why_unusable(decode_record(CONSUMER_OFFSETS, record["key"], record["value"])),
        }
        for record in records
    ]
    return pa.Table.from_pylist(rows, schema=GROUP_OFFSETS_SCHEMA)


def _bools(column: pa.Array) -> Bools:
    values: Bools = column.to_numpy(zero_copy_only=False)
    return values
