"""Ranges into tasks; the cases are those of Spark's KafkaOffsetRangeCalculatorSuite."""

from itertools import pairwise

import pytest

from ottla.catalog.ranges import OffsetRange, share_limit, split_ranges
from ottla.errors import OptionError
from ottla.format.names import TopicPartition

Bounds = list[tuple[int, int, int]]  # which partition, first offset, end offset


def ranges(bounds: Bounds) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition(f"t{name}", 1), start, stop) for name, start, stop in bounds]


def steps(name: int, *edges: int) -> Bounds:
    return [(name, start, stop) for start, stop in pairwise(edges)]


def test_a_count_that_no_driver_could_hold_is_refused() -> None:
    with pytest.raises(OptionError, match="t1-1 would be cut into"):
        split_ranges(ranges([(1, 0, 2**62)]), min_partitions=2**62, max_records=None)
    pieces = split_ranges(ranges([(1, 0, 3)]), min_partitions=2**62, max_records=None)
    assert [piece.span for piece in pieces] == [1, 1, 1]


BY_COUNT = [
    pytest.param(None, [(1, 1, 2)], [(1, 1, 2)], id="no-minimum"),
    pytest.param(None, [(1, 1, 2), (2, 1, 1)], [(1, 1, 2)], id="empty-ranges-are-dropped"),
    pytest.param(None, [(1, 5, 2)], [], id="inverted-ranges-are-dropped"),
    pytest.param(3, [], [], id="nothing-to-split"),
    pytest.param(
        3,
        [(1, 1, 2), (2, 1, 2), (3, 1, 2)],
        [(1, 1, 2), (2, 1, 2), (3, 1, 2)],
        id="as-many-as-wanted",
    ),
    pytest.param(4, [(1, 1, 5)], steps(1, 1, 2, 3, 4, 5), id="one-to-four"),
    pytest.param(4, [(1, 1, 5), (2, 1, 21)], [(1, 1, 5), *steps(2, 1, 7, 14, 21)], id="skewed"),
    pytest.param(
        4, [(1, 1, 1), (2, 1, 21)], steps(2, 1, 6, 11, 16, 21), id="SPARK-30656-empty-ranges"
    ),
    pytest.param(
        4,
        [(1, 1, 2), (2, 1, 1001)],
        [(1, 1, 2), *steps(2, 1, 334, 667, 1001)],
        id="SPARK-30656-very-skewed",
    ),
    pytest.param(
        1, [(1, 1, 5), (2, 1, 21)], [(1, 1, 5), (2, 1, 21)], id="SPARK-30656-fewer-than-partitions"
    ),
    pytest.param(3, [(1, 1, 11)], steps(1, 1, 4, 7, 11), id="inexact-multiple"),
    pytest.param(
        4,
        [(1, 1, 5), (2, 1, 21), (3, 1, 1)],
        [(1, 1, 5), *steps(2, 1, 7, 14, 21)],
        id="empty-ranges-among-others",
    ),
    pytest.param(
        6,
        [(1, 0, 10), (2, 0, 10), (3, 0, 1)],
        [*steps(1, 0, 3, 6, 10), *steps(2, 0, 3, 6, 10), (3, 0, 1)],
        id="SPARK-28489-never-drop-offsets",
    ),
    pytest.param(
        9,
        [(1, 0, 10000), (2, 0, 15000), (3, 0, 20000)],
        [
            *steps(1, 0, 5000, 10000),
            *steps(2, 0, 5000, 10000, 15000),
            *steps(3, 0, 5000, 10000, 15000, 20000),
        ],
        id="SPARK-36576-three-large",
    ),
    pytest.param(
        6,
        [(1, 0, 500), (2, 0, 12000), (3, 0, 15001)],
        [(1, 0, 500), *steps(2, 0, 6000, 12000), *steps(3, 0, 5000, 10000, 15001)],
        id="SPARK-36576-one-small",
    ),
    pytest.param(
        6,
        [(1, 0, 1), (2, 0, 1), (3, 0, 10000)],
        [(1, 0, 1), (2, 0, 1), *steps(3, 0, 2500, 5000, 7500, 10000)],
        id="SPARK-36576-two-small",
    ),
    pytest.param(
        4,
        [(1, 0, 1), (2, 0, 1), (3, 0, 2)],
        [(1, 0, 1), (2, 0, 1), *steps(3, 0, 1, 2)],
        id="SPARK-46798",
    ),
    pytest.param(
        3,
        [(1, 0, 1), (2, 0, 1), (3, 0, 1)],
        [(1, 0, 1), (2, 0, 1), (3, 0, 1)],
        id="SPARK-46798-unsplit",
    ),
]


