"""Epochs, sequences, duplicates and markers: what a broker takes from a producer."""

import pytest

from ottla.errors import Rule
from ottla.log.files.producer_snapshot import read_producer_snapshot, write_producer_snapshot
from ottla.rules.producers.producer import (
    Appended,
    Duplicate,
    Origin,
    ProducerState,
    Refusal,
    append,
    empty_state,
    entry,
    open_rows,
    remove_expired,
)
from ottla.rules.producers.snapshots import from_snapshot, out_of_range, strays, to_snapshot
from rules.histories import (
    ABORT,
    COMMIT,
    data_batch,
    empty_marker,
    known_producers,
    marker,
    tables,
)

MAX = 2**31 - 1
ID = 5
DAY = 86_400_000


def produce(
    state: ProducerState,
    sequence: int,
    *,
    offset: int = 0,
    epoch: int = 0,
    count: int = 1,
    transactional: bool = False,
    timestamp: int = 0,
    origin: Origin = Origin.CLIENT,
) -> Appended:
    batch = data_batch(
        offset,
        count,
        producer=(ID, epoch, sequence),
        transactional=transactional,
        timestamp=timestamp,
    )
    _, batches, markers = tables(batch)
    return append(state, batches, markers, origin)


def finish(
    state: ProducerState,
    offset: int,
    control_type: int = COMMIT,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    timestamp: int = 0,
    origin: Origin = Origin.COORDINATOR,
) -> Appended:
    _, batches, markers = tables(
        marker(
            offset,
            ID,
            epoch,
            control_type,
            coordinator_epoch=coordinator_epoch,
            timestamp=timestamp,
        )
    )
    return append(state, batches, markers, origin)


def rule_of(done: Appended) -> Rule | str:
    if done.stopped is None:
        return "ok"
    return done.stopped.rule if isinstance(done.stopped, Refusal) else "duplicate"


def test_the_first_sequence_of_an_unknown_producer_may_be_any() -> None:
    assert rule_of(produce(empty_state(), 1234)) == "ok"


def test_the_next_sequence_follows_the_last() -> None:
    state = empty_state()
    assert rule_of(produce(state, 0)) == "ok"
    assert rule_of(produce(state, 1, offset=1)) == "ok"
    assert rule_of(produce(state, 3, offset=2)) is Rule.SEQUENCE_IN_ORDER
    assert rule_of(produce(state, 2, offset=2)) == "ok"


def test_a_refusal_says_what_was_found_and_expected() -> None:
    state = empty_state()
    produce(state, 0, count=5)
    stopped = produce(state, 9, offset=5).stopped
    assert isinstance(stopped, Refusal)
    assert (stopped.found, stopped.expected) == ("9", "5")


def test_a_newer_epoch_begins_at_zero() -> None:
    state = empty_state()
    produce(state, 7)
    assert rule_of(produce(state, 1, epoch=1, offset=1)) is Rule.SEQUENCE_IN_ORDER
    assert rule_of(produce(state, 0, epoch=1, offset=1)) == "ok"


def test_an_older_epoch_is_fenced() -> None:
    state = empty_state()
    produce(state, 0, epoch=5)
    assert rule_of(produce(state, 0, epoch=4, offset=1)) is Rule.PRODUCER_EPOCH_FENCED
    coordinator = produce(state, -1, epoch=4, offset=1, origin=Origin.COORDINATOR)
    assert rule_of(coordinator) is Rule.PRODUCER_EPOCH_FENCED


@pytest.mark.parametrize("age", range(7))
def test_an_exact_repeat_of_one_of_five_batches_is_answered_with_its_offsets(age: int) -> None:
    state = empty_state()
    for at in range(7):
        produce(state, at * 2, offset=100 + at * 2, count=2, timestamp=at)
    done = produce(state, 12 - age * 2, offset=500, count=2)
    if age >= 5:
        assert rule_of(done) is Rule.SEQUENCE_IN_ORDER
        return
    assert isinstance(done.stopped, Duplicate)
    first = 112 - age * 2
    seen = done.stopped.batch
    assert (seen.first_offset, seen.last_offset, seen.timestamp) == (first, first + 1, 6 - age)


@pytest.mark.parametrize(("sequence", "count"), [(0, 2), (1, 3), (2, 2), (0, 4)])
def test_an_overlap_is_not_a_duplicate(sequence: int, count: int) -> None:
    state = empty_state()
    produce(state, 0, count=3)
    done = produce(state, sequence, offset=3, count=count)
    assert rule_of(done) is Rule.SEQUENCE_IN_ORDER


