"""Open, committed and aborted transactions, and what may be read of them."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import builders
from builders import Row
from corpus import CASES
from ottla.log.read.windows import read_windows
from ottla.rules.producers.producer import Origin, append
from ottla.rules.producers.snapshots import from_snapshot, to_snapshot
from ottla.rules.producers.transactions import (
    Transactions,
    is_hanging,
    read_markers,
)
from ottla.storage.files import open_file
from rules import naive_transactions as naive
from rules.histories import (
    ABORT,
    COMMIT,
    committed_mask,
    data_batch,
    empty_marker,
    marker,
    tables,
)
from rules.naive_transactions import Event

TXN_CASES = [
    "txn-v2-mix-hanging",
    "txn-v2-mix-two",
    "txn-v2-none-hanging",
    "txn-v2-none-interleaved",
]


def test_every_corpus_case_with_an_answer_is_asked(corpus: Path) -> None:
    answered = {path.name.split(".")[0] for path in (corpus / "expected").glob("*.txn.json")}
    assert answered == set(TXN_CASES) <= set(CASES)


@pytest.mark.parametrize("case", TXN_CASES)
def test_the_transactions_of_a_corpus_log_are_what_kafka_says(corpus: Path, case: str) -> None:
    expected = json.loads((corpus / "expected" / f"{case}.txn.json").read_text())
    found = Transactions()
    with open_file(str(corpus / "segments" / f"{case}.log")) as file:
        for window in read_windows(file):
            found.add(window.batches, read_markers(window.region, window.batches))
    aborted = [
        {name: int(row[column]) for name, column in zip(ENTRY_NAMES, ENTRY_COLUMNS, strict=True)}
        for row in found.aborted()
    ]
    assert aborted == expected["abortedTxns"]
    assert found.last_stable_offset() == expected["lastStableOffset"]
    assert found.end_offset == expected["endOffset"]


ENTRY_NAMES = ("producerId", "firstOffset", "lastOffset")
ENTRY_COLUMNS = ("producer_id", "first_offset", "last_offset")


@pytest.mark.parametrize("case", TXN_CASES)
def test_a_corpus_log_read_committed_gives_the_committed_offsets(corpus: Path, case: str) -> None:
    expected = json.loads((corpus / "expected" / f"{case}.txn.json").read_text())
    lines = (corpus / "expected" / f"{case}.jsonl").read_text().splitlines()
    offsets: dict[int, list[int]] = {}
    for line in map(json.loads, lines):
        if line["type"] == "record":
            offsets.setdefault(line["position"], []).append(line["offset"])
    found = Transactions()
    data = (corpus / "segments" / f"{case}.log").read_bytes()
    _, batches, markers = tables(data)
    found.add(batches, markers)
    mask = committed_mask(batches, found.aborted(), found.last_stable_offset())
    given_offsets = [
        offset for at in batches.position[mask].tolist() for offset in offsets.get(at, [])
    ]
    below = [offset for offset in expected["committed"] if offset < expected["lastStableOffset"]]
    assert given_offsets == below


def test_an_open_transaction_holds_back_what_comes_after_it() -> None:
    found = Transactions()
    _, batches, markers = tables(
        [
            data_batch(0, 2),
            data_batch(2, 3, producer=(7, 0, 0), transactional=True, timestamp=1000),
            data_batch(5),
            data_batch(6, 1, producer=(7, 0, 3), transactional=True, timestamp=2000),
        ]
    )
    found.add(batches, markers)
    (first,) = found.open().first_offset.tolist()
    assert (first, found.last_stable_offset(), found.end_offset) == (2, 2, 7)
    assert found.open().records.tolist() == [4]
    assert found.open().size.tolist() == [int(batches.size[1] + batches.size[3])]
    assert found.open().first_timestamp.tolist() == [1000]
    assert found.open().last_timestamp.tolist() == [2000]


def test_an_empty_transaction_neither_moves_the_stable_offset_nor_enters_the_index() -> None:
    found = Transactions()
    _, batches, markers = tables(
        [
            data_batch(0, producer=(1, 0, 0), transactional=True),
            marker(1, 2, 0, ABORT),
            marker(2, 2, 0, COMMIT),
        ]
    )
    found.add(batches, markers)
    assert found.aborted().size == 0
    assert found.last_stable_offset() == 0
    assert found.completed().first_offset.tolist() == [-1, -1]


def test_the_stable_offset_of_an_aborted_transaction_is_where_the_next_open_one_begins() -> None:
    found = Transactions()
    _, batches, markers = tables(
        [
            data_batch(0, producer=(1, 0, 0), transactional=True),
            data_batch(1, producer=(2, 0, 0), transactional=True),
            marker(2, 1, 0, ABORT),
            marker(3, 2, 0, ABORT),
        ]
    )
    found.add(batches, markers)
    entries = [tuple(row)[1:] for row in found.aborted().tolist()]
    assert entries == [(1, 0, 2, 1), (2, 1, 3, 4)]


def test_a_completed_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    found = Transactions()
    _, batches, markers = tables(
        [
            data_batch(0, 2, producer=(1, 0, 0), transactional=True),
            marker(2, 1, 0, COMMIT),
            data_batch(3),
        ]
    )
    found.add(batches, markers)
    assert [found.last_stable_offset(mark) for mark in (0, 1, 2, 3, 4)] == [0, 0, 0, 3, 4]


def test_a_marker_that_someone_compressed_is_read() -> None:
    _, _, markers = tables(marker(4, 9, 1, ABORT, coordinator_epoch=6, timestamp=77, codec=4))
    assert [column.tolist() for column in markers] == [[ABORT], [6], [77]]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(b"\0\0\0", b"\0" * 6, id="short-key"),
        pytest.param(b"\xff\xff\0\0", b"\0" * 6, id="negative-key-version"),
        pytest.param(b"\0\0\0\0", b"\0" * 5, id="short-value"),
        pytest.param(b"\0\0\0\0", None, id="no-value"),
        pytest.param(b"\0\0\0\0", b"\xff\xff\0\0\0\0", id="negative-value-version"),
        pytest.param(None, b"\0" * 6, id="no-key"),
    ],
)
def test_a_marker_that_kafka_can_not_read_ends_nothing(
    key: bytes | None, value: bytes | None
) -> None:
    found = Transactions()
    broken = builders.batch([Row(1, 0, key, value)], attributes=0x30, producer=(1, 0, -1))
    _, batches, markers = tables([data_batch(0, producer=(1, 0, 0), transactional=True), broken])
    found.add(batches, markers)
    assert found.open().first_offset.tolist() == [0]


def test_newer_versions_of_a_marker_are_read_as_version_zero() -> None:
    newer = builders.batch(
        [Row(0, 5, b"\0\x09\0\x01extra", b"\0\x07\0\0\0\x03more")],
        attributes=0x30,
        producer=(1, 0, -1),
    )
    _, _, markers = tables(newer)
    assert [column.tolist() for column in markers] == [[COMMIT], [3], [5]]


def test_batches_of_an_aborted_producer_outside_its_transaction_are_given() -> None:
    log = [
        data_batch(0, producer=(1, 0, 0)),
        data_batch(1, producer=(1, 0, 1), transactional=True),
        marker(2, 1, 0, ABORT),
        data_batch(3, producer=(1, 0, 2)),
        data_batch(4, producer=(1, 0, 3), transactional=True),
        marker(5, 1, 0, COMMIT),
    ]
    _, batches, markers = tables(log)
    found = Transactions()
    found.add(batches, markers)
    mask = committed_mask(batches, found.aborted())
    assert mask.tolist() == [True, False, False, True, True, False]


def test_an_empty_marker_ends_nothing() -> None:
    found = Transactions()
    _, batches, markers = tables(
        [data_batch(0, producer=(1, 0, 0), transactional=True), empty_marker(1, 1, 0)]
    )
    found.add(batches, markers)
    assert found.last_stable_offset() == 0


def test_a_transaction_hangs_when_its_producer_has_been_silent_for_too_long() -> None:
    found = Transactions()
    _, batches, markers = tables(
        [
            data_batch(0, producer=(1, 0, 0), transactional=True, timestamp=1000),
            data_batch(1, producer=(2, 0, 0), transactional=True, timestamp=9000),
        ]
    )
    found.add(batches, markers)
    assert is_hanging(found.open(), 11_000, 5000).tolist() == [True, False]
    assert is_hanging(found.open(), 6000, 5000).tolist() == [False, False]


def test_a_write_outside_the_open_transaction_is_noted_and_passed_over() -> None:
    found = Transactions()
    _, batches, markers = tables(
        [
            data_batch(0, producer=(1, 0, 0), transactional=True),
            data_batch(1, producer=(1, 0, 1)),
            marker(2, 1, 0, COMMIT),
        ]
    )
    assert [refusal.row for refusal in found.add(batches, markers)] == [1]
    assert found.last_stable_offset() == 3


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """Batches of a few producers in any order; markers too, also where nothing is open."""
    events: list[Event] = []
    offset = draw(st.integers(0, 5))
    open_ones: set[int] = set()
    for _ in range(draw(st.integers(0, 25))):
        producer_id = draw(st.integers(-1, 4))
        kind = draw(st.sampled_from(["data", "data", "plain", "abort", "commit"]))
        if producer_id < 0 or (kind == "plain" and producer_id not in open_ones):
            count = draw(st.integers(1, 4))
            events.append(Event(producer_id, offset, offset + count - 1, False, None))
        elif kind in ("data", "plain"):
            count = draw(st.integers(1, 4))
            events.append(Event(producer_id, offset, offset + count - 1, True, None))
            open_ones.add(producer_id)
        else:
            events.append(Event(producer_id, offset, offset, True, int(kind == "commit")))
            open_ones.discard(producer_id)
        offset = events[-1].last + 1 + draw(st.sampled_from([0, 0, 0, 3]))
    return events


def as_bytes(events: list[Event]) -> list[bytes]:
    batches = []
    for event in events:
        if event.marker is None:
            count = event.last - event.first + 1
            epoch = -1 if event.producer_id < 0 else 0
            producer = (event.producer_id, epoch, -1)
            batches.append(
                data_batch(event.first, count, producer=producer, transactional=event.transactional)
            )
        else:
            batches.append(marker(event.first, event.producer_id, 0, event.marker))
    return batches


@given(logs(), st.data())
def test_any_log_means_what_the_naive_model_says(events: list[Event], data: st.DataObject) -> None:
    _, batches, markers = tables(as_bytes(events))
    found = Transactions()
    found.add(batches, markers)
    entries = [tuple(row)[1:] for row in found.aborted().tolist()]
    assert entries == naive.aborted(events)
    open_ones = [
        (producer_id, first)
        for producer_id, first, last, _ in naive.transactions(events)
        if last is None
    ]
    ids, firsts = found.open().producer_id.tolist(), found.open().first_offset.tolist()
    assert [*zip(ids, firsts, strict=True)] == open_ones
    mark = data.draw(st.integers(0, found.end_offset))
    assert found.last_stable_offset(mark) == naive.last_stable_offset(events, mark)
    mask = committed_mask(batches, found.aborted()).tolist()
    assert mask == naive.consume(events, [row[:2] for row in entries])
    outcomes = [
        naive.outcome(events, at) for at, event in enumerate(events) if event.marker is None
    ]
    seen = [given_it for given_it, event in zip(mask, events, strict=True) if event.marker is None]
    assert seen == [what != "aborted" for what in outcomes]


@given(logs(), st.data())
def test_a_log_can_be_read_from_any_snapshot(events: list[Event], data: st.DataObject) -> None:
    parts = as_bytes(events)
    cut = data.draw(st.integers(0, len(parts)))
    whole = Transactions()
    _, batches, markers = tables(parts)
    whole.add(batches, markers)
    first = Transactions()
    _, batches, markers = tables(parts[:cut])
    first.add(batches, markers)
    rest = Transactions(from_snapshot(to_snapshot(first.state)), first.end_offset)
    _, batches, markers = tables(parts[cut:])
    rest.add(batches, markers)
    both = np.concatenate([first.aborted(), rest.aborted()])
    assert both.tolist() == whole.aborted().tolist()
    assert rest.last_stable_offset() == whole.last_stable_offset()
    assert rest.open().first_offset.tolist() == whole.open().first_offset.tolist()


@given(logs(), st.data())
def test_cutting_a_log_takes_the_aborted_transactions_whose_markers_go(
    events: list[Event], data: st.DataObject
) -> None:
    parts = as_bytes(events)
    cut = data.draw(st.integers(0, len(parts)))
    end = events[cut].first if cut < len(parts) else 1 << 40
    whole, shorter = Transactions(), Transactions()
    for found, batches_of in ((whole, parts), (shorter, parts[:cut])):
        _, batches, markers = tables(batches_of)
        found.add(batches, markers)
    entries = whole.aborted()
    assert shorter.aborted().tolist() == entries[entries["last_offset"] < end].tolist()


@given(logs(), st.lists(st.integers(0, 25), max_size=4))
def test_windows_of_any_size_give_the_same_transactions(
    events: list[Event], cuts: list[int]
) -> None:
    parts = as_bytes(events)
    whole, pieces = Transactions(), Transactions()
    _, batches, markers = tables(parts)
    whole.add(batches, markers)
    bounds = [0, *sorted(min(cut, len(parts)) for cut in cuts), len(parts)]
    for start, stop in pairwise(bounds):
        _, batches, markers = tables(parts[start:stop])
        pieces.add(batches, markers)
    for one, other in zip(whole.completed(), pieces.completed(), strict=True):
        assert one.tolist() == other.tolist()
    assert whole.last_stable_offset() == pieces.last_stable_offset()


def test_more_producers_than_there_was_room_for_are_all_kept() -> None:
    ids = [(at * 7919) % 100_003 for at in range(1000)]
    log = [data_batch(at, producer=(each, 0, 0), transactional=True) for at, each in enumerate(ids)]
    found = Transactions()
    _, batches, markers = tables(log)
    found.add(batches, markers)
    assert found.open().producer_id.tolist() == ids
    _, batches, markers = tables(
        [marker(1000 + at, each, 0, COMMIT) for at, each in enumerate(ids)]
    )
    done = append(found.state, batches, markers, Origin.COORDINATOR)
    assert done.completed.first_offset.tolist() == list(range(1000))
