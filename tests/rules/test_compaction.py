"""Single decisions of the cleaner, each as small as it can be shown."""

import struct
from typing import Any

import numpy as np
import pytest

import builders
import naive
from builders import Row
from naive_codecs import decompress
from ottla.batch.rows import NewRecord, pack_rows
from ottla.errors import CorruptLogError, Rule, UnsupportedError
from ottla.kernels.cleaner.compaction import hash_keys
from ottla.rules.cleaner.cleaning import Cleaned, clean_window, make_decoder
from ottla.rules.cleaner.compaction import Cleaner, Outcome, Round, last_records
from ottla.rules.producers.producer import Duplicate, Origin, append, empty_state
from ottla.rules.producers.transactions import Transactions
from rules import cleaning
from rules.cleaning import find_survivors, transactions_of, window_of
from rules.histories import ABORT, COMMIT, data_batch, empty_marker, marker, tables

NOW = 1_000_000
RETENTION = 5000
OPEN_END = 1 << 40  # a bound that no batch reaches


def clean(
    *batches: bytes, bound: int = OPEN_END, now: int = NOW, after: bytes = b"", **settings: Any
) -> tuple[Cleaned, Cleaner]:
    """One round; `after` is the part of the log behind it."""
    return cleaning.clean(b"".join(batches), after, Round(bound, now, RETENTION), **settings)


def left(*batches: bytes, **settings: Any) -> bytes:
    return clean(*batches, **settings)[0].written.tobytes()


def lines(data: bytes, kind: str) -> list[dict[str, object]]:
    return [line for line in naive.decode(data) if line["type"] == kind]


def offsets_of(data: bytes) -> list[int]:
    return [line["offset"] for line in naive.decode(data) if line["type"] == "record"]


def keyed(offset: int, key: bytes | None, value: bytes | None = b"v", **rest: object) -> bytes:
    return builders.batch([Row(offset, 7, key, value)], **rest)  # type: ignore[arg-type]


def transactional(offset: int, key: bytes, producer_id: int = 1, sequence: int = 0) -> bytes:
    return keyed(offset, key, attributes=0x10, producer=(producer_id, 0, sequence))


# The first halves of the reference's own vectors of 128 bits: the secret is bytes 0 to 15, the
# input bytes 0 to n - 1.
SIP_VECTORS = [
    pytest.param(0, "a3817f04ba25a8e6", id="no-bytes"),
    pytest.param(1, "da87c1d86b99af44", id="one-byte"),
    pytest.param(2, "8177228da4a45dc7", id="two-bytes"),
]


@pytest.mark.parametrize(("size", "expected"), SIP_VECTORS)
def test_keys_are_hashed_with_siphash(size: int, expected: str) -> None:
    records = pack_rows([NewRecord(0, 0, bytes(range(size)), None)])
    padding = np.zeros(64, dtype=np.uint8)
    records = records._replace(key_bytes=np.concatenate([records.key_bytes, padding]))
    secret = np.frombuffer(bytes(range(16)), dtype="<u8")
    hashes = np.zeros(1, dtype=np.uint64)
    hash_keys(records, secret.copy(), hashes)
    assert hashes.tobytes().hex() == expected


def test_only_the_newest_record_of_a_key_stays() -> None:
    log = [keyed(0, b"a"), keyed(1, b"b"), keyed(2, b"a")]
    assert offsets_of(left(*log)) == [1, 2]


def test_records_before_the_dirty_part_lose_against_it_but_not_among_themselves() -> None:
    log = [keyed(0, b"a"), keyed(1, b"a"), keyed(2, b"b"), keyed(3, b"b")]
    assert offsets_of(left(*log, dirty=3)) == [0, 1, 3]


def test_a_record_without_key_is_dropped_and_counted() -> None:
    cleaned, _ = clean(keyed(0, None), keyed(1, b"a"))
    assert offsets_of(cleaned.written.tobytes()) == [1]
    assert cleaned.retention.without_key == 1


def test_an_unchanged_batch_is_copied_byte_for_byte() -> None:
    odd = builders.batch([Row(0, 9, b"a"), Row(5, 3, b"b")], codec=1, attributes=0x5500)
    assert left(odd) == odd


