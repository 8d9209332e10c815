"""What a cleaner would make of logs, in rows: an explanation and the report show the same.

A row comes from the survey of a log and from what its parts count. A log that stops a cleaner has
no counts, and neither has one whose parts nobody counted. They are 0 where nothing is cleaned.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.errors import Row
from ottla.jobs.compact.learn import Learnt
from ottla.jobs.compact.survey import Surveyed
from ottla.publish.checked import FinishedPartition
from ottla.rules.cleaner.cleanable import CleaningCounts, Obstacle, explain_counts


def explain(
    surveyed: Sequence[Surveyed], counted: Mapping[str, FinishedPartition], learnt: Learnt
) -> list[Row]:
    """For each log what would stay of it, and what keeps the rest from being cleaned."""
    rows, number = [], 0
    for each in surveyed:
        keys = [f"{each.directory}.{group.segments[0].base_offset:020d}" for group in each.groups]
        accounts = [counted[key].account for key in keys]
        numbers = range(number, number + len(keys))
        broken = [learnt.uncleanable[at] for at in numbers if at in learnt.uncleanable]
        stops = [*map(str, broken), *(row["stoppedBy"] for row in accounts if row["stoppedBy"])]
        if stops:
            rows.append(_explain_stop(each, stops[0]))
        else:
            distinct = sum(learnt.found[at].keys for at in numbers if at in learnt.found)
            rows.append(_explain_counts(each, accounts, distinct))
        number += len(keys)
    return rows


def explain_uncounted(each: Surveyed) -> Row:
    """What the headers of a log say."""
    return _row(each, None, None, each.cleanable.obstacles)


def _explain_stop(each: Surveyed, error: str) -> Row:
    stop = Obstacle("the cleaner stops", _cleaned_size(each), error)
    return _row(each, None, error, (*each.cleanable.obstacles, stop))


def _explain_counts(each: Surveyed, accounts: Sequence[Row], distinct_keys: int) -> Row:
    def total(name: str) -> int:
        return sum(row[name] for row in accounts)

    counts = CleaningCounts(
        total("readRecords"),
        total("keptRecords"),
        distinct_keys,
        total("unkeyed"),
        total("tombstones"),
        _cleaned_size(each),
        total("keptBytes"),
    )
    return _row(each, counts, None, (*each.cleanable.obstacles, *explain_counts(counts)))


def _cleaned_size(each: Surveyed) -> int:
    return sum(segment.log.size for group in each.groups for segment in group.segments)


def _row(
    each: Surveyed,
    counts: CleaningCounts | None,
    stopped_by: str | None,
    obstacles: Sequence[Obstacle],
) -> Row:
    found = each.cleanable
    cleaned, other = _cleaned_size(each), sum(segment.log.size for segment in each.rest)
    return {
        "topic": each.log.name.topic,
        "partition": each.log.name.partition,
        "bytes": cleaned + other,
        "wouldClean": found.is_chosen,
        "dirtyRatio": round(found.dirty_ratio, 3),
        "firstDirtyOffset": found.first_dirty_offset,
        "firstUncleanableOffset": found.first_uncleanable_offset,
        "lastStableOffset": each.last_stable_offset,
        "logEndOffset": each.log_end,
        "cleanedBytes": cleaned,
        "remainingBytes": None if counts is None else counts.kept_size,
        "otherBytes": other,
        "readRecords": None if counts is None else counts.read_records,
        "remainingRecords": None if counts is None else counts.kept_records,
        "distinctKeys": None if counts is None else counts.distinct_keys,
        "unkeyedRecords": None if counts is None else counts.without_key,
        "tombstones": None if counts is None else counts.tombstones,
        "stoppedBy": stopped_by,
        "obstacles": [plain_obstacle(obstacle) for obstacle in obstacles],
    }


def plain_obstacle(obstacle: Obstacle) -> dict[str, Any]:
    """An obstacle as a part of a row."""
    return {"cause": obstacle.cause, "bytes": obstacle.size, "detail": obstacle.detail}
