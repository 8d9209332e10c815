"""Many appends in one call: each batch of a window by itself, with the outcomes of `append`.

Batches in which nothing is wrong are decoded, stored and given their offsets together. All others,
and windows with messages of magic 0 or 1 among them, go through `append` of `accept.py` one by one,
which alone knows the order of checks and what they say. Producers are checked here too, because an
append that they refuse takes no offsets.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ottla.batch.attributes import codec_ids, is_control
from ottla.batch.decode import Decoder
from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.batch.records import Decoded, decode_groups, take_records
from ottla.errors import CorruptLogError
from ottla.format.arrays import Bools
from ottla.format.sentinels import NO_PRODUCER_ID, NO_TIMESTAMP
from ottla.kernels.records.append import (
    KEPT,
    REENCODED,
    HeaderVerdicts,
    RecordVerdicts,
    assign_offsets,
)
from ottla.kernels.tables import Batches, Int64s, take_batches
from ottla.region import PADDING, Bytes, Region, padded
from ottla.rules.append.accept import Accepted, Refused, append
from ottla.rules.append.checks import ASSIGNS_OFFSETS, AppendPolicy
from ottla.rules.append.records import EVERYTHING, AppendDecoders, validate_appends, wanted_in_place
from ottla.rules.append.stored import (
    encode_anew,
    is_append_time,
    stamp_times,
    time_index_entries,
)
from ottla.rules.producers.producer import Duplicate, Origin, ProducerState, Refusal, no_markers
from ottla.rules.producers.producer import append as append_producers
from ottla.rules.producers.transactions import read_markers


@dataclass(slots=True)
class LogEnd:
    """Where a log ends and what it knows of producers; every append that is taken changes both."""

    next_offset: int
    producers: ProducerState


@dataclass(frozen=True, slots=True)
class Appends:
    """Who appends, when, and under which settings; with memory that serves all appends."""

    now: int
    origin: Origin
    policy: AppendPolicy
    alone: AppendDecoders = field(default_factory=AppendDecoders)
    together: AppendDecoders = field(default_factory=AppendDecoders)


class Taken(NamedTuple):
    """Appends that were taken one after another, a row for each, as `data` holds them now."""

    data: Bytes
    batches: Batches
    newest: Int64s
    compressed: Bools
    was_encoded: bool
    appends: Appends

    def one(self, row: int) -> Accepted:
        """One of the appends, in bytes of its own."""
        batches = take_batches(self.batches, np.array([row]))
        first, last = int(batches.base_offset[0]), int(batches.last_offset[0])
        start, size = int(batches.position[0]), int(batches.size[0])
        batches.position[0] = 0
        now, policy = self.appends.now, self.appends.policy
        newest, compressed = self.newest[row : row + 1], self.compressed[row : row + 1]
        largest, offset_of_largest = time_index_entries(batches, newest, compressed, now, policy)
        return Accepted(
            self.data[start : start + size].copy(),
            batches,
            first,
            last,
            int(largest[0]),
            int(offset_of_largest[0]),
            now if is_append_time(policy) else NO_TIMESTAMP,
            self.was_encoded,
        )


_RUN = 512  # batches whose offsets change when a producer is refused before them

Outcome = Taken | Accepted | Refused | Refusal | Duplicate


def append_each(
    end: LogEnd, region: Region, batches: Batches, appends: Appends
) -> Iterator[Outcome]:
    """Append the batches of a window one after another.

    The outcomes are in the order of the batches: a `Taken` is that of as many as it has rows, every
    other that of one. Each changes `end` when it is asked for, and must be used before the next.
    Bytes that stay are changed where they are, in the region, as LogValidator changes a request's.
    """
    at = 0
    for first, stored in _store(region, batches, appends):
        for row in range(at, first):
            yield _append_alone(end, region, batches, row, appends)
        for run in _runs(stored):
            yield from _take(end, run, appends)
        at = first + stored.rows.size
    for row in range(at, batches.position.size):
        yield _append_alone(end, region, batches, row, appends)


def _append_alone(
    end: LogEnd, region: Region, batches: Batches, row: int, appends: Appends
) -> Accepted | Refused | Refusal | Duplicate:
    """One batch through `append`, and its producer."""
    done = append(
        *_alone(region, batches, row),
        next_offset=end.next_offset,
        now=appends.now,
        origin=appends.origin,
        policy=appends.policy,
        decoders=appends.alone,
    )
    if isinstance(done, Refused):
        return done
    stopped = _append_producers(end, padded(done.data.tobytes()), done.batches, appends)
    if stopped is not None:
        return stopped
    end.next_offset = done.last_offset + 1
    return done


def _alone(region: Region, batches: Batches, row: int) -> tuple[Region, Batches]:
    """One batch as an append of its own."""
    alone = take_batches(batches, slice(row, row + 1))
    begin, size = int(alone.position[0]) - region.position, int(alone.size[0])
    data = region.data[begin : begin + size + PADDING]
    return Region(data, size, region.path, int(alone.position[0])), alone


def _append_producers(
    end: LogEnd, data: Bytes, batches: Batches, appends: Appends
) -> Refusal | Duplicate | None:
    """Tell the producers of batches with their offsets; at which one that stopped, and why."""
    if np.count_nonzero(batches.producer_id > NO_PRODUCER_ID) == 0:
        return None
    markers = no_markers(batches.position.size)
    if is_control(batches).any():
        markers = read_markers(Region(data, data.size - PADDING, "", 0), batches)
    return append_producers(end.producers, batches, markers, appends.origin).stopped


class _Stored(NamedTuple):
    """Batches as they are stored but for their offsets; rows[b] records are of batch b."""

    data: Bytes
    batches: Batches
    rows: Int64s
    newest: Int64s
    compressed: Bools
    was_encoded: bool


def _slice(stored: _Stored, rows: slice) -> _Stored:
    data, batches, counts, newest, compressed, was_encoded = stored
    part = take_batches(batches, rows)
    return _Stored(data, part, counts[rows], newest[rows], compressed[rows], was_encoded)


def _runs(stored: _Stored) -> list[_Stored]:
    count = stored.rows.size
    if count <= _RUN:
        return [stored]
    return [_slice(stored, slice(first, first + _RUN)) for first in range(0, count, _RUN)]


def _take(end: LogEnd, stored: _Stored, appends: Appends) -> Iterator[Taken | Refusal | Duplicate]:
    """Give offsets to batches until a producer is refused, and go on after that one."""
    while stored.rows.size:
        data, batches, rows, newest, compressed, was_encoded = stored
        assign_offsets(data, batches, rows, end.next_offset, appends.policy.leader_epoch)
        stopped = _append_producers(end, data, batches, appends)
        if stopped is None:
            end.next_offset = int(batches.last_offset[-1]) + 1
            yield Taken(data, batches, newest, compressed, was_encoded, appends)
            return
        if stopped.row:
            taken = _slice(stored, slice(0, stopped.row))
            end.next_offset = int(taken.batches.last_offset[-1]) + 1
            yield Taken(data, taken.batches, taken.newest, taken.compressed, was_encoded, appends)
        yield stopped._replace(row=0)
        stored = _slice(stored, slice(stopped.row + 1, None))


_Part = tuple[Int64s, _Stored]  # which batches of a group, and what is stored of them


def _store(region: Region, batches: Batches, appends: Appends) -> Iterator[tuple[int, _Stored]]:
    """What is stored of batches in which nothing is wrong: neighbours, and the first one's row."""
    now, policy = appends.now, appends.policy
    has_old = policy.magic != CURRENT_MAGIC or np.count_nonzero(batches.magic != CURRENT_MAGIC)
    if appends.origin not in ASSIGNS_OFFSETS or has_old:
        return
    for span, decoded, _ in decode_groups(_decoder(batches, appends), region, batches):
        whole = decoded.rows.size == batches.position.size
        group = batches if whole else take_batches(batches, span)
        headers, seen = validate_appends(group, decoded, now, appends.origin, policy)
        kept = _keep(region, group, headers, decoded.rows, seen, appends)
        made = _make(group, decoded, seen, appends)
        yield from _in_order(span.start, kept + made)


