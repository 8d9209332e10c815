"""What chunks hold, where batches are larger than a chunk, and what is taken back."""

from pathlib import Path

import pyarrow as pa
import pytest

import ottla
from builders import Row, batch, batch_of, record
from ottla.batch.decode import CHUNK_BYTES, CHUNK_HEADERS, CHUNK_RECORDS

PLAIN = {"none": 0, "zstd": 4}


def read(tmp_path: Path, data: bytes, **options: object) -> pa.Table:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    return pa.Table.from_batches(list(ottla.read_segment(path, **options)))  # type: ignore[arg-type]


def small(count: int, first: int = 0) -> list[Row]:
    return [Row(first + index, index, None, b"%d" % index) for index in range(count)]


@pytest.mark.parametrize("codec", PLAIN.values(), ids=PLAIN)
def test_a_batch_of_more_records_than_a_chunk_is_given_whole(tmp_path: Path, codec: int) -> None:
    rows = small(CHUNK_RECORDS + 100)
    table = read(tmp_path, batch([Row(-1, 0, b"k", b"v")]) + batch(rows, codec=codec))
    assert table["offset"].to_pylist() == list(range(-1, CHUNK_RECORDS + 100))
    assert table["value"].to_pylist() == [b"v", *(row.value for row in rows)]
    assert table["key"].null_count == len(rows)


def test_a_value_larger_than_a_chunk_is_given(tmp_path: Path) -> None:
    large = bytes(range(256)) * (CHUNK_BYTES // 256 + 1)
    rows = [Row(0, 0, b"a", b"x"), Row(1, 0, b"b", large), Row(2, 0, None, None)]
    table = read(tmp_path, batch(rows))
    assert table["value"].to_pylist() == [b"x", large, None]


def test_more_headers_than_a_chunk_has_room_for(tmp_path: Path) -> None:
    many = tuple((b"k%d" % index, None) for index in range(CHUNK_HEADERS + 1))
    few = [Row(0, 0, None, b"v", ((b"a", b"1"), (b"a", b""))), Row(1)]
    table = read(tmp_path, batch(few) + batch([Row(2, 0, None, None, many)]) + batch([Row(3)]))
    counts = [len(headers) for headers in table["headers"].to_pylist()]
    assert counts == [2, 0, len(many), 0]
    assert table["headers"][2].as_py()[-1] == {"key": f"k{CHUNK_HEADERS}", "value": None}
    assert table["headers"][0].as_py() == [{"key": "a", "value": b"1"}, {"key": "a", "value": b""}]


def test_a_large_batch_broken_at_its_end_gives_none_of_its_records(tmp_path: Path) -> None:
    rows = small(CHUNK_RECORDS + 100)
    records = b"".join(record(row) for row in rows)
    broken = batch_of(records[:-3], count=len(rows), base_offset=0)
    data = batch([Row(0)]) + broken + batch([Row(9)])
    table = read(tmp_path, data, mode="DROPMALFORMED")
    assert table["offset"].to_pylist() == [0, 9]


def test_nulls_of_a_batch_that_is_taken_back_leave_no_trace(tmp_path: Path) -> None:
    good = [Row(0, 0, b"key", b"value", ((b"h", b"x"),))]
    nulls = record(Row(0, 0, None, None, ((b"h", None),)))
    broken = batch_of(nulls + b"\x7f", count=2, base_offset=5)
    table = read(
        tmp_path, batch(good) + broken + batch([Row(9, 0, b"k", b"v")]), mode="DROPMALFORMED"
    )
    assert table["key"].to_pylist() == [b"key", b"k"]
    assert table["value"].to_pylist() == [b"value", b"v"]


def test_failfast_names_file_position_offset_and_rule(tmp_path: Path) -> None:
    data = bytearray(batch([Row(0)]) + batch([Row(41), Row(42)]))
    data[-1] ^= 1
    with pytest.raises(ottla.CorruptLogError) as caught:
        read(tmp_path, bytes(data))
    violation = caught.value.violation
    first = len(batch([Row(0)]))
    assert (violation.rule, violation.position) == ("crc-matches", first)
    assert (violation.offset, violation.last_offset) == (41, 42)
    assert violation.file.endswith("00000000000000000000.log")


def test_permissive_gives_one_row_for_each_broken_batch(tmp_path: Path) -> None:
    bad = bytearray(batch([Row(1)]))
    bad[-1] ^= 1
    data = batch([Row(0)]) + bytes(bad) + batch([Row(2)])
    table = read(tmp_path, data, mode="PERMISSIVE", columns=["offset"])
    assert table.column_names == ["offset", "_corrupt"]
    assert sorted(table["offset"].to_pylist(), key=str) == [0, 2, None]
    assert [text is not None for text in table["_corrupt"].to_pylist()].count(True) == 1


def test_a_batch_beyond_the_limit_is_a_violation_that_names_the_option(tmp_path: Path) -> None:
    large = batch([Row(0, 0, None, bytes(3_000_000))])
    with pytest.raises(ottla.CorruptLogError, match="maxBatchBytes"):
        read(tmp_path, large, max_batch_bytes=2_000_000)
    table = read(tmp_path, large + batch([Row(1)]), max_batch_bytes=2_000_000, mode="DROPMALFORMED")
    assert table["offset"].to_pylist() == [1]


def test_a_preallocated_tail_of_zeros_is_no_error(tmp_path: Path) -> None:
    table = read(tmp_path, batch([Row(0)]) + bytes(5000))
    assert table["offset"].to_pylist() == [0]


def test_columns_of_the_batch_are_spread_over_its_records(tmp_path: Path) -> None:
    data = batch([Row(3), Row(4)], producer=(7, 1, 2**31 - 1)) + batch([Row(9)], leader_epoch=2)
    columns = ["offset", "position", "producerId", "sequence", "partitionLeaderEpoch", "baseOffset"]
    first = len(batch([Row(3), Row(4)]))
    assert read(tmp_path, data, columns=columns).to_pylist() == [
        dict(zip(columns, row, strict=True))
        for row in [
            (3, 0, 7, 2**31 - 1, 0, 3),
            (4, 0, 7, 0, 0, 3),
            (9, first, -1, -1, 2, 9),
        ]
    ]


def test_chunks_that_span_windows_keep_their_batch_columns(tmp_path: Path) -> None:
    rows = [[Row(index, 0, None, bytes(700_000))] for index in range(9)]
    data = b"".join(batch(row, producer=(row[0].offset, 0, 0)) for row in rows)
    table = read(tmp_path, data, columns=["offset", "producerId"])
    assert table["offset"].to_pylist() == table["producerId"].to_pylist() == list(range(9))


def test_an_unknown_column_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ottla.OptionError, match="timestampType"):
        read(tmp_path, b"", columns=["offsets"])


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_expands_far_beyond_the_arena_is_read(tmp_path: Path, codec: int) -> None:
    rows = [Row(index, 0, None, bytes([index]) * 500_000) for index in range(12)]
    table = read(tmp_path, batch(rows, codec=codec))
    assert table["value"].to_pylist() == [row.value for row in rows]


