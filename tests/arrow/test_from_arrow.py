"""Arrow columns to records: every type that is taken, slices, nulls, and what is refused."""

import pyarrow as pa
import pytest

import naive
from ottla.arrow.from_arrow import records_from_arrow
from ottla.batch.encode import encode
from ottla.batch.new_batch import NewBatch
from ottla.errors import OptionError

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def written(batch: pa.RecordBatch, **options: int) -> list[tuple[object, ...]]:
    """What a naive reader finds in the batch that the records make."""
    lines = naive.decode(encode(records_from_arrow(batch, **options), NewBatch()))
    return [
        (line["offset"], line["timestamp"], line["key"], line["value"], line["headers"])
        for line in lines
        if line["type"] == "record"
    ]


def test_all_columns_are_written() -> None:
    batch = pa.record_batch(
        {
            "key": pa.array([b"a", None, b""]),
            "value": pa.array([None, b"bb", b"ccc"]),
            "offset": pa.array([3, 5, 6]),
            "timestamp": pa.array([10, -1, 12]),
            "headers": pa.array(
                [[], [{"key": "h", "value": b"1"}, {"key": "é", "value": None}], []], HEADERS
            ),
        }
    )
    assert written(batch) == [
        (3, 10, b"a", None, []),
        (5, -1, None, b"bb", [(b"h", b"1"), ("é".encode(), None)]),
        (6, 12, b"", b"ccc", []),
    ]


def test_missing_columns_have_kafkas_defaults() -> None:
    batch = pa.record_batch({"value": pa.array([b"x", b"y"])})
    assert written(batch, first_offset=7) == [(7, -1, None, b"x", []), (8, -1, None, b"y", [])]
    assert written(pa.record_batch({"other": pa.array([1])})) == [(0, -1, None, None, [])]


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.string(),
        pa.large_string(),
        pa.binary_view(),
        pa.binary(2),
    ],
    ids=str,
)
def test_every_kind_of_bytes_is_taken(kind: pa.DataType) -> None:
    batch = pa.record_batch({"value": pa.array([b"ab", None, b"cd"]).cast(kind)})
    assert [row[3] for row in written(batch)] == [b"ab", None, b"cd"]


@pytest.mark.parametrize("start", [0, 1, 7, 8, 9, 16])
def test_a_slice_is_only_what_it_shows(start: int) -> None:
    count = 20
    values = [None if index % 3 == 0 else b"v%d" % index for index in range(count)]
    headers = [
        [{"key": f"h{index}", "value": None if index % 2 else b"x"}] * (index % 3)
        for index in range(count)
    ]
    batch = pa.record_batch(
        {
            "key": pa.array(values),
            "value": pa.array(values[::-1]),
            "offset": pa.array(range(count)),
            "timestamp": pa.array(range(100, 100 + count)),
            "headers": pa.array(headers, HEADERS),
        }
    )
    assert written(batch.slice(start, 4)) == written(batch)[start : start + 4]


def test_no_list_of_headers_is_an_empty_one() -> None:
    # Under the null lies a header, which must not be written.
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 2], pa.int32()),
        pa.array([{"key": "under", "value": b""}, {"key": "h", "value": b"1"}], HEADERS.value_type),
        mask=pa.array([True, False, False]),
    )
    batch = pa.record_batch({"headers": lists})
    assert [row[4] for row in written(batch)] == [[], [(b"h", b"1")], []]


def test_raw_headers_come_before_headers() -> None:
    raw = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
    batch = pa.record_batch(
        {
            "headers": pa.array([[{"key": "\ufffd", "value": None}]], HEADERS),
            "rawHeaders": pa.array([[{"key": b"\xff", "value": None}]], raw),
        }
    )
    assert written(batch)[0][4] == [(b"\xff", None)]


def test_an_empty_batch_has_no_records() -> None:
    schema = pa.schema({"key": pa.binary(), "offset": pa.int64(), "headers": HEADERS})
    batch = pa.RecordBatch.from_pylist([], schema=schema)
    assert records_from_arrow(batch).offset.size == 0


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        pytest.param({"value": pa.array([1])}, "value", id="value-type"),
        pytest.param({"offset": pa.array([1.5])}, "offset", id="offset-type"),
        pytest.param({"offset": pa.array([None], pa.int64())}, "offset", id="offset-null"),
        pytest.param({"timestamp": pa.array([1], pa.timestamp("ms"))}, "timestamp", id="timestamp"),
        pytest.param({"headers": pa.array([{"a": 1}])}, "headers", id="headers-type"),
        pytest.param({"headers": pa.array([[{"k": "a"}]])}, "key and value", id="header-fields"),
        pytest.param(
            {"headers": pa.array([[{"key": None, "value": b""}]], HEADERS)}, "key", id="header-key"
        ),
        pytest.param({"headers": pa.array([[None]], HEADERS)}, "key", id="header-null"),
    ],
)
def test_what_is_no_record_is_refused_by_name(columns: dict[str, pa.Array], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        records_from_arrow(pa.record_batch(columns))
