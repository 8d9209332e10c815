"""Which remote segments are the log, offset by offset, as Kafka's comments have it. No ottla here.

A lineage is a list of (epoch, first offset). A segment has its own: dead branches have others.
"""

from typing import NamedTuple


class Made(NamedTuple):
    """A segment by number, with its offsets, its epochs and when it was uploaded."""

    number: int
    start: int
    end: int
    epochs: tuple[tuple[int, int], ...]
    event_ms: int


def epoch_at(lineage: list[tuple[int, int]], offset: int) -> int | None:
    before = [epoch for epoch, start in lineage if start <= offset]
    return before[-1] if before else None


def belongs(made: Made, lineage: list[tuple[int, int]]) -> bool:
    """Every offset of the segment was written by the leader that the lineage has for it."""
    return all(
        epoch_at(list(made.epochs), offset) == epoch_at(lineage, offset)
        for offset in range(made.start, made.end + 1)
    )


def choose(segments: list[Made], lineage: list[tuple[int, int]]) -> dict[int, int]:
    """The number of the segment that each offset is read from."""
    fit = [each for each in segments if belongs(each, lineage)]
    chosen: dict[int, int] = {}
    offset = min((each.start for each in fit), default=0)
    last = max((each.end for each in fit), default=-1)
    while offset <= last:
        covering = [each for each in fit if each.start <= offset <= each.end]
        if not covering:
            offset += 1
            continue
        best = max(covering, key=lambda each: (each.start, each.event_ms, each.end))
        chosen |= dict.fromkeys(range(offset, best.end + 1), best.number)
        offset = best.end + 1
    return chosen
