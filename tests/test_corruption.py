"""Every prefix, every flipped byte and every impossible length: an error or the right rows."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import builders
from builders import Row, varint
from naive_codecs import CODECS
from reading import check, ottla_rows

ROWS = [
    Row(7, 1_700_000_000_000, b"key", b"value value value", ((b"h", b"x"), (b"h", None))),
    Row(8, 1_700_000_000_003, None, b""),
    Row(11, 1_699_999_999_999, b"", None),
]
LEGACY = [
    pytest.param(magic, codec, id=f"v{magic}-{CODECS[codec]}")
    for magic in (0, 1)
    for codec in range(4)
]
FORMATS = [*LEGACY, *(pytest.param(2, codec, id=f"v2-{CODECS[codec]}") for codec in range(5))]
LENGTHS = [-2, 0, 2**31 - 1]
FIXED_SIZE = {0: 26, 1: 34, 2: 61}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000007.log"


def _batch(magic: int, codec: int) -> bytes:
    """One batch: an uncompressed v0 or v1 message holds only the first row."""
    rows = ROWS if magic == 2 or codec else ROWS[:1]
    legacy = [row._replace(headers=()) for row in rows]
    return builders.segment(rows if magic == 2 else legacy, magic=magic, codec=codec)


def _flipped(data: bytes, fixed: int) -> Iterator[bytes]:
    """Each bit of the fixed part, and one bit of every byte after it."""
    for at in range(len(data)):
        for bit in range(8) if at < fixed else [at % 8]:
            yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_the_undamaged_segment_gives_its_rows(path: Path, magic: int, codec: int) -> None:
    path.write_bytes(_batch(magic, codec))
    found = [(row["offset"], row["key"], row["value"]) for row in ottla_rows(path)]
    expected = [(row.offset, row.key, row.value) for row in ROWS]
    assert found == (expected if magic == 2 or codec else expected[:1])


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_every_prefix_gives_the_whole_batches_in_it(path: Path, magic: int, codec: int) -> None:
    data = _batch(magic, codec) * 2
    for size in range(len(data)):
        check(data[:size], path)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_every_flipped_byte_is_an_error_or_the_right_value(
    path: Path, magic: int, codec: int
) -> None:
    whole = _batch(magic, codec)
    for damaged in _flipped(whole, FIXED_SIZE[magic]):
        check(damaged + whole, path)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_every_flipped_byte_under_a_new_crc_is_an_error_or_the_right_value(
    path: Path, magic: int, codec: int
) -> None:
    whole = _batch(magic, codec)
    for damaged in _flipped(whole, FIXED_SIZE[magic]):
        check(builders.reseal(damaged) + whole, path)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_an_impossible_batch_length_is_an_error(
    path: Path, magic: int, codec: int, length: int
) -> None:
    whole = _batch(magic, codec)
    check(whole[:8] + struct.pack(">i", length) + whole[12:] + whole, path)


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_an_impossible_record_count_is_an_error(path: Path, codec: int, count: int) -> None:
    whole = _batch(2, codec)
    check(builders.reseal(whole[:57] + struct.pack(">i", count) + whole[61:]) + whole, path)


def _record(field: str, length: int) -> bytes:
    """A v2 record with one of its lengths replaced."""
    true = {"key": 1, "value": 5, "header count": 1, "header key": 1, "header value": 1}
    sizes = {name: varint(length if name == field else size) for name, size in true.items()}
    headers = sizes["header count"] + sizes["header key"] + b"h" + sizes["header value"] + b"x"
    body = bytes(3) + sizes["key"] + b"k" + sizes["value"] + b"value" + headers
    return varint(length if field == "record" else len(body)) + body


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    "field", ["record", "key", "value", "header count", "header key", "header value"]
)
@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_an_impossible_length_in_a_record_is_an_error(
    path: Path, codec: int, field: str, length: int
) -> None:
    records = _record("none", 0) + _record(field, length) + _record("none", 0)
    payload = builders.compress(records, codec, magic=2)
    damaged = builders.batch_of(payload, count=3, attributes=codec)
    check(damaged + _batch(2, codec), path)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("field", ["message", "key", "value"])
@pytest.mark.parametrize(("magic", "codec"), LEGACY)
def test_an_impossible_length_in_a_message_is_an_error(
    path: Path, magic: int, codec: int, field: str, length: int
) -> None:
    row = Row(2, 5, b"key", b"value")
    good = builders.message(row, magic=magic)
    at = {"message": 8, "key": 18 + 8 * magic, "value": 25 + 8 * magic}[field]
    bad = builders.reseal(good[:at] + struct.pack(">i", length) + good[at + 4 :])
    if codec == 0:
        check(bad + good, path)
        return
    value = builders.compress(good + bad + good, codec, magic=magic)
    check(builders.message(Row(2, 5, None, value), magic=magic, attributes=codec) + good, path)
