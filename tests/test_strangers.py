"""Whom a path lets in: owners, groups, the sticky bit and links."""

import grp
import os
import pwd
from pathlib import Path

import pytest

from ottla.strangers import distrust, weak_parent

CASES = [
    pytest.param(0o700, None, id="ours"),
    pytest.param(0o755, None, id="read-by-all"),
    pytest.param(0o757, "can be written to by others", id="written-by-all"),
    pytest.param(0o1777, None, id="sticky"),
]


@pytest.mark.parametrize(("mode", "why"), CASES)
def test_a_folder_is_believed_by_its_rights(tmp_path: Path, mode: int, why: str | None) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert distrust(folder.lstat()) == why
    assert weak_parent(str(folder / "inside")) == (str(folder) if why else None)


def test_the_sticky_bit_of_a_file_protects_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o1646)
    assert distrust((tmp_path / "file").lstat()) == "can be written to by others"


def test_a_link_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert distrust((tmp_path / "link").lstat()) == "is a link"


def test_a_group_may_write_if_its_only_member_is_the_user(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to any group")
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o775)
    user = pwd.getpwuid(0)
    other = next(one.gr_gid for one in grp.getgrall() if one.gr_gid != user.pw_gid)
    os.chown(folder, 0, user.pw_gid)
    assert distrust(folder.lstat()) is None
    os.chown(folder, 0, other)
    assert distrust(folder.lstat()) == "can be written to by others"
    os.chown(folder, 65534, user.pw_gid)
    assert (distrust(folder.lstat()) or "").startswith("belongs to user ")
