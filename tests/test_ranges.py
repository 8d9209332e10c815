"""Reads of an object as requests: every byte as it is, none asked for twice, few under way."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage import ranges
from ottla.storage.ranges import Ranges

KIB, MIB = 1 << 10, 1 << 20
WINDOW = 2 * MIB


class Store:
    """An object that remembers what was asked of it, and how many requests were under way."""

    def __init__(self, size: int) -> None:
        self.data = bytes(range(251)) * (size // 251 + 1)
        self.data = self.data[:size]
        self.asked: list[tuple[int, int]] = []
        self.now = self.most = 0
        self.lock = threading.Lock()

    def fetch(self, position: int, size: int) -> bytes:
        with self.lock:
            self.asked.append((position, position + size))
            self.now += 1
            self.most = max(self.most, self.now)
        found = self.data[position : position + size]
        with self.lock:
            self.now -= 1
        return found

    def again(self) -> int:
        """How many bytes were asked for more than once."""
        reached = again = 0
        for start, stop in sorted(self.asked):
            again += max(0, min(stop, reached) - start)
            reached = max(reached, stop)
        return again


def read_all(reader: Ranges, position: int, size: int) -> bytes:
    target = np.zeros(size, dtype=np.uint8)
    return target[: reader.read_into(target, position)].tobytes()


def read_forward(store: Store, reader: Ranges, stop: int, step: int = WINDOW) -> bytes:
    found = b""
    while len(found) < stop:
        found += read_all(reader, len(found), min(step, stop - len(found)))
    return found


@pytest.mark.parametrize("told", [True, False])
def test_reading_forward_asks_for_every_byte_once_in_few_requests(told: bool) -> None:
    store = Store(50 * MIB + 77)
    reader = Ranges(store.fetch, len(store.data))
    if told:
        reader.expect(len(store.data))
    assert read_forward(store, reader, len(store.data)) == store.data
    reader.close()
    assert store.again() == 0
    assert sum(stop - start for start, stop in store.asked) == len(store.data)
    assert len(store.asked) <= (14 if told else 26)
    assert store.most <= ranges._AT_ONCE + 1


def test_nothing_is_asked_for_behind_the_stop() -> None:
    store = Store(50 * MIB)
    reader = Ranges(store.fetch, len(store.data))
    reader.expect(21 * MIB)
    assert read_forward(store, reader, 21 * MIB) == store.data[: 21 * MIB]
    reader.close()
    assert max(stop for _, stop in store.asked) == 21 * MIB


def test_who_takes_one_window_costs_three() -> None:
    """The first rows of a large segment do not cost a large download."""
    store = Store(50 * MIB)
    reader = Ranges(store.fetch, len(store.data))
    reader.expect(len(store.data))
    read_all(reader, 0, WINDOW)
    reader.close()
    assert sum(stop - start for start, stop in store.asked) <= 3 * WINDOW


def test_many_requests_are_under_way_for_who_goes_on() -> None:
    """All of them wait until as many are under way; one at a time would never end."""
    store = Store(60 * MIB)
    together = threading.Barrier(8, timeout=30)
    reached = threading.Event()

    def fetch(position: int, size: int) -> bytes:
        if position >= 10 * MIB and not reached.is_set():
            together.wait()
            reached.set()
        return store.fetch(position, size)

    reader = Ranges(fetch, len(store.data))
    reader.expect(len(store.data))
    assert read_forward(store, reader, 30 * MIB) == store.data[: 30 * MIB]
    reader.close()
    assert reached.is_set()


def test_many_bytes_at_once_come_in_blocks() -> None:
    store = Store(50 * MIB)
    reader = Ranges(store.fetch, len(store.data))
    assert read_all(reader, MIB, 40 * MIB) == store.data[MIB : 41 * MIB]
    reader.close()
    assert store.again() == 0
    assert sum(stop - start for start, stop in store.asked) == 40 * MIB
    assert max(stop - start for start, stop in store.asked) < 2 * ranges._BLOCK


def test_looks_at_a_few_bytes_share_a_request_and_stay_small() -> None:
    store = Store(50 * MIB)
    reader = Ranges(store.fetch, len(store.data))
    for position in range(5 * MIB, 5 * MIB + 60 * KIB, 1000):
        assert read_all(reader, position, 17) == store.data[position : position + 17]
    assert len(store.asked) == 1
    for position in range(0, 50 * MIB, 5 * MIB):
        assert read_all(reader, position, 17) == store.data[position : position + 17]
    reader.close()
    assert sum(stop - start for start, stop in store.asked) <= 12 * 64 * KIB


def test_a_look_elsewhere_does_not_disturb_who_reads_forward() -> None:
    store = Store(50 * MIB)
    reader = Ranges(store.fetch, len(store.data))
    reader.expect(40 * MIB)
    found = b""
    while len(found) < 40 * MIB:
        found += read_all(reader, len(found), WINDOW)
        read_all(reader, 45 * MIB, 17)
    reader.close()
    assert found == store.data[: 40 * MIB]
    assert store.again() == 0


def test_a_failed_request_fails_the_read_that_needs_it() -> None:
    store = Store(50 * MIB)

    def fetch(position: int, size: int) -> bytes:
        if position <= 30 * MIB < position + size:
            raise OSError("no answer")
        return store.fetch(position, size)

    reader = Ranges(fetch, len(store.data))
    reader.expect(len(store.data))
    assert read_forward(store, reader, 24 * MIB) == store.data[: 24 * MIB]
    with pytest.raises(OSError, match="no answer"):
        read_all(reader, 24 * MIB, 10 * MIB)
    reader.close()


def test_who_closes_hears_of_requests_that_nobody_waits_for() -> None:
    store = Store(50 * MIB)
    under_way, go_on = threading.Event(), threading.Event()

    def fetch(position: int, size: int) -> bytes:
        if 10 * MIB <= position < 40 * MIB:
            under_way.set()
            assert go_on.wait(30)
        return store.fetch(position, size)

    reader = Ranges(fetch, len(store.data))
    reader.expect(len(store.data))
    read_forward(store, reader, 8 * MIB)
    assert under_way.wait(30)
    read_all(reader, 45 * MIB, WINDOW)
    try:
        assert not reader.close()
    finally:
        go_on.set()


READS = st.lists(
    st.tuples(
        st.integers(0, 12 * MIB),
        st.sampled_from([1, 17, 5000, 64 * KIB, 300 * KIB, WINDOW, 5 * MIB]),
        st.booleans(),
    ),
    max_size=20,
)


@given(READS, st.none() | st.integers(0, 13 * MIB))
def test_any_reads_give_the_bytes_as_they_are(
    reads: list[tuple[int, int, bool]], stop: int | None
) -> None:
    store = Store(12 * MIB + 5)
    reader = Ranges(store.fetch, len(store.data))
    if stop is not None:
        reader.expect(stop)
    end = 0
    for position, size, goes_on in reads:
        start = end if goes_on else position
        wanted = min(size, max(0, len(store.data) - start))
        assert read_all(reader, start, wanted) == store.data[start : start + wanted]
        end = start + wanted
    reader.close()
    assert store.most <= ranges._AT_ONCE + 1


def test_threads_may_share_it() -> None:
    store = Store(40 * MIB)
    reader = Ranges(store.fetch, len(store.data))

    def read(begin: int) -> bool:
        whole = b"".join(
            read_all(reader, at, WINDOW) for at in range(begin, begin + 20 * MIB, WINDOW)
        )
        return whole == store.data[begin : begin + 20 * MIB]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, [0, 20 * MIB, 10 * MIB, 5 * MIB]))
    reader.close()