def test_a_repeat_with_another_epoch_is_not_a_duplicate() -> None:
    state = empty_state()
    produce(state, 0, epoch=1)
    assert rule_of(produce(state, 0, epoch=2, offset=1)) == "ok"


def test_sequences_wrap_to_zero() -> None:
    state = empty_state()
    produce(state, MAX, offset=9)
    assert rule_of(produce(state, 1, offset=10)) is Rule.SEQUENCE_IN_ORDER
    assert rule_of(produce(state, 0, offset=10)) == "ok"


def test_a_batch_may_wrap_inside() -> None:
    state = empty_state()
    produce(state, MAX - 10, count=20)
    known = entry(state, ID)
    assert known is not None
    assert (known.window[0].first_sequence, known.window[0].last_sequence) == (MAX - 10, 8)
    assert rule_of(produce(state, MAX - 10, offset=20, count=20)) == "duplicate"
    assert rule_of(produce(state, 9, offset=20)) == "ok"


def test_replicas_take_any_sequence_and_epoch() -> None:
    state = empty_state()
    produce(state, 0, epoch=3, origin=Origin.REPLICATION)
    assert rule_of(produce(state, 9, epoch=3, offset=1, origin=Origin.REPLICATION)) == "ok"
    assert rule_of(produce(state, 0, epoch=1, offset=2, origin=Origin.REPLICATION)) == "ok"
    known = entry(state, ID)
    assert known is not None
    assert (known.producer_epoch, len(known.window)) == (1, 1)


def test_coordinators_write_without_sequences() -> None:
    state = empty_state()
    for offset in range(3):
        done = produce(state, -1, offset=offset, transactional=True, origin=Origin.COORDINATOR)
        assert rule_of(done) == "ok"


def test_after_only_a_marker_the_first_sequence_is_zero() -> None:
    state = empty_state()
    assert rule_of(finish(state, 0)) == "ok"
    assert rule_of(produce(state, 17, offset=1)) is Rule.SEQUENCE_IN_ORDER
    assert rule_of(produce(state, 0, offset=1)) == "ok"


def test_a_marker_with_a_newer_epoch_fences_the_producer() -> None:
    state = empty_state()
    produce(state, 0)
    assert rule_of(finish(state, 1, epoch=1)) == "ok"
    assert rule_of(produce(state, 1, epoch=0, offset=2)) is Rule.PRODUCER_EPOCH_FENCED
    assert rule_of(produce(state, 2, epoch=1, offset=2)) is Rule.SEQUENCE_IN_ORDER
    assert rule_of(produce(state, 0, epoch=1, offset=2)) == "ok"


def test_a_marker_of_the_same_epoch_keeps_the_sequence() -> None:
    state = empty_state()
    produce(state, 0, transactional=True)
    finish(state, 1)
    assert rule_of(produce(state, 0, offset=2)) == "duplicate"
    assert rule_of(produce(state, 1, offset=2, transactional=True)) == "ok"


def test_a_marker_with_an_older_epoch_is_fenced() -> None:
    state = empty_state()
    produce(state, 0, epoch=5)
    assert rule_of(finish(state, 1, epoch=4)) is Rule.PRODUCER_EPOCH_FENCED


def test_an_older_coordinator_is_fenced_also_after_a_reload() -> None:
    state = empty_state()
    produce(state, 0, transactional=True)
    finish(state, 1, coordinator_epoch=1)
    assert rule_of(finish(state, 2, coordinator_epoch=0)) is Rule.COORDINATOR_EPOCH_FENCED
    state = from_snapshot(to_snapshot(state))
    assert rule_of(finish(state, 2, coordinator_epoch=0)) is Rule.COORDINATOR_EPOCH_FENCED
    replica = finish(state, 2, coordinator_epoch=0, origin=Origin.REPLICATION)
    assert rule_of(replica) == "ok"


def test_a_plain_write_in_an_open_transaction_is_refused() -> None:
    state = empty_state()
    produce(state, 0, transactional=True)
    assert rule_of(produce(state, 1, offset=1)) is Rule.TRANSACTION_STATE


def test_a_transaction_completes_only_if_it_wrote() -> None:
    state = empty_state()
    assert finish(state, 0).completed.first_offset.tolist() == [-1]
    produce(state, 0, offset=1, transactional=True)
    produce(state, 1, offset=2, transactional=True)
    done = finish(state, 3, ABORT).completed
    assert (done.first_offset.tolist(), done.last_offset.tolist()) == ([1], [3])
    assert done.last_stable_offset.tolist() == [4]


