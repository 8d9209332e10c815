"""Restore: a copy that a broker can mount, of some records, with the offsets that they had.

Batches of which everything is wanted are copied byte for byte. Of the others what is left is
encoded again under the header that they had, as compaction does. Markers stay, so that
transactions still end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.arrow.to_arrow import records_to_arrow
from ottla.batch.attributes import has_delete_horizon, is_control
from ottla.batch.count import count_records
from ottla.batch.decode import Chunk, Decoder
from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.batch.rebuild import RemainingRecords, rebuild
from ottla.batch.records import Reused, decode_sound_groups
from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.catalog.slices import Slice
from ottla.errors import OptionError, Term
from ottla.format.arrays import Bools
from ottla.format.names import is_topic_name
from ottla.format.sentinels import NO_TIMESTAMP
from ottla.jobs.output import OutputJob, choose_inputs
from ottla.jobs.rewrite.extent import settle_bounds, settle_other
from ottla.jobs.rewrite.plan import (
    DEFAULT_SPLIT_BYTES,
    Changed,
    Rewriting,
    plan_rewriting,
    read_metadata,
)
from ottla.jobs.rewrite.trim import scanned
from ottla.kernels.tables import Batches, Int64s, RecordBuffers, Wanted, take_batches
from ottla.log.files.identity import is_uuid, write_topic_id
from ottla.log.write.index_builder import SegmentConfig
from ottla.region import Region
from ottla.where.evaluate import FilePlace, match_records
from ottla.where.tree import Predicate

_ALL = Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records are wanted; empty fields want all. A header without value may have any."""

    keys: tuple[bytes, ...] = ()
    key_pattern: str | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    where: Predicate | None = None

    @property
    def wants_all(self) -> bool:
        return self == RecordFilter()


class Renaming(NamedTuple):
    """New names of topics by the old, and ids of topics by the new."""

    topics: Mapping[str, str]
    topic_ids: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Restoring:
    """The records that the filter wants."""

    wanted: RecordFilter

    def begin(self, max_batch_bytes: int) -> Decoder:
        return Decoder(_ALL, max_batch_bytes=max_batch_bytes, allocate=Reused())

    def apply(
        self, decoder: Decoder, region: Region, batches: Batches, part: Slice
    ) -> Iterator[Changed]:
        """What is wanted of the window; all of it is copied at once."""
        broken = batches.crc != batches.computed_crc
        if self.wanted.wants_all and not broken.any():
            count = count_records(region, batches, decoder.max_batch_bytes)
            yield Changed(region, batches, batches.position.size, 0, count)
            return
        for span, (records, rows) in decode_sound_groups(decoder, region, batches):
            taken = take_batches(batches, span)
            count = records.offset.size
            chunk = Chunk(
                records, count, records.header_key_bounds.size - 1, pieces=[(taken, rows)]
            )
            mask = choose_records(chunk, self.wanted, FilePlace(part.name, part.log.path))
            data, copied = _write(region, taken, rows, records, mask)
            new_region, new_batches = scanned(data, region.path)
            skipped = rows.size - new_batches.position.size
            count = count_records(new_region, new_batches, decoder.max_batch_bytes)
            yield Changed(new_region, new_batches, copied, skipped, count)


def choose_records(chunk: Chunk, wanted: RecordFilter, place: FilePlace) -> Bools:
    """Which records the filter wants."""
    chosen = np.ones(chunk.count, dtype=np.bool_)
    if wanted.wants_all or not chunk.count:
        return chosen
    if wanted.where is not None:
        chosen &= match_records(wanted.where, chunk, place)
    table = records_to_arrow(chunk, ["key", "rawHeaders"])
    if wanted.keys:
        found = pc.is_in(table.column("key"), pa.array(wanted.keys, pa.binary()))
        chosen &= found.to_numpy(zero_copy_only=False)
    if wanted.key_pattern is not None:
        found = pc.match_substring_regex(table.column("key"), wanted.key_pattern)
        chosen &= found.fill_null(False).to_numpy(zero_copy_only=False)
    for name, value in wanted.headers:
        chosen &= _has_header(table.column("rawHeaders"), name, value)
    return chosen


def _has_header(column: pa.Array, name: bytes, value: bytes | None) -> Bools:
    names, values = column.values.flatten()
    matches = pc.equal(names, pa.scalar(name, pa.binary()))
    if value is not None:
        matches = pc.and_(matches, pc.equal(values, pa.scalar(value, pa.binary())).fill_null(False))
    owners = np.repeat(np.arange(len(column)), np.diff(column.offsets.to_numpy()))
    found = np.zeros(len(column), dtype=np.bool_)
    found[owners[matches.to_numpy(zero_copy_only=False)]] = True
    return found


