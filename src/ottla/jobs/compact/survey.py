"""What must be known of a log before it is cleaned, from its batch headers alone.

Which part a cleaner would take, which segments become one, and what a round knows of transactions
where each of them begins: with that, segments can be cleaned in any order. One task walks one log.
"""

import io
import logging
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.catalog.catalog import Catalog
from ottla.catalog.logs import Log
from ottla.errors import CorruptLogError, OptionError
from ottla.format.names import CLEANER_CHECKPOINT, Kind, TopicPartition
from ottla.format.sentinels import NO_TIMESTAMP
from ottla.jobs.verify.transactions import walk_markers
from ottla.kernels.producers.state import Markers
from ottla.kernels.tables import Batches
from ottla.log.files.checkpoints import EpochStart, follow_leader_epochs
from ottla.log.files.partition import Segment, read_checkpoint
from ottla.log.files.producer_snapshot import write_producer_snapshot
from ottla.rules.cleaner.cleanable import (
    Cleanable,
    CleanerConfig,
    SegmentSize,
    find_cleanable,
    group_segments,
)
from ottla.rules.cleaner.compaction import (
    NO_TRANSACTIONS,
    InTransaction,
    LastRecords,
    RoundTransactions,
    last_records,
)
from ottla.rules.producers.producer import DEFAULT_EXPIRATION_MS, remove_expired
from ottla.rules.producers.snapshots import to_snapshot
from ottla.rules.producers.transactions import Entries, Open, Transactions
from ottla.storage.files import open_file
from ottla.storage.object_store import StorageOptions

ALL_THAT_IS_DIRTY: Final = CleanerConfig(min_cleanable_dirty_ratio=0.0)
SURVEYED_SCHEMA: Final = pa.schema([pa.field("surveyed", pa.binary(), nullable=False)])

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """How to clean; Kafka's names and defaults, but that every log with something dirty is chosen.

    `drops_unkeyed` lets records without a key go, as Kafka's cleaner does; else they are an error.
    Fewer `hash_bits` than 64 make keys collide, which costs time and changes nothing else.
    """

    config: CleanerConfig = ALL_THAT_IS_DIRTY
    producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    split_bytes: int = 256 << 20
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    includes_active: bool = False
    drops_unkeyed: bool = False
    hash_bits: int = 64

    def __post_init__(self) -> None:
        if not 1 <= self.hash_bits <= 64:
            raise OptionError(f"{self.hash_bits} bits are no hash: 1 to 64")


class Group(NamedTuple):
    """Neighbouring segments that become one, and what a round knows before the first of them."""

    segments: tuple[Segment, ...]
    began: InTransaction


class Facts(NamedTuple):
    """What tasks must know of a log beside its bytes; the indexes of the output get `retained`."""

    aborted: Entries
    retained: Entries
    producers: LastRecords
    snapshot: bytes


class Surveyed(NamedTuple):
    """A log and what a cleaner would do with it; `rest` are the segments that it would not touch.

    `legacy_horizon` is when segments must have been written whose tombstones stay, where these are
    of an old format. `open` are the transactions that no marker ended.
    """

    log: Log
    cleanable: Cleanable
    groups: tuple[Group, ...]
    rest: tuple[Segment, ...]
    facts: Facts
    log_end: int
    epochs: tuple[EpochStart, ...]
    last_stable_offset: int
    open: Open
    legacy_horizon: int

    @property
    def directory(self) -> str:
        return self.log.partition.directory

    @property
    def bound(self) -> int:
        return self.cleanable.first_uncleanable_offset


class _Headers(NamedTuple):
    """What the batch headers of a log say, segment by segment where that matters."""

    transactions: Transactions
    sizes: list[SegmentSize]
    epochs: list[EpochStart]


@dataclass(frozen=True, slots=True)
class LogToSurvey:
    """A log with at least one segment; `checkpoint` says how far it was cleaned."""

    log: Log
    checkpoint: int | None
    now: int
    options: CompactOptions
    storage: StorageOptions

    @property
    def size(self) -> int:
        return sum(segment.log.size for segment in self.log.partition.segments)


def survey_task(part: LogToSurvey) -> Iterator[pa.RecordBatch]:
    """A row with what is known of the log."""
    data = [pickle.dumps(survey_log(part))]
    yield pa.RecordBatch.from_arrays([pa.array(data, pa.binary())], schema=SURVEYED_SCHEMA)


def read_surveyed(rows: Iterable[Mapping[str, Any]]) -> list[Surveyed]:
    """What the tasks of a job gave."""
    return [pickle.loads(row["surveyed"]) for row in rows]  # noqa: S301  from a task of this job


def read_cleaner_checkpoints(catalog: Catalog) -> dict[TopicPartition, int]:
    """How far each log was cleaned, as far as log directories say.

    Where the file is broken everything is dirty (LogCleanerManager.allCleanerCheckpoints).
    """
    found: dict[TopicPartition, int] = {}
    for directory in catalog.directories:
        try:
            found |= read_checkpoint(directory, CLEANER_CHECKPOINT, catalog.storage)
        except CorruptLogError as error:
            _LOGGER.warning("%s; nothing beside it counts as cleaned", error)
    return found


