"""Random segments, read by ottla and by the naive reader, are read alike."""

from pathlib import Path

import pytest
from hypothesis import given

import builders
import strategies
from builders import Row
from reading import check

WINDOW = 1 << 20


@given(strategies.segments())
def test_a_good_segment_is_read_as_the_naive_reader_reads_it(tmp_path: Path, data: bytes) -> None:
    check(data, tmp_path / "00000000000000000000.log")


@given(strategies.broken_segments())
def test_a_broken_segment_is_judged_as_the_naive_reader_judges_it(
    tmp_path: Path, data: bytes
) -> None:
    check(data, tmp_path / "00000000000000000000.log")


def _batches(*shapes: tuple[int, int]) -> list[bytes]:
    """For each shape so many batches of two records, each about so many bytes large."""
    sizes = [size for count, size in shapes for _ in range(count)]
    return [
        builders.batch(
            [Row(at, at, b"a", bytes(size // 2)), Row(at + 1, 0, None, bytes(size // 2))]
        )
        for at, size in zip(range(0, 2 * len(sizes), 2), sizes, strict=True)
    ]


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param([(500, 5000)], id="many-windows"),
        pytest.param([(1, 3 * WINDOW), (3, 100)], id="large-first"),
        pytest.param([(3, 100), (1, 3 * WINDOW)], id="large-last"),
        pytest.param([(12_000, 100)], id="many-batches"),
    ],
)
def test_a_segment_of_several_windows_is_read_as_one(
    tmp_path: Path, shapes: list[tuple[int, int]]
) -> None:
    check(b"".join(_batches(*shapes)), tmp_path / "00000000000000000000.log")


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_reading_goes_on_after_an_unknown_magic(tmp_path: Path, magic: int) -> None:
    pieces = _batches((500, 5000))
    for broken in (0, 250, 499):
        pieces[broken] = pieces[broken][:16] + bytes([magic]) + pieces[broken][17:]
    check(b"".join(pieces), tmp_path / "00000000000000000000.log")


def test_a_broken_control_batch_is_an_error_although_its_records_are_no_rows(
    tmp_path: Path,
) -> None:
    control = builders.batch_of(b"\x0c\0\0\0\x01\x01", count=1, attributes=0x30)
    data = builders.batch() + control + builders.batch()
    check(data, tmp_path / "00000000000000000000.log")