@pytest.mark.parametrize(("minimum", "given", "expected"), BY_COUNT)
def test_ranges_are_split_to_a_number_of_tasks(
    minimum: int | None, given: Bounds, expected: Bounds
) -> None:
    assert split_ranges(ranges(given), min_partitions=minimum, max_records=None) == ranges(expected)


BY_RECORDS = [
    pytest.param(None, 4, [(1, 0, 10)], steps(1, 0, 3, 6, 10), id="even-pieces"),
    pytest.param(
        None, 4, [(1, 0, 4), (2, 0, 5)], [(1, 0, 4), *steps(2, 0, 2, 5)], id="only-what-is-too-long"
    ),
    pytest.param(None, 4, [(1, 1, 5)], [(1, 1, 5)], id="SPARK-49259-just-short-enough"),
    pytest.param(None, 4, [(1, 1, 2)], [(1, 1, 2)], id="SPARK-49259-short"),
    pytest.param(None, 4, [(1, 1, 6)], steps(1, 1, 3, 6), id="SPARK-49259-one-too-long"),
    pytest.param(
        None,
        20,
        [(1, 1, 40), (2, 1, 50), (3, 1, 60)],
        [*steps(1, 1, 20, 40), *steps(2, 1, 17, 33, 50), *steps(3, 1, 20, 40, 60)],
        id="SPARK-49259-several-partitions",
    ),
    pytest.param(1, 20, [(1, 1, 40)], steps(1, 1, 20, 40), id="SPARK-49259-low-minimum"),
    pytest.param(4, 20, [(1, 1, 40)], steps(1, 1, 10, 20, 30, 40), id="SPARK-49259-high-minimum"),
    pytest.param(2, 4, [(1, 0, 10)], steps(1, 0, 3, 6, 10), id="SPARK-49259-already-enough"),
    pytest.param(
        6, 5, [(1, 0, 10)], steps(1, 0, 1, 3, 5, 6, 8, 10), id="SPARK-49259-and-more-are-wanted"
    ),
]


@pytest.mark.parametrize(("minimum", "most", "given", "expected"), BY_RECORDS)
def test_ranges_are_split_to_a_number_of_records(
    minimum: int | None, most: int, given: Bounds, expected: Bounds
) -> None:
    assert split_ranges(ranges(given), min_partitions=minimum, max_records=most) == ranges(expected)


LIMITS = [
    pytest.param(10, [(1, 0, 4), (2, 0, 6)], [(1, 0, 4), (2, 0, 6)], id="all-fit"),
    pytest.param(10, [(1, 0, 100), (2, 5, 105)], [(1, 0, 5), (2, 5, 10)], id="equal-shares"),
    pytest.param(
        10, [(1, 0, 1), (2, 0, 999)], [(1, 0, 1), (2, 0, 9)], id="a-small-one-does-not-starve"
    ),
    pytest.param(10, [(1, 3, 3), (2, 0, 20)], [(1, 3, 3), (2, 0, 10)], id="an-empty-one-stays"),
    pytest.param(
        2**63 - 1, [(1, 0, 2**62), (2, 0, 2**62)], [(1, 0, 2**62), (2, 0, 2**62)], id="SPARK-26718"
    ),
]


@pytest.mark.parametrize(("limit", "given", "expected"), LIMITS)
def test_a_trigger_limit_is_shared_by_size(limit: int, given: Bounds, expected: Bounds) -> None:
    assert share_limit(ranges(given), limit) == ranges(expected)
