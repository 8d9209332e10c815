"""Sequences wrap as Java's ints do; the expected values are what Java 17 computes."""

import numpy as np
import pytest
from numba import njit

from ottla.batch.attributes import add_sequence as add_columns
from ottla.kernels.producers import sequences

MAX = 2**31 - 1


@njit
def add_sequence(base: int, increment: int) -> int:
    return sequences.add_sequence(base, increment)


@njit
def subtract_sequence(last: int, decrement: int) -> int:
    return sequences.subtract_sequence(last, decrement)


@pytest.mark.parametrize(
    ("base", "increment", "expected"),
    [
        (0, 0, 0),
        (3, 4, 7),
        (MAX, 1, 0),
        (MAX - 5, 10, 4),
        (5, -(2**31), 5),
        (0, -1, 2147483647),
        (5, -3, -2147483646),
        (7, -2000000000, 147483655),
    ],
)
def test_one_and_many_sequences_give_what_java_gives(
    base: int, increment: int, expected: int
) -> None:
    assert add_sequence(base, increment) == expected
    assert add_columns(np.array([base]), np.array([increment])).tolist() == [expected]


@pytest.mark.parametrize(
    ("last", "decrement", "expected"),
    [(7, 4, 3), (0, 1, MAX), (4, 10, MAX - 5), (5, -(2**31), -2147483643)],
)
def test_a_sequence_is_counted_back(last: int, decrement: int, expected: int) -> None:
    assert subtract_sequence(last, decrement) == expected
