"""What a job that writes a log anew takes for its end, and what for damage."""

from pathlib import Path

import pytest

from builders import Row, batch
from ottla.catalog.slices import Slice
from ottla.errors import CorruptLogError, Rule
from ottla.jobs.rewrite.plan import sound_windows
from ottla.storage.files import open_file
from ottla.storage.listing import Entry, list_files

BATCHES = [batch([Row(at)]) for at in range(4)]
SIZE = len(BATCHES[0])


def read(folder: Path, data: bytes, stop: int | None = None, *, is_last: bool = True) -> int:
    """How many batches of the first `stop` bytes are given."""
    (folder / f"{0:020d}.log").write_bytes(data)
    (entry,) = list_files(str(folder))
    assert isinstance(entry, Entry)
    part = Slice(entry, None, 0, len(data) if stop is None else stop, is_last=is_last)
    with open_file(entry) as file:
        return sum(window.batches.position.size for window in sound_windows(file, part, 1 << 20))


def test_zeros_to_the_end_of_a_file_end_it(tmp_path: Path) -> None:
    assert read(tmp_path, BATCHES[0] + bytes(500), is_last=False) == 1


def test_zeros_before_a_cut_are_damage(tmp_path: Path) -> None:
    data = BATCHES[0] + bytes(2 * SIZE) + BATCHES[3]
    with pytest.raises(CorruptLogError) as caught:
        read(tmp_path, data, 3 * SIZE)
    assert caught.value.violation.rule is Rule.BATCH_SIZE_MINIMUM
    assert caught.value.violation.position == SIZE


def test_half_a_batch_may_end_the_last_segment_alone(tmp_path: Path) -> None:
    data = BATCHES[0] + BATCHES[1][:-1]
    assert read(tmp_path, data) == 1
    with pytest.raises(CorruptLogError) as caught:
        read(tmp_path, data, is_last=False)
    assert caught.value.violation.rule is Rule.SLICE_COMPLETE


def test_a_part_that_ends_inside_a_batch_was_changed(tmp_path: Path) -> None:
    with pytest.raises(CorruptLogError) as caught:
        read(tmp_path, b"".join(BATCHES), SIZE + 1)
    assert caught.value.violation.rule is Rule.SLICE_COMPLETE