def survey_log(part: LogToSurvey) -> Surveyed:
    """Walk the headers of a log, twice where it has transactions."""
    seen = _walk_headers(part.log, part.storage)
    cleanable = _find_cleanable(part, seen)
    segments = part.log.partition.segments
    bound = cleanable.first_uncleanable_offset if cleanable.cleanable_size else 0
    cleaned = tuple(segment for segment in segments if segment.base_offset < bound)
    groups, retained = _groups(cleaned, bound, seen.transactions, part.options, part.storage)
    clean = [each for each in segments if each.base_offset < cleanable.first_dirty_offset]
    horizon = _modified(clean[-1]) - part.options.config.delete_retention_ms if clean else 0
    return Surveyed(
        part.log,
        cleanable,
        groups,
        tuple(segments[len(cleaned) :]),
        _facts(part, seen, bound, retained),
        seen.transactions.end_offset,
        tuple(seen.epochs),
        seen.transactions.last_stable_offset(),
        seen.transactions.open(),
        horizon,
    )


def _facts(part: LogToSurvey, seen: _Headers, bound: int, retained: Entries) -> Facts:
    aborted, state = seen.transactions.aborted(), seen.transactions.state
    later = aborted[aborted["last_offset"] >= bound]
    active = remove_expired(state, part.now, part.options.producer_id_expiration_ms)
    return Facts(
        aborted,
        np.concatenate([retained[retained["last_offset"] < bound], later]),
        last_records(active),
        write_producer_snapshot(to_snapshot(state)),
    )


def _find_cleanable(part: LogToSurvey, seen: _Headers) -> Cleanable:
    """Which part of a log a cleaner would take, and what keeps it from the rest."""
    return find_cleanable(
        seen.sizes,
        checkpoint=part.checkpoint,
        log_start=part.log.earliest,
        log_end=seen.transactions.end_offset,
        last_stable_offset=seen.transactions.last_stable_offset(),
        now=part.now,
        config=part.options.config,
        include_active=part.options.includes_active,
    )


def _walk_headers(log: Log, storage: StorageOptions) -> _Headers:
    """Walk the headers of a log once."""
    segments = log.partition.segments
    seen = _Headers(Transactions(end_offset=segments[0].base_offset), [], [])
    for segment in segments:
        first = largest = NO_TIMESTAMP
        seen.transactions.begin_segment(segment.base_offset)
        for batches, markers in _headers(segment, storage):
            seen.transactions.add(batches, markers)
            if not batches.position.size:
                continue
            first = int(batches.max_timestamp[0]) if largest == NO_TIMESTAMP else first
            largest = max(largest, int(batches.max_timestamp.max()))
            follow_leader_epochs(seen.epochs, batches)
        if largest == NO_TIMESTAMP:  # LogSegment.largestTimestamp
            largest = _modified(segment)
        seen.sizes.append(SegmentSize(segment.base_offset, segment.log.size, first, largest))
    return seen


def _headers(segment: Segment, storage: StorageOptions) -> Iterator[tuple[Batches, Markers]]:
    """What a walk gets hold of; the passes that open records name what it does not."""
    with open_file(segment.log, storage) as file:
        for walked, markers in walk_markers(file):
            yield walked.batches, markers


def _modified(segment: Segment) -> int:
    return segment.log.modified_ns // 1_000_000


def _groups(
    segments: Sequence[Segment],
    bound: int,
    transactions: Transactions,
    options: CompactOptions,
    storage: StorageOptions,
) -> tuple[tuple[Group, ...], Entries]:
    """Segments that become one, and the aborted transactions that their indexes still need."""
    sizes = [
        (
            segment.base_offset,
            segment.log.size,
            _side_size(segment, Kind.OFFSET_INDEX),
            _side_size(segment, Kind.TIME_INDEX),
        )
        for segment in segments
    ]
    numbers = group_segments(
        sizes, bound, segment_bytes=options.segment_bytes, index_bytes=options.segment_index_bytes
    )
    aborted = transactions.aborted()
    known = RoundTransactions(aborted)
    has_markers = transactions.completed().last_offset.size > 0
    groups = []
    for group in numbers:
        its_segments = tuple(segments[number] for number in group)
        groups.append(Group(its_segments, known.now() if has_markers else NO_TRANSACTIONS))
        for segment in its_segments if has_markers else ():
            for batches, markers in _headers(segment, storage):
                known.find_discardable(batches, markers)
    return tuple(groups), known.retained_aborted()


def _side_size(segment: Segment, kind: Kind) -> int:
    return segment.side_files[kind].size if kind in segment.side_files else 0


def write_facts(facts: Facts) -> bytes:
    """Facts as a file for tasks."""
    out = io.BytesIO()
    np.savez(
        out,
        aborted=facts.aborted,
        retained=facts.retained,
        producers=np.stack(facts.producers),
        snapshot=np.frombuffer(facts.snapshot, dtype=np.uint8),
    )
    return out.getvalue()


def read_facts(data: bytes) -> Facts:
    """Facts that a driver wrote."""
    with np.load(io.BytesIO(data), allow_pickle=False) as held:
        return Facts(
            held["aborted"],
            held["retained"],
            LastRecords(*held["producers"]),
            held["snapshot"].tobytes(),
        )
