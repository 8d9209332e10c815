"""Random segments, read by ottla and by the naive reader, are read alike."""

from pathlib import Path

from hypothesis import given

import strategies
from reading import check


@given(strategies.segments())
def test_a_good_segment_is_read_as_the_naive_reader_reads_it(tmp_path: Path, data: bytes) -> None:
    check(data, tmp_path / "00000000000000000000.log")


@given(strategies.broken_segments())
def test_a_broken_segment_is_judged_as_the_naive_reader_judges_it(
    tmp_path: Path, data: bytes
) -> None:
    check(data, tmp_path / "00000000000000000000.log")
