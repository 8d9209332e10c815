"""Copies of local files, by the file system itself where it can; never a second name of a file."""

import errno
import os
import shutil
import sys
from contextlib import suppress
from typing import Final

from ottla.storage.paths import Path, local_path

_SHARE_BLOCKS: Final = 0x40049409  # FICLONE of Linux
_CAN_NOT: Final = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file to a new name; the copy is durable, its name is not yet."""
    with open(local_path(source), "rb") as read, open(local_path(target), "xb") as written:
        files = read.fileno(), written.fileno()
        if not (_shares_blocks(*files) or _copies(*files)):
            shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())


def _shares_blocks(source: int, target: int) -> bool:
    """Whether the copy shares the blocks of the original until one of them is written to."""
    if sys.platform != "linux":
        return False
    import fcntl

    with suppress(OSError):
        fcntl.ioctl(target, _SHARE_BLOCKS, source)
        return True
    return False


def _copies(source: int, target: int) -> bool:
    """Whether the kernel copied all of it; if it can not, nothing was."""
    if not hasattr(os, "copy_file_range"):
        return False
    left = os.fstat(source).st_size
    copied = 0
    while left > 0:
        try:
            count = os.copy_file_range(source, target, left)
        except OSError as error:
            if copied == 0 and error.errno in _CAN_NOT:
                return False
            raise
        if count == 0 and copied == 0:
            return False  # as some kernels say that they can not
        if count == 0:
            break
        copied, left = copied + count, left - count
    return True
