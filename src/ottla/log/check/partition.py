"""Check a partition: every violation of its logs and of the files beside them, as a row."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.attributes import timestamp_types
from ottla.batch.decode import Chunk, Decoder, Piece
from ottla.batch.parts import read_headers
from ottla.errors import Rule, Stage, Violation
from ottla.format.attributes import TimestampType
from ottla.kernels.producers.state import Markers
from ottla.kernels.tables import (
    Batches,
    Int64s,
    allocate_batches,
    take_batches,
)
from ottla.log.check.control import check_control_batches
from ottla.log.check.order import (
    LogState,
    SegmentRange,
    check_leader_epochs,
    check_offsets,
    check_producers,
    take_completed,
)
from ottla.log.check.side_files import (
    check_file_names,
    check_indexes,
    check_kept_files,
    check_leader_epoch_file,
    check_orphans,
    check_partition_metadata,
    check_snapshot,
    check_swaps,
)
from ottla.log.files.index_file import Landmarks, concat_landmarks, landmarks_of
from ottla.log.files.partition import Partition, Segment
from ottla.log.read.windows import Window
from ottla.rules.producers.producer import Origin, no_markers
from ottla.rules.producers.transactions import read_markers
from ottla.storage.files import File
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions

_COORDINATOR_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})


class Seen(NamedTuple):
    """What some bytes of a segment say by themselves: violations, and its sound batches."""

    violations: list[Violation]
    batches: Batches
    markers: Markers
    records: int


def check_seen(
    partition: Partition,
    segments: Iterable[Iterable[Seen]],
    options: StorageOptions = DEFAULT_OPTIONS,
) -> Iterator[Violation]:
    """The violations of a partition from what its segments, each in order, say by themselves."""
    name = partition.name
    for violation in _check(partition, segments, options):
        yield replace(violation, topic=name.topic, partition=name.partition)


def _check(
    partition: Partition, segments: Iterable[Iterable[Seen]], options: StorageOptions
) -> Iterator[Violation]:
    state = LogState()
    if partition.name.topic in _COORDINATOR_TOPICS:
        state.origin = Origin.COORDINATOR  # its appends carry no sequences of its own
    first_base = partition.segments[0].base_offset if partition.segments else 0
    for index, (segment, seen) in enumerate(zip(partition.segments, segments, strict=True)):
        yield from check_snapshot(segment, state.producers, first_base, options)
        span = SegmentRange(
            segment.log.path, segment.base_offset, partition.next_base_offset(index)
        )
        yield from _check_segment(segment, seen, span, state, options)
    yield from check_leader_epoch_file(partition, state.epochs, options)
    yield from check_partition_metadata(partition, options)
    yield from check_kept_files(partition, options)
    yield from check_file_names(partition)
    yield from check_swaps(partition)
    yield from check_orphans(partition, state, first_base, options)


def _check_segment(
    segment: Segment,
    seen: Iterable[Seen],
    span: SegmentRange,
    state: LogState,
    options: StorageOptions,
) -> Iterator[Violation]:
    tables: list[Landmarks] = []
    gaps, missing = state.gaps, state.missing
    for part in seen:
        violations = list(part.violations)
        violations += check_offsets(state, part.batches, span)
        violations += check_leader_epochs(state, part.batches, span.file)
        violations += check_producers(state, part.batches, part.markers, span.file)
        yield from sorted(violations, key=lambda violation: violation.position)
        tables.append(landmarks_of(part.batches))
    if state.gaps > gaps:
        yield _gaps(segment, state.gaps - gaps, state.missing - missing)
    batches = concat_landmarks(tables)
    yield from check_indexes(segment, batches, take_completed(state), options)


def see_window(window: Window, decoder: Decoder | None) -> Seen:
    """What a window says by itself; without a decoder, what its headers and CRCs say."""
    chunks: list[Chunk] = []
    if decoder is None:
        broken = read_headers(window.region, window.batches, check_crcs=True).broken
        records = int(window.batches.count[window.batches.count > 0].sum())
    else:
        pieces = [*decoder.decode(window.region, window.batches), Piece(decoder.flush(), [])]
        chunks = [piece.chunk for piece in pieces if piece.chunk is not None]
        broken = [bad for piece in pieces for bad in piece.broken]
        records = sum(chunk.count for chunk in chunks)
    violations = [bad.violation for bad in broken]
    whole = [bad.row for bad in broken if bad.violation.rule.stage is not Stage.RECORD]
    sound = np.ones(window.batches.position.size, dtype=np.bool_)
    sound[whole] = False
    batches = take_batches(window.batches, sound)
    markers = read_markers(window.region, batches)
    if decoder is not None:
        violations += _check_timestamps(chunks, batches, window.region.path)
        limit = decoder.max_batch_bytes
        violations += check_control_batches(window.region, batches, markers, limit)
    if window.violation is not None:
        violations.append(window.violation)
    return Seen(violations, batches, markers, records)


def see_tail(file: File, window: Window | None) -> Seen:
    """What is left after the last window: the beginning of a batch, if anything."""
    violations = []
    if window is not None and window.violation is None and window.stop < file.size:
        violations.append(
            Violation(
                Rule.LOG_TAIL,
                "the file ends inside a batch",
                file.path,
                position=window.stop,
                size=file.size - window.stop,
            )
        )
    return Seen(violations, allocate_batches(0), no_markers(0), 0)


def _gaps(segment: Segment, count: int, missing: int) -> Violation:
    return Violation(
        Rule.OFFSET_GAP,
        "offsets are missing between batches, by compaction or by loss",
        segment.log.path,
        position=0,
        found=f"{missing} offsets in {count} gaps",
    )


def _check_timestamps(chunks: Sequence[Chunk], batches: Batches, file: str) -> Iterator[Violation]:
    """The greatest timestamp that a batch states is that of its records."""
    newest = _newest_timestamps(chunks, batches.position)
    stated = timestamp_types(batches) == TimestampType.CREATE_TIME
    wrong = stated & (newest != np.iinfo(np.int64).min) & (newest != batches.max_timestamp)
    for row in np.flatnonzero(wrong).tolist():
        yield Violation(
            Rule.MAX_TIMESTAMP,
            "the greatest timestamp is not that of the records",
            file,
            position=int(batches.position[row]),
            size=int(batches.size[row]),
            offset=int(batches.base_offset[row]),
            last_offset=int(batches.last_offset[row]),
            found=str(batches.max_timestamp[row]),
            expected=str(newest[row]),
        )


def _newest_timestamps(chunks: Iterable[Chunk], positions: Int64s) -> Int64s:
    """The greatest timestamp of the records of each batch; a batch may be in several chunks."""
    newest = np.full(positions.size, np.iinfo(np.int64).min, dtype=np.int64)
    for chunk in chunks:
        counts = np.concatenate([its for _, its in chunk.pieces])
        origins = np.concatenate([batches.position for batches, _ in chunk.pieces])[counts > 0]
        starts = (np.cumsum(counts) - counts)[counts > 0]
        greatest = np.maximum.reduceat(chunk.buffers.timestamp[: chunk.count], starts)
        rows = np.searchsorted(positions, origins)
        inside = rows < positions.size
        np.maximum.at(newest, rows[inside], greatest[inside])
    return newest
