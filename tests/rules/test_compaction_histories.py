"""Random logs, cleaned again and again, against the naive cleaner; and what consumers see of it."""

import struct
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

import builders
from builders import Row
from ottla.rules.cleaner.compaction import Round
from rules import cleaning
from rules import naive_compaction as model
from rules.cleaning import as_read, decode, transactions_of
from rules.histories import CONTROL, TRANSACTIONAL
from rules.naive_compaction import DELETE_RETENTION, Batch, Record

KEYS = st.sampled_from([b"a", b"b", b"c", None])
VALUES = st.sampled_from([b"1", b"22", None])


@st.composite
def logs(draw: st.DrawFn) -> list[Batch]:
    """Batches of plain and transactional producers, with gaps, tombstones and keyless records."""
    batches: list[Batch] = []
    sequences: dict[tuple[int, int], int] = {}
    epochs: dict[int, int] = {}
    open_ones: set[int] = set()
    offset = 0
    for _ in range(draw(st.integers(1, 14))):
        producer_id = draw(st.integers(-1, 2))
        ends = producer_id >= 0 and draw(st.integers(0, 3)) == 0
        epoch = epochs.get(producer_id, 0)
        if ends:
            epoch += draw(st.integers(0, 1))
            epochs[producer_id] = epoch
            kind = draw(st.integers(0, 1))
            key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
            record = Record(offset, key, value)
            batches.append(
                Batch(offset, offset, (record,), producer_id, epoch, -1, True, kind, True)
            )
            open_ones.discard(producer_id)
        else:
            count = draw(st.integers(1, 3))
            records = tuple(
                Record(offset + at, draw(KEYS), draw(VALUES), draw(st.integers(0, 50)))
                for at in range(count)
            )
            batch = Batch(offset, offset + count - 1, records)
            if producer_id >= 0:
                sequence = sequences.get((producer_id, epoch), 0)
                sequences[producer_id, epoch] = sequence + count
                transactional = producer_id in open_ones or draw(st.booleans())
                if transactional:
                    open_ones.add(producer_id)
                batch = replace(
                    batch,
                    producer_id=producer_id,
                    epoch=epoch,
                    sequence=sequence,
                    transactional=transactional,
                )
            batches.append(batch)
        offset = batches[-1].last + 1 + draw(st.sampled_from([0, 0, 2]))
    return batches


def encode(batch: Batch) -> bytes:
    rows = [Row(each.offset, each.timestamp, each.key, each.value) for each in batch.records]
    attributes = TRANSACTIONAL * batch.transactional | CONTROL * batch.control
    return builders.batch(
        rows,
        attributes=attributes,
        base_offset=batch.base,
        last_offset_delta=batch.last - batch.base,
        producer=(batch.producer_id, batch.epoch, batch.sequence),
        codec=(batch.base * 3) % 5 if not batch.control else 0,
    )


def clean(data: bytes, rest: bytes, dirty: int, bound: int, now: int) -> bytes:
    """One round over all of `data`, which ends at `bound`; `rest` comes after it in the log."""
    cleaned, _ = cleaning.clean(data, rest, Round(bound, now, DELETE_RETENTION), dirty=dirty)
    return cleaned.written.tobytes()


def stable_part(batches: list[Batch]) -> int:
    """How many batches lie below the last stable offset."""
    data = b"".join(encode(batch) for batch in batches)
    stable = transactions_of(data).last_stable_offset()
    return sum(batch.last < stable for batch in batches)


@given(logs(), st.data())
def test_two_rounds_leave_what_the_naive_cleaner_leaves(
    batches: list[Batch], draw: st.DataObject
) -> None:
    cut = draw.draw(st.integers(0, stable_part(batches)))
    if cut == 0:
        return
    bound = batches[cut - 1].last + 1
    data = b"".join(encode(batch) for batch in batches[:cut])
    rest = b"".join(encode(batch) for batch in batches[cut:])
    expected = batches[:cut]
    dirty, now = 0, 100
    for _ in range(3):
        data = clean(data, rest, dirty, bound, now)
        expected = model.clean(expected, expected + batches[cut:], dirty, bound, now)
        assert decode(data) == as_read(expected)
        dirty = draw.draw(st.integers(0, bound))
        now += draw.draw(st.sampled_from([10, DELETE_RETENTION, 5 * DELETE_RETENTION]))


def visible(
    batches: list[Batch], rest: list[Batch], start: int
) -> list[tuple[int, bytes | None, bytes | None]]:
    """What a read_committed consumer gets from `start` on, its position always moving forward.

    The marker that aborts a transaction may lie in the `rest` of the log.
    """
    aborted = model.aborted_batches(batches + rest)
    position, seen = start, []
    for batch in batches:
        if batch.last < position:
            continue
        if not batch.control and batch.base not in aborted:
            fresh = [record for record in batch.records if record.offset >= position]
            seen += [(record.offset, record.key, record.value) for record in fresh]
        assert batch.last + 1 > position
        position = batch.last + 1
    assert position >= start
    return seen


@given(logs(), st.data())
def test_the_newest_record_of_every_key_survives_for_readers_from_any_offset(
    batches: list[Batch], draw: st.DataObject
) -> None:
    cut = stable_part(batches)
    if cut == 0:
        return
    bound = batches[cut - 1].last + 1
    data = b"".join(encode(batch) for batch in batches[:cut])
    rest = b"".join(encode(batch) for batch in batches[cut:])
    once = clean(data, rest, 0, bound, 100)
    twice = clean(once, rest, 0, bound, 101 + DELETE_RETENTION)
    before, after = batches[:cut], batches[cut:]
    after_once = decode(once)
    after_twice = decode(twice)
    assert after_twice[-1].last == before[-1].last
    for start in range(bound + 1):
        original = visible(before, after, start)
        kept = visible(after_once, after, start)
        later = visible(after_twice, after, start)
        newest = {
            key: (offset, value)
            for offset, key, value in visible(before, after, 0)
            if key is not None
        }
        wanted = [row for row in original if row[1] is not None and newest[row[1]][0] == row[0]]
        assert kept == wanted
        assert later == [row for row in wanted if row[2] is not None]
