"""Which part of a log a broker would clean now, and why the rest does not shrink.

Mirrors LogCleanerManager (cleanableOffsets, calculateCleanableBytes, maxCompactionDelay) and
LogToClean. Configuration has Kafka's names.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.format.sentinels import INT64_MAX


class SegmentSize(NamedTuple):
    """What the choice needs to know of a segment; the last one of a log is active."""

    base_offset: int
    size: int
    first_timestamp: int
    largest_timestamp: int


class CleanerConfig(NamedTuple):
    """Topic settings, with Kafka's defaults."""

    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    delete_retention_ms: int = 86_400_000


class Obstacle(NamedTuple):
    """Something that keeps `size` bytes from being cleaned, or the log from being chosen."""

    cause: str
    size: int
    detail: str


class Cleanable(NamedTuple):
    """The range [first_dirty_offset, first_uncleanable_offset), and whether a broker cleans it.

    `checkpoint_was_reset` says that the checkpoint was outside of the log, so that all is dirty.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_size: int
    cleanable_size: int
    is_chosen: bool
    checkpoint_was_reset: bool
    obstacles: tuple[Obstacle, ...]

    @property
    def dirty_ratio(self) -> float:
        """Cleanable bytes among all that cleaning would read."""
        total = self.clean_size + self.cleanable_size
        return self.cleanable_size / total if total else 0.0


def find_cleanable(
    segments: Sequence[SegmentSize],
    *,
    checkpoint: int | None,
    log_start: int,
    log_end: int,
    last_stable_offset: int,
    now: int,
    config: CleanerConfig,
    include_active: bool = False,
) -> Cleanable:
    """What a cleaner would do with a log of at least one segment.

    `include_active` is ours: an offline log has no writer that would need its last segment. The
    last stable offset of a log without open transactions is its end.
    """
    first_dirty = log_start if checkpoint is None else checkpoint
    was_reset = not log_start <= first_dirty <= log_end
    if was_reset:
        first_dirty = log_start
    active_base = log_end if include_active else segments[-1].base_offset
    passive = segments if include_active else segments[:-1]
    young = _first_young(passive, first_dirty, now, config.min_compaction_lag_ms)
    limits = {} if include_active else {"active segment": active_base}
    if last_stable_offset < log_end:
        limits["open transactions"] = last_stable_offset
    if young is not None:
        limits["min.compaction.lag.ms"] = young
    limit = min(limits.values(), default=log_end)
    bound = _floor_base(passive, max(first_dirty, limit), active_base)
    clean = sum(segment.size for segment in _between(segments, 0, first_dirty))
    dirty = sum(segment.size for segment in _between(segments, min(first_dirty, bound), bound))
    exceeded = dirty > 0 and _is_overdue(passive, first_dirty, now, config.max_compaction_lag_ms)
    ratio = dirty / (clean + dirty) if dirty else 0.0
    chosen = exceeded or ratio > config.min_cleanable_dirty_ratio
    found = Cleanable(first_dirty, bound, clean, dirty, chosen, was_reset, ())
    return found._replace(obstacles=tuple(_obstacles(segments, limits, found, config)))


def _between(segments: Sequence[SegmentSize], start: int, stop: int) -> list[SegmentSize]:
    """Segments from the one that holds `start` to the one before `stop` (LogSegments.values)."""
    if start == stop:
        return []
    below = [segment.base_offset for segment in segments if segment.base_offset <= start]
    first = max(below, default=start)
    return [segment for segment in segments if first <= segment.base_offset < stop]


def _first_young(
    passive: Sequence[SegmentSize], first_dirty: int, now: int, lag_ms: int
) -> int | None:
    if lag_ms <= 0:
        return None
    for segment in _between(passive, first_dirty, INT64_MAX):
        if segment.largest_timestamp > now - lag_ms:
            return segment.base_offset
    return None


def _floor_base(passive: Sequence[SegmentSize], bound: int, active_base: int) -> int:
    """The base of the segment that holds the bound: a segment is cleaned whole or not at all."""
    if bound >= active_base:
        return active_base
    return max(
        (segment.base_offset for segment in passive if segment.base_offset <= bound), default=bound
    )


def _is_overdue(passive: Sequence[SegmentSize], first_dirty: int, now: int, lag_ms: int) -> bool:
    known = [
        segment.first_timestamp
        for segment in _between(passive, first_dirty, INT64_MAX)
        if segment.first_timestamp > 0
    ]
    return min(known, default=INT64_MAX) < now - max(lag_ms, 0)


def _obstacles(
    segments: Sequence[SegmentSize],
    limits: dict[str, int],
    found: Cleanable,
    config: CleanerConfig,
) -> list[Obstacle]:
    """In the order in which an operator would look at them."""
    obstacles = []
    for cause, offset in sorted(limits.items(), key=lambda item: item[1]):
        behind = sum(
            segment.size
            for segment in segments
            if segment.base_offset >= _base_of(segments, offset)
        )
        if behind:
            obstacles.append(Obstacle(cause, behind, f"nothing from offset {offset} on is cleaned"))
    if found.checkpoint_was_reset:
        detail = f"outside of the log, so that cleaning begins at {found.first_dirty_offset}"
        obstacles.append(Obstacle("cleaner-offset-checkpoint", 0, detail))
    if found.cleanable_size and not found.is_chosen:
        detail = (
            f"dirty ratio {found.dirty_ratio:.3f} is not above {config.min_cleanable_dirty_ratio}"
        )
        obstacles.append(Obstacle("min.cleanable.dirty.ratio", found.cleanable_size, detail))
    return obstacles


def _base_of(segments: Sequence[SegmentSize], offset: int) -> int:
    return max(
        (each.base_offset for each in segments if each.base_offset <= offset), default=offset
    )


class CleaningCounts(NamedTuple):
    """What a round found in the records it checked; sizes are bytes of whole batches."""

    read_records: int
    kept_records: int
    distinct_keys: int
    without_key: int
    tombstones: int
    read_size: int
    kept_size: int


def explain_counts(counts: CleaningCounts) -> list[Obstacle]:
    """Why what was cleaned is still large."""
    obstacles = []
    stays_large = counts.kept_records and 2 * counts.kept_records >= counts.read_records
    if stays_large and counts.distinct_keys >= 0.9 * counts.kept_records:
        detail = f"{counts.distinct_keys} keys in {counts.read_records} records: few repeat"
        obstacles.append(Obstacle("distinct keys", counts.kept_size, detail))
    if counts.without_key:
        obstacles.append(explain_unkeyed(counts.without_key))
    if counts.tombstones:
        detail = f"{counts.tombstones} stay until their delete horizon, and then one more round"
        obstacles.append(Obstacle("tombstones", 0, detail))
    return obstacles


def explain_unkeyed(count: int) -> Obstacle:
    """What becomes of records without a key."""
    detail = f"{count} records have none: the cleaner drops them"
    return Obstacle("records without a key", 0, detail)


def group_segments(
    sizes: Sequence[tuple[int, int, int, int]],
    first_uncleanable_offset: int,
    *,
    segment_bytes: int,
    index_bytes: int,
) -> list[list[int]]:
    """Which neighbouring segments become one (Cleaner.groupSegmentsBySize).

    Each is (base offset, log size, index size, time index size); the answer has their numbers.
    """
    groups: list[list[int]] = []
    totals = (0, 0, 0)
    bases = [base for base, *_ in sizes]
    for number, (_, *own) in enumerate(sizes):
        following = bases[number + 1] if number + 1 < len(sizes) else first_uncleanable_offset
        grown = tuple(total + size for total, size in zip(totals, own, strict=True))
        fits = (
            bool(groups)
            and grown[0] <= segment_bytes
            and max(grown[1:]) <= index_bytes
            and (own[0] == 0 or following - 1 - bases[groups[-1][0]] <= 2**31 - 1)
        )
        if fits:
            groups[-1].append(number)
            totals = (grown[0], grown[1], grown[2])
        else:
            groups.append([number])
            totals = (own[0], own[1], own[2])
    return groups
