"""Chosen records of many chunks as one: the same records, with the batches that they came from."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from builders import Row, batch
from ottla.arrow.schema import RECORD_COLUMNS
from ottla.arrow.to_arrow import records_to_arrow, wanted_flags
from ottla.batch.decode import CHUNK_BYTES, CHUNK_HEADERS, Chunk, Decoder
from ottla.batch.select import Selected
from ottla.log.read.windows import read_windows
from ottla.storage.files import open_file

COLUMNS = list(RECORD_COLUMNS)
HEADERS = ((b"trace", b"x" * 40), (b"trace", None), (b"\xc3\xa9", b""))


def chunks_of(path: Path, batches: list[list[Row]]) -> list[Chunk]:
    """A chunk for each batch."""
    path.write_bytes(b"".join(batch(rows) for rows in batches))
    decoder = Decoder(wanted_flags(COLUMNS))
    found = []
    with open_file(path) as file:
        for window in read_windows(file):
            for row in range(window.batches.position.size):
                one = type(window.batches)(*(column[row : row + 1] for column in window.batches))
                pieces = [*decoder.decode(window.region, one)]
                assert not any(piece.broken for piece in pieces)
                found += [piece.chunk for piece in pieces if piece.chunk] + [decoder.flush()]
    return [chunk for chunk in found if chunk is not None]


def rows_of(first: int, count: int, value: bytes = b"value") -> list[Row]:
    return [
        Row(
            first + index,
            1000 + index,
            None if index % 5 == 0 else b"k" * (index % 7),
            None if index % 3 == 0 else value * (index % 4),
            HEADERS[: index % 4],
        )
        for index in range(count)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_chosen_records_are_what_taking_their_rows_gives(tmp_path: Path, seed: int) -> None:
    chance = np.random.default_rng(seed)
    sizes = [0, *chance.integers(1, 200, 40).tolist()]
    starts = np.cumsum(sizes).tolist()
    chunks = chunks_of(
        tmp_path / "a.log",
        [rows_of(start, size) for start, size in zip(starts, sizes[1:], strict=False)],
    )
    selected, given, expected = Selected(wanted_flags(COLUMNS)), [], []
    for chunk in chunks:
        rows = np.flatnonzero(chance.random(chunk.count) < 0.1)
        expected.append(records_to_arrow(chunk, COLUMNS, rows))
        given += selected.add(chunk, rows)
    given += selected.flush()
    assert len(given) == 3  # of 16, 16 and 8 chunks
    found = pa.Table.from_batches([records_to_arrow(chunk, COLUMNS) for chunk in given])
    assert found.to_pylist() == pa.Table.from_batches(expected).to_pylist()
    assert [*selected.flush()] == []


def test_what_does_not_fit_begins_another_chunk(tmp_path: Path) -> None:
    value = b"v" * (CHUNK_BYTES // 10)
    (chunk, *more) = chunks_of(
        tmp_path / "a.log", [rows_of(12 * number, 12, value) for number in range(3)]
    )
    selected = Selected(wanted_flags(COLUMNS))
    every = np.arange(chunk.count)
    given = [*selected.add(chunk, every)]
    for another in more:
        given += selected.add(another, np.arange(another.count))
    given += selected.flush()
    assert len(given) > 1
    found = pa.Table.from_batches([records_to_arrow(each, COLUMNS) for each in given])
    expected = pa.Table.from_batches([records_to_arrow(each, COLUMNS) for each in (chunk, *more)])
    assert found.to_pylist() == expected.to_pylist()


def test_many_rows_and_large_records_are_left_where_they_are(tmp_path: Path) -> None:
    (small,) = chunks_of(tmp_path / "a.log", [rows_of(0, 100)])
    (large,) = chunks_of(tmp_path / "b.log", [[Row(0, 0, b"k", b"v" * (2 * CHUNK_BYTES)), Row(1)]])
    many = tuple((b"", None) for _ in range(CHUNK_HEADERS + 1))  # in fewer bytes than a chunk has
    (named,) = chunks_of(tmp_path / "c.log", [[Row(0, 0, b"k", b"v", many), *rows_of(1, 7)]])
    selected = Selected(wanted_flags(COLUMNS))
    assert not selected.takes(named, np.arange(1))
    assert selected.takes(small, np.arange(25))
    assert not selected.takes(small, np.arange(26))
    assert not selected.takes(large, np.arange(0))
