"""Local storage; the S3 side is in log/test_s3.py."""

import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from ottla.errors import OptionError
from ottla.storage.files import open_file, open_remaining, read_bytes
from ottla.storage.listing import list_files
from ottla.storage.writing import (
    create_file,
    delete_tree,
    move_below,
    move_files,
    open_output,
    open_whole,
    write_file,
)


def test_a_range_is_read_where_the_caller_wants_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(100)))
    buffer = np.zeros(16, dtype=np.uint8)
    with open_file(path) as file:
        assert (file.size, file.path) == (100, str(path))
        assert file.read_into(buffer, 40, 8) == 8
    assert buffer.tolist() == [*range(40, 48), *[0] * 8]


@pytest.mark.parametrize(("position", "count"), [(96, 4), (100, 0), (1000, 0)])
def test_a_read_past_the_end_is_short(tmp_path: Path, position: int, count: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    with open_file(path) as file:
        assert file.read_into(np.empty(16, dtype=np.uint8), position, 16) == count


def test_a_file_that_shrinks_while_open_gives_a_short_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    with open_file(path) as file:
        path.write_bytes(bytes(10))
        assert file.read_into(np.empty(100, dtype=np.uint8), 0, 100) == 10


def test_a_listed_file_is_read_up_to_the_size_it_was_listed_with(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"first")
    (entry,) = list_files(tmp_path)
    with (tmp_path / "a").open("ab") as stream:
        stream.write(b" and appended later")
    assert read_bytes(entry) == b"first"


def test_a_file_that_vanishes_after_listing_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"first")
    (entry,) = list_files(tmp_path)
    (tmp_path / "a").unlink()
    with pytest.raises(FileNotFoundError, match=r"/a vanished between listing and reading"):
        open_file(entry)


def test_files_of_all_levels_are_listed_by_name_and_directories_are_not(tmp_path: Path) -> None:
    for name in ("t-1/b.log", "t-0/a.log", "top"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    found = [(entry.path, entry.size) for entry in list_files(tmp_path)]
    assert found == [
        (f"{tmp_path}/t-0/a.log", 9),
        (f"{tmp_path}/t-1/b.log", 9),
        (f"{tmp_path}/top", 3),
    ]


@pytest.mark.parametrize("modified", [10**19, 2**63, -(2**63) - 1, -(10**19)])
def test_a_file_may_be_of_any_century(tmp_path: Path, modified: int) -> None:
    """A time that has no room among packed ones; some file systems have none for it either."""
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_bytes(name.encode())
    os.utime(tmp_path / "a.log", ns=(0, modified))
    times = [(tmp_path / name).stat().st_mtime_ns for name in ("a.log", "b.log")]
    assert [entry.modified_ns for entry in list_files(tmp_path)] == times
    (alone,) = list_files(tmp_path / "a.log")
    assert (alone.modified_ns, alone.size) == (times[0], 5)


def test_directories_behind_links_are_listed_once_and_a_circle_ends(tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk2" / "t-0"
    elsewhere.mkdir(parents=True)
    (elsewhere / "a.log").write_bytes(b"x")
    (elsewhere / "up").symlink_to(tmp_path / "logs")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "t-0").symlink_to(elsewhere)
    found = [entry.path for entry in list_files(tmp_path / "logs")]
    assert found == [f"{tmp_path}/logs/t-0/a.log"]


def test_a_directory_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    # Root reads everything, so the directory is one whose path is too long for the system.
    deep = tmp_path
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(20):
            os.mkdir("d" * 250, dir_fd=held)
            below = os.open("d" * 250, os.O_RDONLY, dir_fd=held)
            os.close(held)
            held = below
            deep /= "d" * 250
    finally:
        os.close(held)
    assert len(str(deep)) > 4096
    with pytest.raises(OSError, match="too long"):
        list_files(tmp_path)


def test_listing_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list_files(tmp_path / "nothing")


def test_a_file_uri_is_a_local_path(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    assert read_bytes(f"file://{tmp_path}/a") == b"x"


def test_an_unknown_scheme_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="no storage for ftp://"):
        open_file("ftp://host/a")


def test_of_two_creators_the_first_wins(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "commit.json"
    assert create_file(path, b"first")
    assert not create_file(path, b"second")
    assert path.read_bytes() == b"first"
    assert [child.name for child in path.parent.iterdir()] == ["commit.json"]


def test_writing_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    write_file(tmp_path / "a", b"old")
    write_file(tmp_path / "a", b"new")
    assert [(child.name, child.read_bytes()) for child in tmp_path.iterdir()] == [("a", b"new")]


@pytest.mark.parametrize("advised", [True, False])
def test_a_large_output_holds_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advised: bool
) -> None:
    """More than is written back at once, in pieces above and below a stream's buffer."""
    if not advised:  # as by a kernel without it

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSYS, "not implemented")

        monkeypatch.setattr(os, "posix_fadvise", refuse, raising=False)
    pieces = [bytes([n % 251]) * ((3 << 20) + n if n % 2 else 100 + n) for n in range(14)]
    with open_output(tmp_path / "large") as stream:
        for piece in pieces:
            stream.write(piece)
    assert (tmp_path / "large").read_bytes() == b"".join(pieces)


