"""Which part of a log would be cleaned, and what an operator is told about the rest."""

from typing import Any

import pytest

from ottla.rules.cleaner.cleanable import (
    Cleanable,
    CleanerConfig,
    CleaningCounts,
    SegmentSize,
    explain_counts,
    find_cleanable,
    group_segments,
)

NOW = 1_000_000
# Four segments of a hundred bytes and ten offsets; the last one is active.
SEGMENTS = [
    SegmentSize(at * 10, 100, NOW - 1000 + at * 100, NOW - 910 + at * 100) for at in range(4)
]


def find(
    checkpoint: int | None = None,
    *,
    log_start: int = 0,
    stable: int = 40,
    include_active: bool = False,
    **config: float,
) -> Cleanable:
    return find_cleanable(
        SEGMENTS,
        checkpoint=checkpoint,
        log_start=log_start,
        log_end=40,
        last_stable_offset=stable,
        now=NOW,
        config=CleanerConfig(**config),  # type: ignore[arg-type]
        include_active=include_active,
    )


def causes(found: Cleanable) -> list[str]:
    return [obstacle.cause for obstacle in found.obstacles]


def test_everything_before_the_active_segment_is_dirty_at_first() -> None:
    found = find()
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 30)
    assert (found.clean_size, found.cleanable_size, found.dirty_ratio) == (0, 300, 1.0)
    assert found.is_chosen


def test_the_active_segment_can_be_included() -> None:
    assert find(include_active=True).first_uncleanable_offset == 40


@pytest.mark.parametrize(("checkpoint", "log_start"), [(41, 0), (3, 5)])
def test_a_checkpoint_outside_of_the_log_is_reset(checkpoint: int, log_start: int) -> None:
    found = find(checkpoint, log_start=log_start)
    assert found.first_dirty_offset == log_start
    assert found.checkpoint_was_reset
    assert "cleaner-offset-checkpoint" in causes(found)


@pytest.mark.parametrize(
    ("stable", "bound"), [(40, 30), (30, 30), (29, 20), (20, 20), (19, 10), (3, 0)]
)
def test_a_segment_with_an_undecided_record_is_not_cleaned(stable: int, bound: int) -> None:
    assert find(stable=stable).first_uncleanable_offset == bound


def test_the_compaction_lag_protects_young_segments() -> None:
    # Largest timestamps are 910, 810, 710 and 610 ms old.
    assert find(min_compaction_lag_ms=800).first_uncleanable_offset == 20
    assert find(min_compaction_lag_ms=1000).first_uncleanable_offset == 0
    assert find(min_compaction_lag_ms=500).first_uncleanable_offset == 30
    assert "min.compaction.lag.ms" in causes(find(min_compaction_lag_ms=800))


def test_the_dirty_ratio_must_be_exceeded() -> None:
    assert not find(20).is_chosen
    assert find(20).dirty_ratio == pytest.approx(1 / 3)
    assert "min.cleanable.dirty.ratio" in causes(find(20))
    assert not find(10, min_cleanable_dirty_ratio=2 / 3).is_chosen
    assert find(10, min_cleanable_dirty_ratio=0.66).is_chosen


def test_a_log_past_its_maximum_lag_is_chosen_whatever_its_ratio() -> None:
    # The first batches of the segments are 1000, 900, 800 and 700 ms old.
    assert find(20, max_compaction_lag_ms=799).is_chosen
    assert not find(20, max_compaction_lag_ms=800).is_chosen
    assert not find(30, max_compaction_lag_ms=0).is_chosen


def test_the_first_obstacle_is_the_one_that_holds_back_the_most() -> None:
    found = find(stable=15)
    assert found.obstacles[0].cause == "open transactions"
    assert found.obstacles[0].size == 300
    assert found.obstacles[1].cause == "active segment"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, ["active segment"], id="nothing-is-open"),
        pytest.param({"include_active": True}, [], id="the-active-segment-is-included"),
        pytest.param(
            {"include_active": True, "stable": 39}, ["open transactions"], id="the-last-is-open"
        ),
        pytest.param({"checkpoint": 30}, ["active segment"], id="nothing-is-dirty"),
    ],
)
def test_a_limit_is_named_only_if_it_holds_something_back(
    settings: dict[str, Any], expected: list[str]
) -> None:
    assert causes(find(**settings)) == expected


def test_counts_say_why_a_cleaned_log_is_large() -> None:
    counts = CleaningCounts(100, 95, 94, 2, 3, 1000, 950)
    assert [each.cause for each in explain_counts(counts)] == [
        "distinct keys",
        "records without a key",
        "tombstones",
    ]
    assert explain_counts(CleaningCounts(100, 10, 5, 0, 0, 1000, 100)) == []


def test_keys_of_which_few_records_stay_hold_nothing_back() -> None:
    assert explain_counts(CleaningCounts(200, 7, 7, 0, 0, 2000, 70)) == []


# (base, log, index, time index); what fits into 100 bytes of log and 10 of index.
GROUPS = [
    pytest.param([(0, 50, 1, 1), (1, 50, 1, 1), (2, 50, 1, 1)], [[0, 1], [2]], id="by-log-size"),
    pytest.param([(0, 1, 6, 1), (1, 1, 6, 1)], [[0], [1]], id="by-index-size"),
    pytest.param([(0, 1, 1, 6), (1, 1, 1, 6)], [[0], [1]], id="by-time-index-size"),
    pytest.param([(0, 200, 1, 1), (1, 1, 1, 1)], [[0], [1]], id="too-large-alone"),
    pytest.param([(0, 1, 0, 0), (2**31 - 2, 1, 0, 0)], [[0], [1]], id="by-offsets"),
    pytest.param([(0, 1, 0, 0), (2**31 - 2, 0, 0, 0)], [[0, 1]], id="an-empty-one-does-not-count"),
    pytest.param([(0, 1, 0, 0), (5, 1, 0, 0), (2**31, 1, 0, 0)], [[0, 1], [2]], id="the-next-base"),
]


@pytest.mark.parametrize(("sizes", "expected"), GROUPS)
def test_neighbours_become_one_segment(
    sizes: list[tuple[int, int, int, int]], expected: list[list[int]]
) -> None:
    bound = max(sizes[-1][0] + 3, 10)
    assert group_segments(sizes, bound, segment_bytes=100, index_bytes=10) == expected