def test_an_empty_marker_changes_nothing_but_is_no_error() -> None:
    state = empty_state()
    _, batches, markers = tables(empty_marker(0, ID, 3))
    assert rule_of(append(state, batches, markers, Origin.CLIENT)) == "ok"
    known = entry(state, ID)
    assert known is not None
    assert (known.producer_epoch, known.transaction_first_offset) == (-1, None)


def test_a_refused_batch_changes_nothing() -> None:
    state = empty_state()
    produce(state, 0, transactional=True, timestamp=5)
    before = (known_producers(state), open_rows(state))
    produce(state, 7, offset=1, transactional=True)
    produce(state, 0, epoch=-1, offset=1)
    produce(state, 1, offset=1)
    finish(state, 1, epoch=-1)
    assert (known_producers(state), open_rows(state)) == before


def test_a_producer_who_is_refused_at_once_is_not_remembered() -> None:
    state = empty_state()
    _, batches, markers = tables(
        [data_batch(0, producer=(1, 0, 0)), data_batch(1, producer=(1, 0, 9))]
    )
    assert rule_of(append(state, batches, markers, Origin.CLIENT)) is Rule.SEQUENCE_IN_ORDER
    assert [known.producer_id for known in known_producers(state)] == [1]
    assert len(known_producers(state)[0].window) == 1


def test_the_window_keeps_five_batches_oldest_first() -> None:
    state = empty_state()
    for at in range(8):
        produce(state, at, offset=at)
    known = entry(state, ID)
    assert known is not None
    assert [seen.first_sequence for seen in known.window] == [3, 4, 5, 6, 7]


def test_a_snapshot_keeps_the_newest_batch_and_the_open_transaction() -> None:
    state = empty_state()
    produce(state, 0, offset=10, transactional=True, timestamp=1)
    produce(state, 1, offset=11, count=4, transactional=True, timestamp=2)
    data = write_producer_snapshot(to_snapshot(state))
    loaded = from_snapshot(read_producer_snapshot(data, "x.snapshot"))
    known = entry(loaded, ID)
    assert known is not None
    assert known.transaction_first_offset == 10
    assert [tuple(seen) for seen in known.window] == [(1, 4, 11, 14, 2)]
    assert rule_of(produce(loaded, 0, offset=15, transactional=True)) is Rule.SEQUENCE_IN_ORDER
    assert rule_of(produce(loaded, 1, offset=15, count=4, transactional=True)) == "duplicate"
    assert rule_of(produce(loaded, 5, offset=15, transactional=True)) == "ok"
    assert finish(loaded, 16).completed.first_offset.tolist() == [10]


def test_a_snapshot_of_a_producer_with_only_a_marker_has_no_batch() -> None:
    state = empty_state()
    finish(state, 0, epoch=2, coordinator_epoch=4, timestamp=9)
    (row,) = to_snapshot(state).tolist()
    assert row == (ID, 2, -1, -1, 0, 9, 4, -1)
    assert rule_of(produce(from_snapshot(to_snapshot(state)), 3, epoch=2)) is Rule.SEQUENCE_IN_ORDER


def test_nobody_known_makes_an_empty_snapshot() -> None:
    assert len(write_producer_snapshot(to_snapshot(empty_state()))) == 10


def test_a_producer_expires_by_the_time_of_its_data() -> None:
    state = empty_state()
    produce(state, 0, timestamp=1000)
    assert entry(remove_expired(state, 1000 + DAY - 1), ID) is not None
    assert entry(remove_expired(state, 1000 + DAY), ID) is None
    assert entry(from_snapshot(to_snapshot(state), now=1000 + DAY), ID) is None
    assert entry(from_snapshot(to_snapshot(state), now=999 + DAY), ID) is not None


def test_an_open_transaction_keeps_its_producer() -> None:
    state = empty_state()
    produce(state, 0, timestamp=0, transactional=True)
    kept = remove_expired(state, 10 * DAY)
    assert entry(kept, ID) is not None
    finish(kept, 1)
    assert entry(remove_expired(kept, 10 * DAY), ID) is None


def test_an_open_transaction_from_offset_minus_one_keeps_its_producer() -> None:
    """A damaged batch may say that it begins there (seed 14515 of the fuzz)."""
    state = empty_state()
    log = [data_batch(-1, producer=(1, 0, 0), timestamp=0, transactional=True)]
    _, batches, markers = tables(log)
    append(state, batches, markers, Origin.CLIENT)
    assert open_rows(state) == [0]
    assert open_rows(remove_expired(state, 10 * DAY)) == [0]


