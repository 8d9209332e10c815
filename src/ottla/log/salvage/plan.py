"""Save what can be saved of a damaged partition, and account for every other byte.

A broker truncates at the first bad batch. Here every intact batch is found, wherever it lies, and
the chain of them with rising offsets that has the most bytes is kept, byte for byte. All else is
quarantined with the rule that it breaks: kept and quarantined together are the input.

What is decided of a segment is worked out again, piece by piece, whenever it is asked for: a plan
holds a byte for each batch that could be kept, and no more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from ottla.errors import Rule, Violation
from ottla.format.arrays import Bools
from ottla.kernels.search.salvage import Intact
from ottla.log.files.partition import Partition, Segment
from ottla.log.salvage.chain import choose_chain
from ottla.log.salvage.found import (
    BACKWARDS,
    EMBEDDED,
    OUTSIDE,
    UNREADABLE,
    USABLE,
    FoundBatches,
    concat_rows,
    starts_of,
    take_rows,
)

_DETAILS: Final = {
    USABLE: "it does not follow the batches around it",
    EMBEDDED: "a batch inside the value of a record",
    BACKWARDS: "a wrapper: its own offset is below those of its messages",
    OUTSIDE: "an offset below the segment's base {base_offset}, or the last of all",
}


class PlanPiece(NamedTuple):
    """Some batches that are kept, and a violation for each span before and between them."""

    kept: Intact
    left_out: Sequence[Violation]


class _Reached(NamedTuple):
    """How far pieces have come: a position, and the last offset that was kept."""

    position: int
    last_offset: int | None


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """What is kept of a segment, and a violation for each span that is not, in order.

    `keep` says which of the usable rows are kept. `last_before` is the last offset that is kept of
    segments before, and `last_kept` of this one or them. `first_from` has the first offset that is
    kept from each piece of the rows on, and at its end from the next segment on.
    """

    segment: Segment
    found: FoundBatches
    keep: Bools
    last_before: int | None
    last_kept: int | None
    first_from: Sequence[int | None]

    def pieces(self) -> Iterator[PlanPiece]:
        """Piece by piece; the last one has what lies behind all batches."""
        reached = _Reached(0, self.last_before)
        taken = 0
        for (rows, violations), first_behind in zip(
            self.found.pieces(), self.first_from[1:], strict=True
        ):
            mask, used = _chosen(rows, self.keep[taken:])
            taken += used
            left_out = _leave_out(self.segment, rows, mask, reached, first_behind, violations)
            kept = take_rows(rows, mask)
            yield PlanPiece(kept, list(left_out))
            last = int(kept.last_offset[-1]) if kept.position.size else reached.last_offset
            reached = _Reached(int(rows.position[-1]) + int(rows.size[-1]), last)
        log = self.segment.log
        if reached.position < log.size:
            tail = _garbage(
                log.path, reached.position, log.size, reached.last_offset, self.first_from[-1]
            )
            yield PlanPiece(concat_rows([]), [tail])


def plan_from(
    partition: Partition, found: Sequence[FoundBatches], scratch: str | None = None
) -> list[SegmentPlan]:
    """Decide for every byte from the intact batches of each segment.

    `scratch` is a folder for what is worked out on the way.
    """
    keep = choose_chain(found, scratch)
    plans: list[SegmentPlan] = []
    last: int | None = None
    for segment, one in zip(partition.segments, found, strict=True):
        plan = _outline(segment, one, keep, last)
        plans.append(plan)
        last = plan.last_kept
        keep = keep[plan.keep.size :]
    first: int | None = None
    for index in reversed(range(len(plans))):
        firsts = [*plans[index].first_from, first]
        for piece in reversed(range(len(firsts) - 1)):
            firsts[piece] = firsts[piece + 1] if firsts[piece] is None else firsts[piece]
        plans[index] = replace(plans[index], first_from=firsts)
        first = firsts[0]
    return plans


def _outline(
    segment: Segment, found: FoundBatches, keep: Bools, last_before: int | None
) -> SegmentPlan:
    """A plan with the first offset kept in each piece; `keep` is of this segment and later ones."""
    last, taken = last_before, 0
    firsts: list[int | None] = []
    for rows in found.rows():
        mask, used = _chosen(rows, keep[taken:])
        taken += used
        kept = take_rows(rows, mask)
        firsts.append(int(starts_of(kept)[0]) if kept.position.size else None)
        last = int(kept.last_offset[-1]) if kept.position.size else last
    return SegmentPlan(segment, found, keep[:taken], last_before, last, firsts)


def _chosen(rows: Intact, keep: Bools) -> tuple[Bools, int]:
    """Which rows are kept, and how many are usable: for so many, `keep` says it at its front."""
    mask = rows.verdict == USABLE
    usable = int(np.count_nonzero(mask))
    mask[mask] = keep[:usable]
    return mask, usable


def _leave_out(
    segment: Segment,
    rows: Intact,
    mask: Bools,
    reached: _Reached,
    first_behind: int | None,
    violations: Sequence[Violation],
) -> Iterator[Violation]:
    """A violation for every span up to the last row that is not kept, in order of position."""
    ends = np.concatenate([[reached.position], rows.position + rows.size])
    has_gap = rows.position > ends[:-1]
    kept = np.flatnonzero(mask)
    firsts = [*starts_of(rows)[kept].tolist(), first_behind]
    unreadable = iter(violations)
    lasts = [reached.last_offset, *rows.last_offset[kept].tolist()]
    for row in np.flatnonzero(has_gap | ~mask).tolist():
        if has_gap[row]:
            following = int(np.searchsorted(kept, row))
            begin, stop = int(ends[row]), int(rows.position[row])
            yield _garbage(segment.log.path, begin, stop, lasts[following], firsts[following])
        if rows.verdict[row] == UNREADABLE:
            yield next(unreadable)
        elif not mask[row]:
            yield _misplaced(segment, rows, row)


def _garbage(path: str, at: int, stop: int, last: int | None, first: int | None) -> Violation:
    """Bytes between the batches with those offsets, of which all between are lost."""
    lost = last is not None and first is not None and first > last + 1
    return Violation(
        Rule.BYTES_ARE_BATCHES,
        "no batch with a matching CRC begins here",
        path,
        position=at,
        size=stop - at,
        offset=last + 1 if lost and last is not None else None,
        last_offset=first - 1 if lost and first is not None else None,
    )


def _misplaced(segment: Segment, rows: Intact, row: int) -> Violation:
    detail = _DETAILS[int(rows.verdict[row])].format(base_offset=segment.base_offset)
    return Violation(
        Rule.BATCH_IN_ORDER,
        detail,
        segment.log.path,
        position=int(rows.position[row]),
        size=int(rows.size[row]),
        offset=int(rows.base_offset[row]),
        last_offset=int(rows.last_offset[row]),
    )
