"""How the batches of a partition follow each other: offsets, leader epochs and producers.

A fold over tables of batches in the order of the log. A batch that breaks a rule is a row; the fold
goes on from it, so that one bad batch does not condemn all that follow.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from ottla.errors import Rule, Violation
from ottla.format.arrays import Bools
from ottla.format.sentinels import INT32_MAX, INT64_MAX, NO_OFFSET, NO_PARTITION_LEADER_EPOCH
from ottla.kernels.producers.state import Completed, Markers
from ottla.kernels.tables import Batches, Int64s, take_batches
from ottla.log.files.checkpoints import EpochStart, follow_leader_epochs
from ottla.rules.producers.producer import (
    Duplicate,
    Origin,
    ProducerState,
    Refusal,
    append,
    concat_completed,
    empty_state,
)


class SegmentRange(NamedTuple):
    """The offsets that a segment may hold; NO_OFFSET and None where nothing says so."""

    file: str
    base_offset: int
    next_base_offset: int | None


@dataclass(slots=True)
class LogState:
    """What is known of a log up to some batch."""

    origin: Origin = Origin.CLIENT
    last_offset: int = NO_OFFSET
    gaps: int = 0
    missing: int = 0
    epochs: list[EpochStart] = field(default_factory=list)
    producers: ProducerState = field(default_factory=empty_state)
    completed: list[Completed] = field(default_factory=list)


def check_offsets(state: LogState, batches: Batches, segment: SegmentRange) -> Iterator[Violation]:
    """Offsets rise, lie in their segment, and are enough for the records; gaps are counted."""
    if not batches.position.size:
        return
    first = first_offsets(batches)
    before = np.concatenate([[state.last_offset], batches.last_offset[:-1]])
    falls = first <= before
    for row in np.flatnonzero(falls).tolist():
        expected = f"above {before[row]}"
        yield _broken(segment.file, batches, row, Rule.OFFSETS_RISE, str(first[row]), expected)
    known = before != NO_OFFSET
    jumps = known & (first > before + 1)
    state.gaps += int(np.count_nonzero(jumps))
    state.missing += int((first - before - 1)[jumps].sum())
    for row in np.flatnonzero(~_inside(batches, first, segment)).tolist():
        found = f"{first[row]} to {batches.last_offset[row]}"
        expected = f"{segment.base_offset} to {segment.next_base_offset or 'the end'}"
        yield _broken(segment.file, batches, row, Rule.OFFSET_IN_SEGMENT, found, expected)
    crowded = (batches.magic == 2) & (batches.count > batches.last_offset_delta + 1)
    for row in np.flatnonzero(crowded).tolist():
        expected = f"at most {batches.last_offset_delta[row] + 1}"
        found = f"{batches.count[row]} records"
        yield _broken(segment.file, batches, row, Rule.COUNT_FITS_OFFSETS, found, expected)
    yield from check_ends(batches, segment.file)
    state.last_offset = int(batches.last_offset[-1])


def first_offsets(batches: Batches) -> Int64s:
    """Where batches begin; a compressed v0 or v1 message that was not opened has only an end."""
    unknown = (batches.base_offset == NO_OFFSET) & (batches.magic < 2)
    return np.where(unknown, batches.last_offset, batches.base_offset)


def check_ends(batches: Batches, file: str) -> Iterator[Violation]:
    """After every batch there is an offset left for the log end."""
    for row in np.flatnonzero(have_no_end(batches)).tolist():
        found = str(batches.last_offset[row])
        yield _broken(file, batches, row, Rule.LOG_END, found, f"{INT64_MAX - 1} or less")


def have_no_end(batches: Batches) -> Bools:
    """Whether the offset after a batch passes 2^63-1: Kafka's sum is then below 0, as is ours."""
    wraps = (batches.base_offset > batches.last_offset) & (batches.last_offset_delta >= 0)
    found: Bools = wraps | (batches.last_offset == INT64_MAX)
    return found