def test_expiry_keeps_the_order_of_open_transactions() -> None:
    state = empty_state()
    log = [
        data_batch(0, producer=(1, 0, 0), timestamp=0),
        data_batch(1, producer=(2, 0, 0), timestamp=DAY, transactional=True),
        data_batch(2, producer=(3, 0, 0), timestamp=DAY, transactional=True),
    ]
    _, batches, markers = tables(log)
    append(state, batches, markers, Origin.CLIENT)
    kept = remove_expired(state, DAY)
    assert [known.producer_id for known in known_producers(kept)] == [2, 3]
    assert open_rows(kept) == [0, 1]
    _, batches, markers = tables(marker(3, 2, 0, ABORT))
    done = append(kept, batches, markers, Origin.COORDINATOR)
    assert done.completed.last_stable_offset.tolist() == [2]


# Two transactions of which the first ended, and the snapshots that a broker took between them.
HISTORY = [
    data_batch(0, producer=(1, 0, 0), transactional=True, timestamp=1000),
    marker(1, 1, 0, COMMIT, timestamp=1000),
    data_batch(2, producer=(2, 0, 0), transactional=True, timestamp=2000),
    data_batch(3, producer=(1, 0, 1), transactional=True, timestamp=3000),
    marker(4, 2, 0, ABORT, timestamp=4000),
]


def after(batches: list[bytes], state: ProducerState | None = None) -> ProducerState:
    state = empty_state() if state is None else state
    _, table, markers = tables(batches)
    append(state, table, markers, Origin.REPLICATION)
    return state


def truncated_to(end: int) -> ProducerState:
    """The newest snapshot that is left, and the batches after it (rebuildProducerState)."""
    taken = [0, 1, 3, 5]
    kept = sorted(set(taken) - set(out_of_range(taken, log_start=0, log_end=end)))
    start = kept[-1] if kept else 0
    loaded = from_snapshot(to_snapshot(after(HISTORY[:start])))
    return after(HISTORY[start:end], loaded) if end > start else loaded


@pytest.mark.parametrize("end", range(6))
def test_after_a_truncation_a_partition_knows_what_the_shorter_log_says(end: int) -> None:
    found, expected = truncated_to(end), after(HISTORY[:end]) if end else empty_state()
    assert to_snapshot(found).tolist() == to_snapshot(expected).tolist()
    first = [int(found.producers.first_offset[row]) for row in open_rows(found)]
    assert first == [[], [0], [], [2], [2, 3], [3]][end]


def test_a_partition_that_is_emptied_knows_nobody() -> None:
    assert known_producers(truncated_to(0)) == []


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_a_finished_transaction_is_not_open_after_a_reload(kind: int) -> None:
    state = after([data_batch(0, producer=(ID, 0, 0), transactional=True), marker(1, ID, 0, kind)])
    loaded = from_snapshot(to_snapshot(state))
    assert open_rows(loaded) == []
    assert rule_of(produce(loaded, 1, offset=2)) == "ok"


def test_an_empty_transaction_is_not_open_after_a_reload() -> None:
    loaded = from_snapshot(to_snapshot(after([marker(0, ID, 0, ABORT)])))
    known = entry(loaded, ID)
    assert known is not None
    assert (known.transaction_first_offset, known.window) == (None, ())


def test_an_abort_that_fences_leaves_the_new_epoch_and_no_batch() -> None:
    state = empty_state()
    produce(state, 0, transactional=True, timestamp=5)
    done = finish(state, 1, ABORT, epoch=1, coordinator_epoch=7, timestamp=9)
    assert done.completed.first_offset.tolist() == [0]
    known = entry(state, ID)
    assert known is not None
    assert (known.producer_epoch, known.coordinator_epoch, known.last_timestamp) == (1, 7, 9)
    assert (known.transaction_first_offset, known.window) == (None, ())


def test_snapshots_outside_the_log_are_deleted() -> None:
    assert out_of_range([0, 2, 4, 6, 8], log_start=2, log_end=6) == [0, 2, 8]


# Snapshot offsets, segment bases, and which snapshots go (ProducerStateManagerTest's own cases).
STRAYS = [
    pytest.param([1, 2, 5], [1, 2], [], id="a-clean-stop-wrote-the-last"),
    pytest.param([1, 2, 5], [1, 2, 6], [5], id="an-old-stray"),
    pytest.param([1, 2, 3, 5, 6], [2], [1, 3, 5], id="only-the-newest-stray-stays"),
    pytest.param([1, 2, 5], [5], [1, 2], id="the-newest-has-its-segment"),
    pytest.param([], [1], [], id="none"),
]


@pytest.mark.parametrize(("offsets", "bases", "deleted"), STRAYS)
def test_snapshots_without_a_segment_are_deleted(
    offsets: list[int], bases: list[int], deleted: list[int]
) -> None:
    assert strays(offsets, bases) == deleted
