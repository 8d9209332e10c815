"""Ranges of offsets and how many tasks they make, by the rule of KafkaOffsetRangeCalculator."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.errors import OptionError
from ottla.format.names import TopicPartition

_MOST_TASKS: Final = 1_000_000  # a driver keeps each of them in memory


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition, the last exclusive; how many records there are is not known."""

    name: TopicPartition
    start: int
    stop: int

    @property
    def span(self) -> int:
        return self.stop - self.start


def split_ranges(
    ranges: Sequence[OffsetRange], *, min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Cut ranges until none spans more than `max_records` and about `min_partitions` are there."""
    divided = [
        part for whole in ranges if whole.span > 0 for part in _by_records(whole, max_records)
    ]
    if min_partitions is None or len(divided) >= min_partitions:
        return divided
    return _proportionally(divided, min_partitions)


def _by_records(whole: OffsetRange, max_records: int | None) -> Iterator[OffsetRange]:
    count = 1 if max_records is None else -(-whole.span // max_records)
    return _cut(whole, count)


def _proportionally(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Give each range tasks by its share; small ones stay whole and do not count for the others."""
    total = sum(part.span for part in ranges)
    whole = [part for part in ranges if _share(part.span, total, wanted) == 1]
    names = {part.name for part in whole}
    rest = total - sum(part.span for part in whole)
    left = max(wanted - len(whole), 1)
    counts = [1 if part.name in names else _share(part.span, rest, left) for part in ranges]
    return [
        piece for part, count in zip(ranges, counts, strict=True) for piece in _cut(part, count)
    ]


def _share(span: int, total: int, count: int) -> int:
    # Java's Math.round: halves go up, where Python's round goes to the even neighbour.
    return max(math.floor(span / total * count + 0.5), 1)


def _cut(whole: OffsetRange, count: int) -> Iterator[OffsetRange]:
    pieces = min(count, whole.span)
    if pieces > _MOST_TASKS:
        raise OptionError(
            f"{whole.name} would be cut into {pieces} tasks: minPartitions is too large, or"
            f" maxRecordsPerPartition too small; more than {_MOST_TASKS} are no use to Spark"
        )
    start = whole.start
    for part in range(pieces):
        stop = start + (whole.stop - start) // (pieces - part)
        if stop > start:
            yield OffsetRange(whole.name, start, stop)
        start = stop


def share_limit(ranges: Sequence[OffsetRange], limit: int) -> list[OffsetRange]:
    """The first `limit` offsets of ranges together, each its share.

    KafkaMicroBatchStream.rateLimit: a share below one offset is rounded up, so that no small
    partition starves beside a large one; a batch may exceed the limit by that.
    """
    total = sum(part.span for part in ranges if part.span > 0)
    if total <= limit:
        return list(ranges)
    shared = []
    for part in ranges:
        share = limit * (part.span / total)
        taken = math.ceil(share) if share < 1 else math.floor(share)
        shared.append(OffsetRange(part.name, part.start, min(part.start + taken, part.stop)))
    return shared
