"""Whether somebody else could have put a file there, or can change it: then it is not believed.

Root is one user like any other here: what it does with a stranger's file, it does for the stranger.
"""

import grp
import os
import pwd
import stat


def distrust(status: os.stat_result) -> str | None:
    """Why a file or folder, as `os.lstat` has it, may be another's doing; None if it is ours alone.

    A group counts as others, since on many machines all users share one, unless it is the one that
    a Linux distribution makes for each user. Write rights that an access list gives show in the
    bits of the group too. In a folder with the sticky bit others may add, but take nothing away.
    """
    if stat.S_ISLNK(status.st_mode):
        return "is a link"
    if status.st_uid != os.geteuid():
        return f"belongs to {_user(status.st_uid)}"
    return "can be written to by others" if _others_write(status) else None


def weak_parent(path: str) -> str | None:
    """The first folder above a path in which others could put something else in its place."""
    folder = os.path.dirname(os.path.realpath(path))
    while True:
        status = os.lstat(folder)
        if status.st_uid not in (0, os.geteuid()) or _others_write(status):
            return folder
        if folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)


def _others_write(status: os.stat_result) -> bool:
    mode = status.st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_ISVTX:
        return False
    shared = mode & stat.S_IWGRP and not _is_private(status.st_gid)
    return bool(mode & stat.S_IWOTH or shared)


def _is_private(group: int) -> bool:
    """Whether the effective user is alone in a group that has the same name."""
    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    alone = set(found.gr_mem) <= {user.pw_name}
    return user.pw_gid == group and user.pw_name == found.gr_name and alone


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
