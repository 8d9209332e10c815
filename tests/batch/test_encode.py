"""Batches as bytes: worked examples, the producer's splitting rule, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from ottla.batch.encode import encode, encode_batches, encode_control, encode_empty, split
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.errors import CorruptLogError, OptionError, Rule
from ottla.format.attributes import Codec, ControlType, TimestampType
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.records.scan import scan
from ottla.kernels.tables import Batches, allocate_batches
from ottla.region import padded

FIELDS = st.none() | st.binary(max_size=80) | st.integers(8180, 8200).map(bytes)
HEADERS = st.lists(st.tuples(st.binary(max_size=9), FIELDS), max_size=3)
TIMESTAMPS = st.just(-1) | st.integers(0, 2**41) | st.integers(0, 2**63 - 1)


@st.composite
def row_lists(
    draw: st.DrawFn, headers: st.SearchStrategy[list[tuple[bytes, bytes | None]]]
) -> list[NewRecord]:
    offset = draw(st.integers(0, 2**62))
    rows = []
    for gap in draw(st.lists(st.just(1) | st.integers(1, 2**27), min_size=1, max_size=9)):
        rows.append(NewRecord(offset, draw(TIMESTAMPS), draw(FIELDS), draw(FIELDS), draw(headers)))
        offset += gap
    return rows


def read(data: bytes) -> list[NewRecord]:
    """What a naive reader finds, none of it broken."""
    lines = naive.decode(data)
    assert not [line for line in lines if line["type"] == "error"]
    return [
        NewRecord(line["offset"], line["timestamp"], line["key"], line["value"], line["headers"])
        for line in lines
        if line["type"] == "record"
    ]


def comparable(rows: Sequence[NewRecord], *, timestamp: int | None = None) -> list[NewRecord]:
    times = [row.timestamp if timestamp is None else timestamp for row in rows]
    headers = [[list(header) for header in row.headers] for row in rows]
    return [
        row._replace(timestamp=time, headers=list(map(tuple, kept)))
        for row, time, kept in zip(rows, times, headers, strict=True)
    ]


def scanned(data: bytes) -> Batches:
    batches = allocate_batches(1000)
    rows = scan(padded(data), 0, len(data), 0, batches)[0]
    found = Batches(*(column[:rows] for column in batches))
    compute_crcs(padded(data), 0, found)
    return found


def test_two_records_are_the_worked_example_of_the_format() -> None:
    rows = [
        NewRecord(0, 1714000000000, None, b"hello"),
        NewRecord(1, 1714000000000, None, b"world"),
    ]
    assert encode(pack_rows(rows), NewBatch()).hex() == (
        "000000000000000000000049ffffffff02dbda21c90000000000010000018f125c7400"
        "0000018f125c7400ffffffffffffffffffffffffffff00000002"
        "16000000010a68656c6c6f0016000002010a776f726c6400"
    )


@given(rows=row_lists(HEADERS), codec=st.integers(0, 4))
def test_a_naive_reader_finds_the_records_of_magic_2(rows: list[NewRecord], codec: int) -> None:
    data = encode(pack_rows(rows), NewBatch(codec=codec))
    assert comparable(read(data)) == comparable(rows)


@given(rows=row_lists(st.just([])), codec=st.integers(0, 3))
def test_a_naive_reader_finds_the_records_of_magic_1(rows: list[NewRecord], codec: int) -> None:
    data = encode(pack_rows(rows), NewBatch(magic=1, codec=codec))
    assert comparable(read(data)) == comparable(rows)


@given(rows=row_lists(st.just([])), codec=st.integers(0, 3))
def test_a_naive_reader_finds_the_records_of_magic_0(rows: list[NewRecord], codec: int) -> None:
    data = encode(pack_rows(rows), NewBatch(magic=0, codec=codec))
    assert comparable(read(data)) == comparable(rows, timestamp=-1)


@pytest.mark.parametrize("codec", [0, 3])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_the_table_is_what_a_scan_gives(magic: int, codec: int) -> None:
    rows = [NewRecord(5 + index, index, b"k", b"v" * index) for index in range(10)]
    bounds = np.array([0, 4, 9, 10], dtype=np.int64)
    encoded = encode_batches(pack_rows(rows), bounds, NewBatch(magic=magic, codec=codec))
    found = scanned(encoded.data.tobytes())
    for name, ours, theirs in zip(Batches._fields, encoded.batches, found, strict=True):
        assert ours.tolist() == theirs.tolist(), name


def test_batches_after_the_first_go_on_with_offset_and_sequence() -> None:
    rows = [NewRecord(10 + index, 0, None, b"") for index in range(5)]
    new = NewBatch(base_offset=8, producer_id=1, producer_epoch=0, base_sequence=2**31 - 3)
    bounds = np.array([0, 2, 4, 5], dtype=np.int64)
    batches = encode_batches(pack_rows(rows), bounds, new).batches
    assert batches.base_offset.tolist() == [8, 12, 14]
    assert batches.last_offset.tolist() == [11, 13, 14]
    assert batches.base_sequence.tolist() == [2**31 - 3, 2**31 - 1, 1]


def test_the_longest_numbers_find_room() -> None:
    """Every number as long as its format allows, and next to no bytes."""
    headers = [(b"", None)] * 40
    rows = [NewRecord(0, 0, b"", b"", headers)]
    rows += [NewRecord(2**31 - 400 + n, 2**63 - 1, b"", b"", headers) for n in range(300)]
    assert read(encode(pack_rows(rows), NewBatch())) == rows


@given(row_lists(HEADERS))
def test_records_measured_before_are_the_same_bytes(rows: list[NewRecord]) -> None:
    """As those that might have 2 GiB are."""
    records = pack_rows(rows)
    bounds = np.array([0, len(rows)])
    new = NewBatch(timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=7)
    for each in (NewBatch(), new):
        at_once = encode_batches(records, bounds, each)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("ottla.batch.encode.INT32_MAX", 0)
            measured = encode_batches(records, bounds, each)
        assert at_once.data.tobytes() == measured.data.tobytes()
        for left, right in zip(at_once.batches, measured.batches, strict=True):
            np.testing.assert_array_equal(left, right)


def test_no_records_give_no_bytes() -> None:
    assert encode(pack_rows([]), NewBatch()) == b""


def test_an_end_transaction_marker_has_78_bytes() -> None:
    new = NewBatch(
        producer_id=7, producer_epoch=1, is_transactional=True, is_control=True, base_offset=3
    )
    data = encode_control(new, 1700000000000, [(ControlType.COMMIT, {"coordinatorEpoch": 5})])
    assert len(data) == 78
    assert data[61:].hex() == "200000000800000001" + "0c000000000005" + "00"


def test_one_control_batch_holds_the_front_of_a_snapshot() -> None:
    controls = [
        (ControlType.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": -1}),
        (ControlType.KRAFT_VERSION, {"kRaftVersion": 1}),
    ]
    found = read(encode_control(NewBatch(is_control=True), 0, controls))
    assert [(row.offset, row.key) for row in found] == [(0, b"\0\0\0\3"), (1, b"\0\0\0\5")]
    assert [row.value.hex() for row in found if row.value] == [
        "0000" + "ff" * 8 + "00",
        "0000000100",
    ]


def test_a_batch_without_records_is_61_bytes_with_its_old_range() -> None:
    new = NewBatch(
        base_offset=20,
        last_offset_delta=4,
        max_timestamp=99,
        producer_id=3,
        producer_epoch=0,
        base_sequence=6,
        partition_leader_epoch=2,
    )
    data = encode_empty(new)
    batches = scanned(data)
    assert len(data) == 61
    assert batches.crc.tolist() == batches.computed_crc.tolist()
    assert (batches.base_offset[0], batches.last_offset[0], batches.count[0]) == (20, 24, 0)
    assert (batches.base_timestamp[0], batches.max_timestamp[0]) == (-1, 99)
    assert (batches.producer_id[0], batches.base_sequence[0]) == (3, 6)


def test_a_delete_horizon_is_the_base_timestamp() -> None:
    rows = [NewRecord(0, 1000, b"k", None), NewRecord(1, 900, b"l", None)]
    data = encode(pack_rows(rows), NewBatch(delete_horizon=50_000))
    assert scanned(data).base_timestamp.tolist() == [50_000]
    assert comparable(read(data)) == comparable(rows)


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [1, 2])
def test_log_append_time_is_every_records_timestamp(magic: int, codec: int) -> None:
    rows = [NewRecord(0, 5, None, b"a"), NewRecord(1, 9, None, b"b")]
    late = TimestampType.LOG_APPEND_TIME
    new = NewBatch(magic=magic, codec=codec, timestamp_type=late, log_append_time=777)
    assert comparable(read(encode(pack_rows(rows), new))) == comparable(rows, timestamp=777)


# By Kafka 4.3's MemoryRecordsBuilder: how many of `split_rows` each batch took.
SPLITS = {
    (0, "none", 16384): [131, 131, 38],
    (0, "gzip", 16384): [125, 124, 51],
    (0, "none", 4096): [33, 31, 32, 34, 34, 32, 31, 33, 33, 7],
    (0, "gzip", 4096): [32, 29, 29, 33, 31, 32, 30, 29, 34, 21],
    (1, "none", 16384): [123, 123, 54],
    (1, "gzip", 16384): [117, 116, 67],
    (1, "none", 4096): [32, 29, 29, 33, 30, 31, 31, 29, 32, 24],
    (1, "gzip", 4096): [30, 27, 27, 30, 28, 29, 28, 28, 28, 29, 16],
    (2, "none", 16384): [148, 148, 4],
    (2, "gzip", 16384): [142, 142, 16],
    (2, "none", 4096): [38, 34, 36, 38, 36, 36, 36, 38, 8],
    (2, "gzip", 4096): [35, 33, 36, 36, 35, 34, 33, 37, 21],
    (2, "none", 0): [1] * 300,
    (2, "gzip", 0): [1] * 300,
    (0, "none", 0): [1] * 300,
}


def split_rows(magic: int) -> list[NewRecord]:
    return [
        NewRecord(
            1000 + index,
            1700000000000 + index * index % 5000,
            None if index % 5 == 0 else b"k" * (index % 7),
            None if index % 11 == 3 else b"v" * (index * 37 % 211),
            [(b"h", b"x" * (index % 9))] if magic == 2 and index % 4 == 0 else [],
        )
        for index in range(300)
    ]


@pytest.mark.parametrize(("magic", "codec", "batch_bytes"), SPLITS)
def test_batches_end_where_kafkas_producer_ends_them(
    magic: int, codec: str, batch_bytes: int
) -> None:
    new = NewBatch(magic=magic, codec=Codec[codec.upper()])
    bounds = split(pack_rows(split_rows(magic)), new, batch_bytes)
    assert np.diff(bounds).tolist() == SPLITS[magic, codec, batch_bytes]


def test_offsets_too_far_apart_get_batches_of_their_own() -> None:
    rows = [
        NewRecord(0, 0, None, b""),
        NewRecord(2**31 - 1, 0, None, b""),
        NewRecord(2**31, 0, None, b""),
    ]
    for magic in (0, 1, 2):
        bounds = split(pack_rows(rows), NewBatch(magic=magic), 1 << 20)
        assert bounds.tolist() == [0, 2, 3]


def test_no_records_split_into_no_batches() -> None:
    assert split(pack_rows([]), NewBatch(), 100).tolist() == [0]


BAD_ROWS = [
    pytest.param(
        2,
        [NewRecord(1, 0, None, b""), NewRecord(1, 0, None, b"")],
        Rule.RECORD_OFFSETS_RISE,
        id="same",
    ),
    pytest.param(
        1,
        [NewRecord(1, 0, None, b""), NewRecord(0, 0, None, b"")],
        Rule.RECORD_OFFSETS_RISE,
        id="falls",
    ),
    pytest.param(2, [NewRecord(0, -2, None, b"")], Rule.RECORD_TIMESTAMP, id="negative-v2"),
    pytest.param(0, [NewRecord(0, -2, None, b"")], Rule.RECORD_TIMESTAMP, id="negative-v0"),
    pytest.param(
        1, [NewRecord(0, 0, None, b"", [(b"h", None)])], Rule.RECORD_HEADERS, id="headers-v1"
    ),
    pytest.param(
        2,
        [NewRecord(0, 0, None, b""), NewRecord(2**31, 0, None, b"")],
        Rule.OFFSET_DELTA_RANGE,
        id="delta-v2",
    ),
    pytest.param(
        1,
        [NewRecord(0, 0, None, b""), NewRecord(2**31, 0, None, b"")],
        Rule.OFFSET_DELTA_RANGE,
        id="delta-v1",
    ),
    pytest.param(
        2,
        [NewRecord(-(2**62), 0, None, b""), NewRecord(2**62, 0, None, b"")],
        Rule.OFFSET_DELTA_RANGE,
        id="wide",
    ),
]


@pytest.mark.parametrize(("magic", "rows", "rule"), BAD_ROWS)
def test_a_record_that_breaks_a_rule_names_it(
    magic: int, rows: list[NewRecord], rule: Rule
) -> None:
    with pytest.raises(CorruptLogError) as caught:
        encode(pack_rows(rows), NewBatch(magic=magic))
    assert caught.value.violation.rule is rule


PRODUCER = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}

BAD_SETTINGS = [
    pytest.param({"magic": 3}, "magic", id="magic"),
    pytest.param({"codec": 5}, "codec", id="codec"),
    pytest.param({"codec": 1, "level": 10}, "gzip", id="level"),
    pytest.param({"codec": 2, "level": 1}, "snappy", id="no-level"),
    pytest.param({"timestamp_type": -1}, "timestamp type", id="timestamp-type"),
    pytest.param({"magic": 1, "timestamp_type": -1}, "timestamp type", id="timestamp-type-v1"),
    pytest.param({"magic": 1, "is_transactional": True}, "transactional", id="transactional-v1"),
    pytest.param({"magic": 1, "is_control": True}, "control", id="control-v1"),
    pytest.param({"magic": 1, "codec": 4}, "zstd", id="zstd-v1"),
    pytest.param({"magic": 0, "delete_horizon": 5}, "delete horizon", id="horizon-v0"),
    pytest.param({"magic": 1, **PRODUCER}, "producer id", id="producer-v1"),
    pytest.param({"magic": 1, "partition_leader_epoch": 0}, "leader epoch", id="epoch-v1"),
    pytest.param({"is_transactional": True}, "needs a producer id", id="no-producer"),
    pytest.param({**PRODUCER, "producer_epoch": -1}, "producer epoch", id="no-producer-epoch"),
    pytest.param({**PRODUCER, "base_sequence": -1}, "base sequence", id="no-sequence"),
    pytest.param({**PRODUCER, "producer_epoch": 32768}, "producer_epoch", id="epoch-range"),
    pytest.param({"delete_horizon": -2}, "delete_horizon", id="horizon-range"),
    pytest.param({"last_offset_delta": -1}, "last_offset_delta", id="delta-range"),
    pytest.param({"base_offset": 2**63}, "base_offset", id="offset-range"),
]


@pytest.mark.parametrize(("settings", "named"), BAD_SETTINGS)
def test_settings_that_kafka_refuses_are_refused_by_name(
    settings: dict[str, int | bool], named: str
) -> None:
    with pytest.raises(OptionError, match=named):
        NewBatch(**settings)  # type: ignore[arg-type]


def test_a_control_batch_needs_no_sequence() -> None:
    assert NewBatch(producer_id=1, producer_epoch=0, is_control=True).base_sequence == -1


EMPTY = NewBatch(base_offset=0, last_offset_delta=0)


@pytest.mark.parametrize(
    ("new", "named"),
    [
        (NewBatch(magic=1), "magic 1"),
        (replace(EMPTY, codec=Codec.GZIP), "codec none"),
        (replace(EMPTY, delete_horizon=5), "delete horizon"),
        (replace(EMPTY, base_offset=None), "base_offset"),
    ],
    ids=["legacy", "codec", "horizon", "offset"],
)
def test_an_empty_batch_is_only_what_compaction_writes(new: NewBatch, named: str) -> None:
    with pytest.raises(OptionError, match=named):
        encode_empty(new)


MARKER = NewBatch(producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)


@pytest.mark.parametrize(
    ("new", "control_type", "named"),
    [
        (NewBatch(), ControlType.COMMIT, "is_control"),
        (NewBatch(is_control=True), ControlType.COMMIT, "producer id"),
        (replace(MARKER, is_transactional=False), ControlType.ABORT, "transactional"),
        (NewBatch(is_control=True), ControlType.LEADER_CHANGE, "leader epoch"),
        (MARKER, ControlType.UNKNOWN, "unknown"),
    ],
    ids=["no-control", "no-producer", "no-transaction", "no-epoch", "unknown"],
)
def test_a_control_record_is_refused_where_kafka_refuses_it(
    new: NewBatch, control_type: ControlType, named: str
) -> None:
    with pytest.raises(OptionError, match=named):
        encode_control(new, 0, [(control_type, {})])


def test_a_last_offset_delta_must_reach_the_last_record() -> None:
    rows = pack_rows([NewRecord(0, 0, None, b""), NewRecord(5, 0, None, b"")])
    with pytest.raises(OptionError, match="last record"):
        encode(rows, NewBatch(last_offset_delta=4))
    assert scanned(encode(rows, NewBatch(last_offset_delta=9))).last_offset.tolist() == [9]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_broken_records_are_named_before_a_last_offset_delta_that_is_too_low(codec: Codec) -> None:
    rows = pack_rows([NewRecord(offset, 0, None, b"") for offset in (0, 5, 3, 9)])
    with pytest.raises(CorruptLogError) as caught:
        encode(rows, NewBatch(codec=codec, last_offset_delta=4))
    assert caught.value.violation.rule is Rule.RECORD_OFFSETS_RISE


@pytest.mark.parametrize("bounds", [[0, 2], [-1, 1]])
@pytest.mark.parametrize("magic", [0, 2])
def test_bounds_stay_within_the_records(magic: int, bounds: list[int]) -> None:
    rows = pack_rows([NewRecord(0, 0, None, b"")])
    with pytest.raises(OptionError, match="beyond"):
        encode_batches(rows, np.array(bounds, dtype=np.int64), NewBatch(magic=magic))


def test_a_batch_among_others_can_not_be_empty() -> None:
    rows = pack_rows([NewRecord(0, 0, None, b"")])
    with pytest.raises(OptionError, match="needs a record"):
        encode_batches(rows, np.array([0, 1, 1], dtype=np.int64), NewBatch())
