"""Windows of a file that changes while it is read."""

import os
from pathlib import Path

import pytest

from builders import Row, batch
from ottla.errors import CorruptLogError, Rule
from ottla.log.read.windows import Ending, read_windows, require_sound_windows
from ottla.storage.files import open_file

ONE = batch([Row(0, 1000, b"k", b"v")])


@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("size", [0, 3 * len(ONE), 3 * len(ONE) + 7], ids=["all", "some", "half"])
def test_a_file_that_shrank_after_it_was_opened_is_not_read_as_whole(
    tmp_path: Path, ending: Ending, size: int
) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(ONE * 6)
    with open_file(path) as file:
        os.truncate(path, size)
        *_, last = read_windows(file, ending=ending)
        assert last.violation is not None
        assert (last.violation.rule, last.violation.position) == (Rule.SLICE_COMPLETE, size)
        with pytest.raises(CorruptLogError):
            list(require_sound_windows(read_windows(file, ending=ending)))


def test_zeros_that_are_gone_are_no_room_for_more(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(ONE + bytes(5 << 20))
    with open_file(path) as file:
        windows = read_windows(file, ending=Ending.SEGMENT)
        os.truncate(path, len(ONE) + (3 << 20))
        *_, last = windows
    assert last.violation is not None
    assert last.violation.rule is not Rule.ZERO_TAIL