def _inside(
    batches: Batches, first: Int64s, segment: SegmentRange
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if segment.base_offset == NO_OFFSET:
        return np.ones(first.size, dtype=np.bool_)
    fits = (first >= segment.base_offset) & (batches.last_offset - segment.base_offset <= INT32_MAX)
    if segment.next_base_offset is not None:
        fits &= batches.last_offset < segment.next_base_offset
    return fits


def check_leader_epochs(state: LogState, batches: Batches, file: str) -> Iterator[Violation]:
    """Leader epochs never go back; where they rise is what the checkpoint should say."""
    epochs = batches.partition_leader_epoch
    highest = follow_leader_epochs(state.epochs, batches)
    falls = (epochs > NO_PARTITION_LEADER_EPOCH) & (epochs < highest)
    for row in np.flatnonzero(falls).tolist():
        found, expected = str(epochs[row]), f"at least {highest[row]}"
        yield _broken(file, batches, row, Rule.LEADER_EPOCHS_RISE, found, expected)


def check_producers(
    state: LogState, batches: Batches, markers: Markers, file: str
) -> Iterator[Violation]:
    """Producers' epochs and sequences follow; what a broker would have refused is taken anyway."""
    row = 0
    while row < batches.position.size:
        done, stopped = append(state.producers, batches, markers, state.origin, row)
        state.completed.append(done)
        if stopped is None:
            return
        yield _producer_violation(stopped, batches, file)
        rest = slice(stopped.row, stopped.row + 1)
        its_marker = type(markers)(*(column[rest] for column in markers))
        one = take_batches(batches, rest)
        taken, _ = append(state.producers, one, its_marker, Origin.REPLICATION)
        state.completed.append(taken)
        row = stopped.row + 1


def take_completed(state: LogState) -> Completed:
    """The transactions that ended since this was asked last."""
    done = concat_completed(state.completed)
    state.completed = []
    return done


def _producer_violation(stopped: Refusal | Duplicate, batches: Batches, file: str) -> Violation:
    if isinstance(stopped, Duplicate):
        found = f"producer {batches.producer_id[stopped.row]}"
        expected = f"not again the batch at offset {stopped.batch.first_offset}"
        return _broken(file, batches, stopped.row, Rule.SEQUENCE_REPEAT, found, expected)
    rule = stopped.rule
    if rule is Rule.PRODUCER_EPOCH_FENCED:
        rule = Rule.PRODUCER_EPOCHS_RISE
    elif rule is Rule.SEQUENCE_IN_ORDER:
        ahead = int(stopped.found) > int(stopped.expected)
        rule = Rule.SEQUENCE_GAP if ahead else Rule.SEQUENCE_REPEAT
    found = f"{stopped.detail}: {stopped.found}"
    return _broken(file, batches, stopped.row, rule, found, stopped.expected)


_DETAILS: Final = {
    Rule.OFFSETS_RISE: "the batch does not begin after the one before",
    Rule.OFFSET_IN_SEGMENT: "the batch does not belong into this segment",
    Rule.COUNT_FITS_OFFSETS: "more records than offsets",
    Rule.LOG_END: "no offset is left for the log end: a broker takes it for below the log start",
    Rule.LEADER_EPOCHS_RISE: "the leader epoch goes back",
    Rule.PRODUCER_EPOCHS_RISE: "the producer epoch goes back",
    Rule.SEQUENCE_GAP: "sequences are missing, by loss or by compaction",
    Rule.SEQUENCE_REPEAT: "the sequence comes again or goes back",
}


def _broken(
    file: str, batches: Batches, row: int, rule: Rule, found: str, expected: str
) -> Violation:
    return Violation(
        rule,
        _DETAILS.get(rule, "no broker takes this"),
        file,
        position=int(batches.position[row]),
        size=int(batches.size[row]),
        offset=int(batches.base_offset[row]),
        last_offset=int(batches.last_offset[row]),
        found=found,
        expected=expected,
    )