def test_a_batch_that_lost_records_keeps_its_header() -> None:
    rows = [Row(10, 500, b"a"), Row(11, 300, b"b"), Row(12, 400, b"a")]
    source = builders.batch(rows, codec=4, producer=(9, 2, 70), leader_epoch=6)
    (before,) = lines(source, "batch")
    (after,) = lines(left(source), "batch")
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"size", "crc", "baseTimestamp", "maxTimestamp", "count"}
    assert (after["count"], after["maxTimestamp"], after["baseTimestamp"]) == (2, 400, 300)


def test_append_time_survives() -> None:
    rows = [Row(0, 500, b"a"), Row(1, 600, b"a")]
    source = builders.batch(rows, attributes=0x08)
    cleaned = left(source)
    assert lines(cleaned, "batch")[0]["maxTimestamp"] == 600
    assert lines(cleaned, "record")[0]["timestamp"] == 600


def test_a_tombstone_gets_a_horizon_and_goes_after_it() -> None:
    log = [keyed(0, b"a"), keyed(1, b"a", None), keyed(2, b"z")]
    once = left(*log)
    assert [line["deleteHorizonMs"] for line in lines(once, "batch")] == [NOW + RETENTION, None]
    assert lines(once, "record")[0]["timestamp"] == 7
    assert offsets_of(left(once, now=NOW + RETENTION - 1)) == [1, 2]
    assert offsets_of(left(once, now=NOW + RETENTION)) == [2]


def test_a_horizon_is_never_put_off() -> None:
    once = left(keyed(0, b"a", None), keyed(1, b"z"))
    assert left(once, now=NOW + 100) == once


def test_the_time_of_a_tombstone_does_not_matter() -> None:
    old = builders.batch([Row(0, 1, b"a", None)])
    assert offsets_of(left(old, now=NOW)) == [0]


@pytest.mark.parametrize(("legacy", "expected"), [(True, [0, 1]), (False, [1])])
def test_a_tombstone_of_an_old_format_stays_while_its_segment_is_young(
    legacy: bool, expected: list[int]
) -> None:
    log = [
        builders.message(Row(0, 5, b"a", None), magic=1),
        builders.message(Row(1, 5, b"b"), magic=1),
    ]
    assert offsets_of(left(*log, legacy=legacy)) == expected


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [1, 2, 3])
def test_wrappers_keep_magic_codec_and_gaps(magic: int, codec: int) -> None:
    rows = [Row(20 + at, 100 + at, key) for at, key in enumerate([b"a", b"b", b"a", b"c", b"b"])]
    source = builders.wrapper(rows, magic=magic, codec=codec)
    once = left(source)
    (line,) = lines(once, "batch")
    assert (line["magic"], line["codecId"], line["lastOffset"]) == (magic, codec, 24)
    assert offsets_of(once) == [22, 23, 24]
    again = left(once, keyed(30, b"c"))
    assert offsets_of(again) == [22, 24, 30]


def test_the_last_batch_of_a_round_stays_even_if_it_is_empty() -> None:
    log = [keyed(0, b"a"), keyed(1, None)]
    cleaned = left(*log, bound=2)
    assert [line["lastOffset"] for line in lines(cleaned, "batch")] == [0, 1]
    assert lines(cleaned, "batch")[1]["count"] == 0


def test_an_old_format_has_no_empty_batch_for_the_end_of_a_round() -> None:
    with pytest.raises(UnsupportedError, match="magic 1 has no empty batches"):
        left(builders.message(Row(0, 5, None), magic=1), bound=1)


def test_the_batch_with_a_producers_last_sequence_stays_empty() -> None:
    log = [keyed(0, b"a", producer=(5, 1, 3), leader_epoch=2), keyed(1, b"a")]
    first, second = lines(left(*log), "batch")
    assert (first["count"], first["lastSequence"], first["size"]) == (0, 3, 61)
    assert (first["maxTimestamp"], first["partitionLeaderEpoch"]) == (7, 2)
    assert second["baseOffset"] == 1
    assert [line["baseOffset"] for line in lines(left(*log, active=False), "batch")] == [1]


def test_an_emptied_batch_goes_once_the_producer_has_written_again() -> None:
    log = [keyed(0, b"a", producer=(5, 1, 0)), keyed(1, b"a")]
    once = left(*log)
    more = keyed(2, b"q", producer=(5, 1, 1))
    assert [line["baseOffset"] for line in lines(left(once, more), "batch")] == [1, 2]


