"""Which remote segments are the log: Kafka's rule over leader epochs, then a walk by offset.

Segments overlap: a new leader uploads offsets again, and an unclean election leaves a branch that
nobody reads any more (RemoteLogManager.isRemoteSegmentWithinLeaderEpochs, KAFKA-15168).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from ottla.log.files.checkpoints import EpochStart


class Uploaded(Protocol):
    """A segment as it was uploaded: its offsets, its own epochs, and when."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def epochs(self) -> Sequence[EpochStart]: ...

    @property
    def event_ms(self) -> int: ...

    @property
    def is_whole(self) -> bool: ...


class SegmentStep(NamedTuple):
    """The number of a segment, the offset to read it from, and that to stop at, if not its end."""

    number: int
    start: int
    stop: int | None


class ChosenSegments(NamedTuple):
    """What is read of segments, in order; and the offsets of no segment."""

    steps: list[SegmentStep]
    gaps: list[range]


def with_records(epochs: Iterable[EpochStart]) -> list[EpochStart]:
    """Epochs without those that wrote nothing: the next one begins at the same offset."""
    kept: list[EpochStart] = []
    for start in sorted(epochs):
        if kept and kept[-1].start_offset == start.start_offset:
            kept.pop()
        kept.append(start)
    return kept


def is_within(segment: Uploaded, lineage: Sequence[EpochStart]) -> bool:
    """Whether a segment is of the lineage, which is sorted and has records in every epoch."""
    own = with_records(segment.epochs)
    if not own or not lineage:
        return False
    starts = dict(lineage)
    order = [each.epoch for each in lineage]
    first_known, last = order[0], own[-1].epoch
    if not first_known <= last <= order[-1]:
        return False
    known = [each for each in own if each.epoch >= first_known]
    for number, (epoch, offset) in enumerate(known):
        if epoch not in starts:
            return False
        if number == 0 and epoch != first_known and offset < starts[epoch]:
            return False
        after = order[bisect_right(order, epoch) :][:1]
        if epoch == last:
            if after and segment.end > starts[after[0]] - 1:
                return False
        elif known[number + 1] != EpochStart(after[0], starts[after[0]]):
            return False
    return True


def walk(segments: Sequence[Uploaded], stop: int | None = None) -> ChosenSegments:
    """What to read of segments of one lineage, up to `stop` if others have the rest.

    At an offset that is the segment that begins last, then the one that was uploaded last; what
    follows is read from behind its end on. One that is not whole is read only where no whole one
    has the offset, and never past the beginning of another: its end may be wrong too.
    """
    order = sorted(range(len(segments)), key=lambda each: _rank(segments[each]))
    steps: list[SegmentStep] = []
    gaps: list[range] = []
    # Those that begin at or before the offset, in order.
    whole: list[int] = []
    broken: list[int] = []
    offset, at = (segments[order[0]].start if order else 0), 0
    while order and (stop is None or offset < stop):
        while at < len(order) and segments[order[at]].start <= offset:
            (whole if segments[order[at]].is_whole else broken).append(order[at])
            at += 1
        for held in (whole, broken):
            while held and segments[held[-1]].end < offset:
                held.pop()
        following = segments[order[at]].start if at < len(order) else stop
        if whole or broken:
            chosen = whole.pop() if whole else broken[-1]
            end = segments[chosen].end + 1
            limit = stop if segments[chosen].is_whole else following
            if limit is not None and stop is not None:
                limit = min(limit, stop)
            cut = limit if limit is not None and limit < end else None
            steps.append(SegmentStep(chosen, offset, cut))
            offset = end if cut is None else cut
        elif following is None:
            break
        else:
            gaps.append(range(offset, following if stop is None else min(following, stop)))
            offset = following
    return ChosenSegments(steps, gaps)


def _rank(segment: Uploaded) -> tuple[int, int, int]:
    return segment.start, segment.event_ms, segment.end