def test_failfast_gives_nothing_from_behind_the_damage(tmp_path: Path) -> None:
    bad = bytearray(batch([Row(0)]))
    bad[-1] ^= 1
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(bad) + batch(small(20_000, 1)) + batch(small(20_000, 20_001)))
    with pytest.raises(ottla.CorruptLogError):
        next(ottla.read_segment(path, columns=["offset"]))


def test_the_limit_on_a_batch_holds_wherever_it_lies_in_a_window(tmp_path: Path) -> None:
    large = [batch([Row(offset, 0, None, bytes(1_500_000))]) for offset in range(2)]
    table = read(
        tmp_path, b"".join(large) + batch([Row(2)]), max_batch_bytes=1 << 20, mode="DROPMALFORMED"
    )
    assert table["offset"].to_pylist() == [2]


@pytest.mark.parametrize("batch_bytes", [1, 16384])
@pytest.mark.parametrize("parts", [[[9, 3]], [[5, 6], [5, 6]]], ids=["within", "across"])
def test_a_segment_with_falling_offsets_is_not_written(
    tmp_path: Path, batch_bytes: int, parts: list[list[int]]
) -> None:
    batches = [pa.record_batch({"offset": offsets, "value": [b"v"] * 2}) for offsets in parts]
    path = tmp_path / "00000000000000000000.log"
    with pytest.raises(ottla.CorruptLogError, match="record-offsets-rise"):
        ottla.write_segment(batches, path, batch_bytes=batch_bytes)
    assert list(tmp_path.iterdir()) == []


def test_a_long_header_key_of_bad_bytes_is_read_in_one_pass(tmp_path: Path) -> None:
    key = b"\xff" * 400_000
    table = read(tmp_path, batch([Row(0, 0, None, None, ((key, None),))]))
    assert table["headers"][0].as_py()[0]["key"] == "\ufffd" * len(key)
