"""Appends that are judged together: the same outcomes as one after another."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from builders import Row
from ottla.format.attributes import TRANSACTIONAL, Codec, TimestampType
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.tables import Batches, take_batches
from ottla.region import Region, padded
from ottla.rules.append.accept import Accepted, Refused, append
from ottla.rules.append.checks import AppendPolicy
from ottla.rules.append.each import Appends, LogEnd, Outcome, Taken, append_each
from ottla.rules.producers.producer import Duplicate, Origin, empty_state
from ottla.rules.producers.producer import append as append_producers
from ottla.rules.producers.transactions import read_markers
from rules.histories import known_producers, marker, tables

NOW = 1_700_000_000_000
POSITION = 4096  # of the window in its file

TIMES = st.sampled_from([NOW, NOW + 5, NOW - 10, -1, NOW + 10**9, -7])
GOOD_TIMES = st.sampled_from([NOW, NOW + 5, NOW - 10])
KEYS = st.sampled_from([b"k", b"key", None])
# Ids, epochs and sequences that follow, repeat, skip, are fenced, or are none at all.
PRODUCERS = st.sampled_from(
    [(-1, -1, -1)] * 4
    + [(7, 1, 0), (7, 1, 2), (7, 1, 4), (8, 0, 0), (7, 0, 0), (7, 2, 0), (7, 1, -1), (-3, 0, 0)]
)


@st.composite
def good_batches(draw: st.DrawFn) -> bytes:
    """What a producer sends."""
    count = draw(st.integers(1, 4))
    rows = [Row(at, draw(GOOD_TIMES), b"k%d" % at, b"value" * at) for at in range(count)]
    return builders.batch(
        rows,
        codec=draw(st.sampled_from([0, 0, 1, 3, 4])),
        attributes=draw(st.sampled_from([0, 0, 0, 0x10])),
        producer=draw(PRODUCERS),
    )


@st.composite
def odd_batches(draw: st.DrawFn) -> bytes:
    """Batches of magic 2 that some topic refuses, or every one."""
    offsets = draw(st.sampled_from([[0], [0, 1], [0, 2, 1], [1, 2], [5, 6]]))
    headers = draw(st.sampled_from([(), ((b"h", b"1"),)]))
    rows = [Row(at, draw(TIMES), draw(KEYS), b"v", headers) for at in offsets]
    return builders.batch(
        rows,
        codec=draw(st.integers(0, 4)),
        attributes=draw(st.sampled_from([0, 0x08, 0x10, 0x20])),
        producer=draw(PRODUCERS),
    )


@st.composite
def broken_batches(draw: st.DrawFn) -> bytes:
    """Some byte is wrong; the CRC knows of it, or does not."""
    data = bytearray(draw(good_batches()))
    data[draw(st.integers(21, len(data) - 1))] ^= draw(st.integers(1, 255))
    return bytes(data) if draw(st.booleans()) else builders.reseal(bytes(data))


@st.composite
def legacy_batches(draw: st.DrawFn) -> bytes:
    magic, codec = draw(st.integers(0, 1)), draw(st.integers(0, 3))
    offsets = range(draw(st.integers(1, 3))) if codec else [0]
    rows = [Row(at, draw(GOOD_TIMES), draw(KEYS), b"v") for at in offsets]
    return builders.segment(rows, magic=magic, codec=codec)


MARKERS = st.builds(
    marker,
    st.just(0),
    st.sampled_from([7, 8]),
    st.integers(0, 2),
    st.integers(0, 1),
    coordinator_epoch=st.integers(0, 1),
    timestamp=st.just(NOW),
    codec=st.sampled_from([0, 1]),
)
EMPTY = st.builds(
    lambda codec, attributes, producer: builders.batch_of(
        builders.compress(b"", codec, magic=2),
        count=0,
        attributes=codec | attributes,
        producer=producer,
    ),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 0x20]),
    PRODUCERS,
)
BATCHES = st.one_of(
    good_batches(),
    good_batches(),
    odd_batches(),
    broken_batches(),
    legacy_batches(),
    MARKERS,
    EMPTY,
)
POLICIES = st.builds(
    AppendPolicy,
    compression_type=st.sampled_from([None, None, *Codec]),
    magic=st.sampled_from([2, 2, 2, 2, 1, 0]),
    timestamp_type=st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
    timestamp_before_max_ms=st.sampled_from([2**63 - 1, 5]),
    is_compacted=st.booleans(),
    max_message_bytes=st.sampled_from([1_048_588, 1_048_588, 100]),
    segment_bytes=st.sampled_from([1 << 30, 1 << 30, 90]),
    leader_epoch=st.integers(0, 3),
)


def window(parts: list[bytes]) -> tuple[Region, Batches]:
    """A window of a file, not its first."""
    region, batches, _ = tables(parts)
    compute_crcs(region.data, 0, batches)
    batches.position[:] += POSITION
    return replace(region, position=POSITION), batches


def one_after_another(
    end: LogEnd, region: Region, batches: Batches, appends: Appends
) -> list[Outcome]:
    """`append`, and then producers, for each batch in bytes of its own."""
    outcomes: list[Outcome] = []
    for row in range(batches.position.size):
        alone = take_batches(batches, np.array([row]))
        position, size = int(alone.position[0]), int(alone.size[0])
        data = region.data[position - POSITION : position - POSITION + size].tobytes()
        done = append(
            Region(padded(data), size, region.path, position),
            alone,
            next_offset=end.next_offset,
            now=appends.now,
            origin=appends.origin,
            policy=appends.policy,
        )
        if isinstance(done, Accepted):
            stored = Region(padded(done.data.tobytes()), done.data.size, region.path, 0)
            markers = read_markers(stored, done.batches)
            stopped = append_producers(end.producers, done.batches, markers, appends.origin).stopped
            if stopped is not None:
                outcomes.append(stopped)
                continue
            end.next_offset = done.last_offset + 1
        outcomes.append(done)
    return outcomes


def plain(outcomes: list[Outcome]) -> list[object]:
    """Outcomes as values that can be compared, one for each append."""
    values: list[object] = []
    for outcome in outcomes:
        if isinstance(outcome, Taken):
            count = outcome.batches.position.size
            values += plain([outcome.one(row) for row in range(count)])
        elif isinstance(outcome, Accepted):
            table = [column.tolist() for column in outcome.batches]
            values.append(("accepted", outcome.data.tobytes(), table, *outcome[2:]))
        else:
            values.append(outcome)
    return values


def both(
    parts: list[bytes], origin: Origin, policy: AppendPolicy
) -> tuple[list[Outcome], list[object], list[object]]:
    """The outcomes together, and both ways as values with the end of the log behind them."""
    region, batches = window(parts)
    appends = Appends(NOW, origin, policy)
    ends = [LogEnd(1000, empty_state()) for _ in range(2)]
    apart = one_after_another(ends[1], region, batches, appends)
    together = list(append_each(ends[0], region, batches, appends))
    left, right = ([end.next_offset, known_producers(end.producers)] for end in ends)
    return together, [*plain(together), *left], [*plain(apart), *right]


@settings(max_examples=400)
@given(st.lists(BATCHES, max_size=8), st.sampled_from(Origin), POLICIES)
def test_appends_together_are_appends_one_after_another(
    parts: list[bytes], origin: Origin, policy: AppendPolicy
) -> None:
    _, together, apart = both(parts, origin, policy)
    assert together == apart


@pytest.mark.parametrize("base", [-1, 0, 5])
def test_whatever_base_offset_a_coordinator_sends_the_log_has_its_own(base: int) -> None:
    rows = [Row(0, NOW, b"k"), Row(1, NOW)]
    data = bytearray(builders.batch(rows, attributes=TRANSACTIONAL, producer=(7, 1, 0)))
    data[:8] = base.to_bytes(8, "big", signed=True)  # it lies outside the CRC
    (taken,), together, apart = both([bytes(data)], Origin.COORDINATOR, AppendPolicy())
    assert together == apart
    assert isinstance(taken, Taken)
    assert (taken.one(0).first_offset, taken.one(0).last_offset) == (1000, 1001)


@settings(max_examples=200)
@given(
    st.lists(good_batches(), max_size=20),
    st.sampled_from([None, *Codec]),
    st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
)
def test_good_appends_together_are_appends_one_after_another(
    parts: list[bytes], target: Codec | None, timestamp_type: TimestampType
) -> None:
    policy = AppendPolicy(compression_type=target, timestamp_type=timestamp_type, leader_epoch=3)
    _, together, apart = both(parts, Origin.CLIENT, policy)
    assert together == apart


@pytest.mark.parametrize("target", [None, Codec.LZ4])
def test_what_is_good_is_taken_at_once(target: Codec | None) -> None:
    good = [builders.batch([Row(0, NOW, b"k"), Row(1, NOW)], codec=at % 3) for at in range(9)]
    bad = builders.batch([Row(5, NOW)])
    policy = AppendPolicy(compression_type=target)
    outcomes, together, apart = both([*good, bad, *good], Origin.CLIENT, policy)
    assert [type(each) for each in outcomes] == [Taken, Refused, Taken]
    assert together == apart
    assert together[-2] == 1000 + 2 * 18


def test_an_append_that_a_producer_is_refused_takes_no_offsets() -> None:
    def sent(sequence: int) -> bytes:
        return builders.batch([Row(0, NOW), Row(1, NOW)], producer=(7, 1, sequence))

    outcomes, together, apart = both(
        [sent(0), sent(2), sent(2), sent(9), sent(4)], Origin.CLIENT, AppendPolicy()
    )
    assert together == apart
    assert together[-2] == 1006
    last = outcomes[-1]
    assert isinstance(last, Taken)
    assert last.one(0).first_offset == 1004
    assert last.one(0).data[:8].tobytes() == (1004).to_bytes(8, "big")


def test_many_retries_are_answered_one_by_one() -> None:
    first, second = (
        builders.batch([Row(0, NOW)], producer=(producer_id, 0, 0)) for producer_id in (7, 8)
    )
    outcomes, together, apart = both([first] * 600 + [second] * 600, Origin.CLIENT, AppendPolicy())
    assert together == apart
    assert sum(isinstance(each, Duplicate) for each in outcomes) == 1198
    assert together[-2] == 1002


def test_a_coordinators_batch_without_records_stores_nothing_if_it_is_encoded_anew() -> None:
    empty = builders.batch_of(b"", count=0)
    policy = AppendPolicy(compression_type=Codec.GZIP)
    (done,), together, apart = both([empty], Origin.COORDINATOR, policy)
    assert together == apart
    assert isinstance(done, Accepted)
    assert (done.data.size, done.first_offset, done.last_offset) == (0, 1000, 999)