@pytest.mark.parametrize("refused", [False, True])
def test_a_file_that_is_expected_is_read_ahead_if_the_kernel_does_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    asked = []

    def advise(*arguments: int) -> None:
        asked.append(arguments[1:])
        if refused:
            raise OSError(errno.ENOSYS, "not implemented")

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "posix_fadvise", advise, raising=False)
    monkeypatch.setattr(os, "POSIX_FADV_SEQUENTIAL", 2, raising=False)
    (tmp_path / "file").write_bytes(b"abc")
    with open_file(tmp_path / "file") as file:
        file.expect(3)
        assert asked == [(0, 0, 2)]
        assert file.read() == b"abc"


def test_files_are_moved_below_a_folder_through_no_link(tmp_path: Path) -> None:
    for name in "abc":
        write_file(tmp_path / "staged" / name, name.encode())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "linked").mkdir(parents=True)
    (tmp_path / "out" / "linked").rmdir()
    (tmp_path / "out" / "linked").symlink_to(tmp_path / "elsewhere")
    staged = f"{tmp_path}/staged"
    move_below(f"{tmp_path}/out", [(f"{staged}/a", "a"), (f"{staged}/b", "new/deep/b")])
    assert (tmp_path / "out" / "a").read_bytes() == b"a"
    assert (tmp_path / "out" / "new" / "deep" / "b").read_bytes() == b"b"
    for name in ("linked/c", "linked/../c"):
        with pytest.raises(OSError, match=r"directory|symbolic"):
            move_below(f"{tmp_path}/out", [(f"{staged}/c", name)])
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_streamed_file_is_moved_into_a_directory_that_is_made_for_it(tmp_path: Path) -> None:
    with open_output(tmp_path / "staged" / "a") as stream:
        stream.write(b"12")
        stream.write(b"34")
    move_files([(f"{tmp_path}/staged/a", f"{tmp_path}/out/b")])
    assert (tmp_path / "out" / "b").read_bytes() == b"1234"
    delete_tree(tmp_path / "staged")
    delete_tree(tmp_path / "staged")
    assert [child.name for child in tmp_path.iterdir()] == ["out"]


def test_a_file_that_was_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError), open_whole(tmp_path / "page.html") as stream:
        stream.writelines([b"half", None])
    assert list(tmp_path.iterdir()) == []


def test_a_file_whose_name_is_taken_by_a_folder_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with pytest.raises(IsADirectoryError), open_whole(tmp_path / "page.html") as stream:
        stream.write(b"whole")
    assert [child.name for child in tmp_path.iterdir()] == ["page.html"]


def replace_by(path: Path, data: bytes) -> None:
    """Put another file in the place of one, as a broker does with a segment that it cleaned."""
    path.with_suffix(".swap").write_bytes(data)
    path.with_suffix(".swap").replace(path)


@pytest.mark.parametrize("data", [b"longer than the first", b"5byte", b"1"])
def test_a_listed_file_that_was_replaced_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(b"first")
    (entry,) = list_files(tmp_path)
    replace_by(tmp_path / "a", data)
    with pytest.raises(OSError, match=r"/a was replaced by another file"):
        open_file(entry)
    with pytest.raises(OSError, match=r"/a was replaced by another file"):
        open_remaining(entry)


def test_a_listed_file_that_shrank_is_an_error_unless_its_reader_takes_what_remains(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_bytes(b"first")
    (entry,) = list_files(tmp_path)
    os.truncate(tmp_path / "a", 3)
    with pytest.raises(OSError, match=r"/a shrank to 3 bytes while bytes up to 5"):
        open_file(entry)
    with open_remaining(entry) as file:
        assert file.size == 3


def test_a_checkpoint_that_was_replaced_is_read_as_it_is_now(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"t 0 12")
    (entry,) = list_files(tmp_path)
    replace_by(tmp_path / "a", b"t 0 12345")
    assert read_bytes(entry) == b"t 0 12345"


def test_filling_from_a_file_that_ended_meanwhile_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    with open_file(tmp_path / "a") as file:
        file.fill(np.empty(60, dtype=np.uint8), 40, 60)
        os.truncate(tmp_path / "a", 70)
        with pytest.raises(OSError, match=r"/a shrank to 70 bytes while bytes up to 100"):
            file.fill(np.empty(60, dtype=np.uint8), 40, 60)


def test_no_link_hides_a_directory_by_another_name(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "a.log").write_bytes(b"a")
    for name in ("alpha-0", "zeta-0"):
        (tmp_path / name).symlink_to(tmp_path / "orders-0")
    assert [entry.path for entry in list_files(tmp_path)] == [str(tmp_path / "orders-0" / "a.log")]