def _write(
    region: Region,
    batches: Batches,
    rows: Int64s,
    records: RecordBuffers,
    mask: Bools,
) -> tuple[bytes, int]:
    """The batches with only the records of the mask, and how many are as they were."""
    owner = np.repeat(np.arange(rows.size), rows)
    left = np.bincount(owner[mask], minlength=rows.size)
    # Neither has records of its own to choose from; a producer's last sequence may hang on them.
    empty = (batches.magic == CURRENT_MAGIC) & (batches.count == 0)
    same = is_control(batches) | empty | ((left == rows) & (rows > 0))
    remaining = np.flatnonzero(~same & (left > 0))
    kept = np.flatnonzero(mask & np.isin(owner, remaining))
    ends = np.cumsum(left[remaining])
    remains = take_batches(batches, remaining)
    horizon = np.where(has_delete_horizon(remains), remains.base_timestamp, NO_TIMESTAMP)
    again = rebuild(
        RemainingRecords(
            remains,
            records,
            kept,
            np.concatenate([[0], ends]).astype(np.int64),
            horizon,
        )
    )
    encoded = iter(zip(again.batches.position.tolist(), again.batches.size.tolist(), strict=True))
    pieces: list[memoryview] = []
    for row in np.flatnonzero(same | (left > 0)).tolist():
        if same[row]:
            at, size = int(batches.position[row]) - region.position, int(batches.size[row])
            pieces.append(region.data[at : at + size].data)
        else:
            at, size = next(encoded)
            pieces.append(again.data[at : at + size].data)
    return b"".join(pieces), int(same.sum())


def plan_restore(
    chosen: ChosenLogs,
    out: str,
    wanted: RecordFilter,
    renaming: Renaming,
    *,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
    config: SegmentConfig = SegmentConfig(),  # noqa: B008  (frozen)
) -> OutputJob:
    """Copy what is chosen into OUT."""
    logs = choose_inputs(chosen, out)
    _check_renaming(logs, renaming)
    rewritings = [_rewriting(log, Restoring(wanted), renaming, chosen) for log in logs]
    directories = [each.directory for each in rewritings]
    if len(set(directories)) < len(directories):
        raise OptionError("two topics would get the same name")
    options: dict[str, Any] = {
        "command": "restore",
        "selection": chosen.described(),
        "filter": wanted,
        "topics": sorted(renaming.topics.items()),
        "topicIds": sorted(renaming.topic_ids.items()),
        "splitBytes": split_bytes,
        "config": config,
    }
    return plan_rewriting(
        "restore",
        out,
        rewritings,
        options,
        split_bytes=split_bytes,
        config=config,
        storage=chosen.storage,
    )


def _new_topic(log: Log, renaming: Renaming) -> str:
    return renaming.topics.get(log.name.topic, log.name.topic)


def _rewriting(log: Log, change: Restoring, renaming: Renaming, chosen: ChosenLogs) -> Rewriting:
    name = log.name._replace(topic=_new_topic(log, renaming))
    metadata = _metadata(log, renaming, chosen)
    if name != log.name or _gets_other_id(log, renaming, chosen):
        bounds, lost = settle_other(log, chosen)
        return Rewriting(log, bounds, None, name, change, metadata, lost=lost)
    bounds = settle_bounds(log, chosen)
    return Rewriting(log, bounds, None, name, change, metadata)


def _metadata(log: Log, renaming: Renaming, chosen: ChosenLogs) -> bytes | None:
    """The topic id that was asked for; a renamed topic is another one, and has none yet."""
    topic = _new_topic(log, renaming)
    if topic in renaming.topic_ids:
        return write_topic_id(renaming.topic_ids[topic])
    if topic != log.name.topic:
        return None
    return read_metadata(log, chosen.storage)


def _gets_other_id(log: Log, renaming: Renaming, chosen: ChosenLogs) -> bool:
    """Whether a topic surely gets another id than it has."""
    wanted = renaming.topic_ids.get(log.name.topic)
    its_own = read_metadata(log, chosen.storage)
    return wanted is not None and its_own is not None and wanted.encode() not in its_own


def _check_renaming(logs: list[Log], renaming: Renaming) -> None:
    topics = {log.name.topic for log in logs}
    for old, new in renaming.topics.items():
        if old not in topics:
            raise OptionError(Term.RENAME, f" {old}={new}: no such topic among what is restored")
        if not is_topic_name(new):
            raise OptionError(Term.RENAME, f" {old}={new}: {new!r} is no name for a topic")
    names = {_new_topic(log, renaming) for log in logs}
    for topic, topic_id in renaming.topic_ids.items():
        if topic not in names:
            raise OptionError(Term.TOPIC_IDS, f" {topic}={topic_id}: no such topic in the output")
        if not is_uuid(topic_id):
            raise OptionError(Term.TOPIC_IDS, f" {topic}={topic_id}: {topic_id!r} is no topic id")


def compile_filter(
    keys: tuple[str, ...], key_pattern: str | None, headers: tuple[str, ...]
) -> RecordFilter:
    """A filter from text; NAME or NAME=VALUE for headers."""
    if key_pattern is not None:
        try:
            pc.match_substring_regex(pa.array([b""], pa.binary()), key_pattern)
        except pa.ArrowInvalid as error:
            raise OptionError(f"{key_pattern!r} is no regular expression: {error}") from error
    pairs = [text.partition("=") for text in headers]
    return replace(
        RecordFilter(),
        keys=tuple(key.encode() for key in keys),
        key_pattern=key_pattern,
        headers=tuple((name.encode(), value.encode() if eq else None) for name, eq, value in pairs),
    )