def test_aborted_records_go_at_once_and_their_marker_waits() -> None:
    log = [
        transactional(0, b"a"),
        marker(1, 1, 0, ABORT),
        keyed(2, b"b"),
        transactional(3, b"z", 1, 1),
        marker(4, 1, 0, COMMIT),
    ]
    once = left(*log)
    assert offsets_of(once) == [1, 2, 3, 4]
    twice = left(once)
    assert lines(twice, "batch")[0]["deleteHorizonMs"] == NOW + RETENTION
    assert offsets_of(left(twice, now=NOW + RETENTION - 1)) == [1, 2, 3, 4]
    assert offsets_of(left(twice, now=NOW + RETENTION)) == [2, 3, 4]


def test_aborted_records_hide_no_older_committed_one() -> None:
    log = [keyed(0, b"a"), transactional(1, b"a"), marker(2, 1, 0, ABORT)]
    assert offsets_of(left(*log, active=False)) == [0, 2]


def test_a_commit_marker_goes_two_rounds_after_its_records() -> None:
    log = [
        transactional(0, b"a"),
        marker(1, 1, 0, COMMIT),
        keyed(2, b"a"),
    ]
    once = left(*log, active=False)
    assert offsets_of(once) == [1, 2]
    assert lines(once, "batch")[0]["deleteHorizonMs"] is None
    twice = left(once, active=False)
    assert lines(twice, "batch")[0]["deleteHorizonMs"] == NOW + RETENTION
    assert offsets_of(left(twice, active=False, now=NOW + RETENTION)) == [2]


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_marker_stays_while_an_empty_batch_of_its_transaction_does(kind: int) -> None:
    log = [transactional(0, b"a"), marker(1, 1, 0, kind), keyed(2, b"a")]
    once = left(*log)
    assert [line["baseOffset"] for line in lines(once, "batch")] == [0, 1, 2]
    late = left(left(once), now=NOW + 10 * RETENTION)
    assert [line["baseOffset"] for line in lines(late, "batch")] == [0, 1, 2]


def test_the_only_marker_of_a_producer_stays_empty_for_its_epoch() -> None:
    log = [marker(0, 4, 3, ABORT), keyed(1, b"z")]
    once = left(*log)
    late = left(once, now=NOW + RETENTION)
    first = lines(late, "batch")[0]
    assert (first["count"], first["producerEpoch"], first["isControl"]) == (0, 3, True)


def test_what_cleaning_left_of_a_marker_can_go() -> None:
    log = [empty_marker(0, 4, 3), keyed(1, b"z")]
    assert [line["baseOffset"] for line in lines(left(*log, active=False), "batch")] == [1]


def test_the_index_keeps_aborted_transactions_whose_batches_were_there() -> None:
    log = [transactional(0, b"a"), marker(1, 1, 0, ABORT), keyed(2, b"b")]
    cleaned, cleaner = clean(*log, active=False)
    assert [tuple(row)[1:4] for row in cleaner.transactions.retained_aborted().tolist()] == [
        (1, 0, 1)
    ]
    _, again = clean(cleaned.written.tobytes(), active=False)
    assert again.transactions.retained_aborted().size == 0


def test_a_user_key_like_a_marker_is_a_user_key() -> None:
    key = struct.pack(">hh", 0, ABORT)
    log = [transactional(0, key), marker(1, 1, 0, COMMIT), keyed(2, key), keyed(3, b"z")]
    assert offsets_of(left(*log, active=False)) == [1, 2, 3]


def test_other_control_records_stay() -> None:
    leader_change = builders.batch([Row(0, 0, b"\0\0\0\x02", b"\0\0")], attributes=0x20)
    assert left(leader_change, keyed(1, b"a"), now=10 * NOW) == leader_change + keyed(1, b"a")


def test_a_batch_larger_than_a_chunk_is_cleaned_whole() -> None:
    rows = [Row(at, 0, b"%d" % (at % 34_000), b"v" * 50) for at in range(40_000)]
    cleaned, _ = clean(builders.batch(rows, codec=1))
    assert cleaned.retention.outcome.tolist() == [Outcome.REBUILT]
    (line,) = lines(cleaned.written.tobytes(), "batch")
    assert (line["count"], line["lastOffset"]) == (34_000, 39_999)