def _decoder(batches: Batches, appends: Appends) -> Decoder:
    """One that gives what is needed, be it more than some of the batches need."""
    codec = appends.policy.compression_type
    if codec is None or (codec_ids(batches) == codec).all():
        return appends.together[wanted_in_place(appends.policy)]
    return appends.together[EVERYTHING]


def _keep(
    region: Region,
    group: Batches,
    headers: HeaderVerdicts,
    counts: Int64s,
    seen: RecordVerdicts,
    appends: Appends,
) -> list[_Part]:
    """Batches whose bytes stay, if any."""
    (rows,) = np.nonzero(seen.fate == KEPT)
    if not rows.size:
        return []
    batches, newest = take_batches(group, rows), seen.newest[rows]
    batches.position[:] -= region.position
    stamp_times(region.data, batches, newest, appends.now, appends.policy)
    compressed = headers.compressed[rows]
    part = _Stored(region.data, batches, counts[rows], newest, compressed, was_encoded=False)
    return [(rows, part)]


def _make(group: Batches, decoded: Decoded, seen: RecordVerdicts, appends: Appends) -> list[_Part]:
    """Batches that are encoded anew; none of them if one can not be: `append` says which."""
    now, policy = appends.now, appends.policy
    target = policy.compression_type
    if target is None:  # a producer's own codec never needs new bytes
        return []
    chosen = seen.fate == REENCODED
    rows = np.flatnonzero(chosen)
    if not rows.size:
        return []
    records, counts = decoded.records, decoded.rows[rows]
    if not chosen.all():
        records = take_records(records, np.flatnonzero(np.repeat(chosen, decoded.rows)))
    table = take_batches(group, rows)
    try:
        data, batches = encode_anew(table, counts, records, int(target), now, policy)
    except CorruptLogError:
        return []
    fits = np.flatnonzero(batches.size <= min(policy.max_message_bytes, policy.segment_bytes))
    if not fits.size:
        return []
    batches, newest = take_batches(batches, fits), seen.newest[rows[fits]]
    # Only of bytes that stay the codec matters to the time index.
    compressed = np.zeros(fits.size, dtype=np.bool_)
    part = _Stored(data, batches, counts[fits], newest, compressed, was_encoded=True)
    return [(rows[fits], part)]


def _in_order(origin: int, parts: list[_Part]) -> Iterator[tuple[int, _Stored]]:
    """Neighbours of one part, and the row of their first; the group's own first is `origin`."""
    if len(parts) == 1 and parts[0][0][-1] + 1 == parts[0][0].size:
        yield origin, parts[0][1]
        return
    rows = np.concatenate([rows for rows, _ in parts] or [np.zeros(0, dtype=np.int64)])
    part_of = np.repeat(np.arange(len(parts)), [rows.size for rows, _ in parts])
    order = np.argsort(rows)
    follows = (np.diff(rows[order]) == 1) & (np.diff(part_of[order]) == 0)
    begins = np.flatnonzero(np.append(True, ~follows)[: rows.size])
    taken = [0] * len(parts)
    for first, stop in pairwise([*begins.tolist(), rows.size]):
        which = int(part_of[order[first]])
        begin = taken[which]
        taken[which] += stop - first
        yield origin + int(rows[order[first]]), _slice(parts[which][1], slice(begin, taken[which]))
