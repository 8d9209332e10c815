"""Batches that a thread makes ahead: the same ones, the same error, and no thread left behind."""

import threading
from collections.abc import Generator

import pyarrow as pa
import pytest

from ottla.log.read.ahead import decode_ahead

Batches = Generator[pa.RecordBatch]


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"offset": pa.array([number], pa.int64())})


def numbers(count: int, made: list[int], closed: list[bool]) -> Batches:
    try:
        for number in range(count):
            made.append(number)
            yield batch(number)
    finally:
        closed.append(True)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "ottla-decode"]


def test_every_batch_comes_once_and_in_order() -> None:
    found = [one["offset"][0].as_py() for one in decode_ahead(numbers(50, [], []))]
    assert found == list(range(50))
    assert threads() == []


def test_nothing_is_made_of_nothing() -> None:
    assert list(decode_ahead(numbers(0, [], []))) == []


def test_an_error_comes_after_what_was_made_before_it() -> None:
    def broken() -> Batches:
        yield batch(0)
        yield batch(1)
        raise ValueError("batch 2")

    taken = decode_ahead(broken())
    assert [next(taken), next(taken)] == [batch(0), batch(1)]
    with pytest.raises(ValueError, match="batch 2"):
        next(taken)
    assert threads() == []


def test_the_next_batch_is_made_while_one_is_used() -> None:
    second = threading.Event()

    def two() -> Batches:
        yield batch(0)
        second.set()
        yield batch(1)

    ahead = decode_ahead(two())
    next(ahead)
    assert second.wait(timeout=60)
    ahead.close()


def test_few_batches_are_made_before_they_are_asked_for() -> None:
    made: list[int] = []
    closed: list[bool] = []
    ahead = decode_ahead(numbers(1000, made, closed))
    for taken in range(1, 6):
        next(ahead)
        assert len(made) <= taken + 2
    ahead.close()
    assert len(made) <= 7
    assert closed == [True]
    assert threads() == []


def test_who_leaves_does_not_wait_for_an_error() -> None:
    def broken() -> Batches:
        yield batch(0)
        yield batch(1)
        raise ValueError

    ahead = decode_ahead(broken())
    next(ahead)
    ahead.close()
    assert threads() == []


def test_who_leaves_does_not_wait_for_a_source_that_can_not_be_closed() -> None:
    left = threading.Event()

    def stubborn() -> Batches:
        try:
            yield batch(0)
            left.wait(timeout=60)
            yield batch(1)
        finally:
            raise OSError("close")

    ahead = decode_ahead(stubborn())
    next(ahead)
    threading.Timer(0.2, left.set).start()
    ahead.close()
    assert threads() == []
