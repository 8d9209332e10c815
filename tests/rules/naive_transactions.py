"""What a log of transactions means, found by looking at all of it for every question."""

import heapq
from typing import NamedTuple


class Event(NamedTuple):
    """One batch; `marker` is None for data, else 0 for abort and 1 for commit."""

    producer_id: int
    first: int
    last: int
    transactional: bool
    marker: int | None


def outcome(events: list[Event], at: int) -> str:
    """What became of a data batch: the producer's next marker says."""
    if not events[at].transactional:
        return "committed"
    for later in events[at + 1 :]:
        if later.producer_id == events[at].producer_id and later.marker is not None:
            return "committed" if later.marker else "aborted"
    return "open"


def transactions(events: list[Event]) -> list[tuple[int, int, int | None, int | None]]:
    """(producer, first offset, marker offset, marker) of all that wrote something."""
    found = []
    for at, event in enumerate(events):
        if event.marker is not None or not event.transactional:
            continue
        before = [other for other in events[:at] if other.producer_id == event.producer_id]
        transactional = [other for other in before if other.transactional]
        if transactional and transactional[-1].marker is None:
            continue
        ends = [
            other
            for other in events[at:]
            if other.producer_id == event.producer_id and other.marker is not None
        ]
        end = ends[0] if ends else None
        found.append(
            (
                event.producer_id,
                event.first,
                end.first if end else None,
                end.marker if end else None,
            )
        )
    return found


def aborted(events: list[Event]) -> list[tuple[int, int, int, int]]:
    """(producer, first offset, marker offset, last stable offset) in order of the markers."""
    known = transactions(events)
    found = []
    for producer_id, first, last, kind in known:
        if last is None or kind != 0:
            continue
        still_open = [
            other_first
            for other, other_first, other_last, _ in known
            if other != producer_id
            and other_first < last
            and (other_last is None or other_last > last)
        ]
        found.append((producer_id, first, last, min(still_open, default=last + 1)))
    return sorted(found, key=lambda row: row[2])


def last_stable_offset(events: list[Event], high_watermark: int) -> int:
    """Up to where everything is decided and replicated."""
    unstable = [
        first
        for _, first, last, _ in transactions(events)
        if last is None or last >= high_watermark
    ]
    return min([high_watermark, *unstable])


def consume(events: list[Event], aborted_list: list[tuple[int, int]]) -> list[bool]:
    """Which batches a read_committed consumer gives, told only (producer, first offset).

    The way CompletedFetch works: a heap of aborted transactions, a set of producers in one.
    """
    heap = [(first, producer_id) for producer_id, first in aborted_list]
    heapq.heapify(heap)
    inside: set[int] = set()
    given = []
    for event in events:
        if event.producer_id >= 0:
            while heap and heap[0][0] <= event.last:
                inside.add(heapq.heappop(heap)[1])
            if event.marker == 0:
                inside.discard(event.producer_id)
        skipped = event.transactional and event.producer_id in inside
        given.append(event.marker is None and not skipped)
    return given