def test_headers_survive_a_rebuilt_batch() -> None:
    headers = ((b"h", b"1"), (b"h", None), (b"\xff", b""))
    rows = [Row(0, 0, b"a", b"old", ((b"gone", b"x"),)), Row(1, 0, b"a", b"new", headers)]
    (record,) = lines(left(builders.batch(rows)), "record")
    assert [tuple(header) for header in record["headers"]] == list(headers)  # type: ignore[union-attr]


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_a_wrapper_around_messages_of_two_magics_is_written_in_its_own(codec: int) -> None:
    inner = builders.message(Row(0, 40, b"a"), magic=0) + builders.message(
        Row(1, 50, b"b"), magic=1
    )
    value = builders.compress(inner, codec, magic=1)
    mixed = builders.message(Row(11, 50, None, value), magic=1, attributes=codec)
    plain = builders.wrapper([Row(20, 60, b"c"), Row(21, 61, b"d")], magic=1, codec=codec)
    cleaned, _ = clean(mixed, plain)
    assert cleaned.retention.outcome.tolist() == [Outcome.REBUILT, Outcome.COPIED]
    assert cleaned.written.tobytes().endswith(plain)
    (line,) = lines(cleaned.written.tobytes()[: -len(plain)], "batch")
    assert (line["magic"], line["codecId"], line["lastOffset"]) == (1, codec, 11)
    stored = b"".join(decompress(cleaned.written.tobytes()[34 : -len(plain)], codec, magic=1))
    assert stored == b"".join(
        builders.message(row, magic=1) for row in [Row(0, -1, b"a"), Row(1, 50, b"b")]
    )
    assert offsets_of(cleaned.written.tobytes()) == [10, 11, 20, 21]


def test_a_repeat_is_known_after_cleaning() -> None:
    first = data_batch(0, 2, producer=(5, 0, 0))
    log = [first, builders.batch([Row(2, 0, b"key 0"), Row(3, 0, b"key 1")])]
    cleaned = left(*log)
    assert offsets_of(cleaned) == [2, 3]
    state = Transactions()
    _, table, markers = tables(cleaned)
    state.add(table, markers)
    _, table, markers = tables(data_batch(9, 2, producer=(5, 0, 0)))
    stopped = append(state.state, table, markers, Origin.CLIENT).stopped
    assert isinstance(stopped, Duplicate)
    assert (stopped.batch.first_offset, stopped.batch.last_offset) == (0, 1)


def test_the_last_sequence_stays_even_if_its_transaction_was_aborted() -> None:
    log = [transactional(0, b"a"), marker(1, 1, 0, ABORT), keyed(2, b"z")]
    once = left(*log)
    first = lines(once, "batch")[0]
    assert (first["count"], first["lastSequence"], first["producerId"]) == (0, 0, 1)
    assert offsets_of(once) == [1, 2]


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_transaction_may_lie_in_several_windows(kind: int) -> None:
    log = [
        transactional(0, b"a"),
        transactional(1, b"b", 1, 1),
        marker(2, 1, 0, kind),
        keyed(3, b"a"),
    ]
    aborted = transactions_of(b"".join(log)).aborted()
    region, table, _ = window_of(b"".join(log))
    cleaner = Cleaner(
        Round(OPEN_END, NOW, RETENTION),
        find_survivors(region, table, aborted, 0),
        aborted,
        last_records(empty_state()),
    )
    parts = []
    for part in log:
        window = cleaner, make_decoder(), *window_of(part)
        parts.append(clean_window(*window, keeps_legacy_tombstones=True).written.tobytes())
    assert b"".join(parts) == left(*log, active=False)
    assert offsets_of(b"".join(parts)) == ([1, 2, 3] if kind == COMMIT else [2, 3])


def test_a_broken_batch_stops_the_round() -> None:
    payload = builders.record(Row(0, 0, b"a"))[:-1]
    with pytest.raises(CorruptLogError) as caught:
        left(builders.batch_of(payload, count=1))
    assert caught.value.violation.rule is Rule.RECORD_COMPLETE


def test_offsets_may_be_further_apart_than_an_index_reaches() -> None:
    far = 2**40
    log = [keyed(0, b"a"), keyed(2**31 + 5, b"b"), keyed(far, b"a"), keyed(far + 1, b"c")]
    assert offsets_of(left(*log, bound=far + 2)) == [2**31 + 5, far, far + 1]
