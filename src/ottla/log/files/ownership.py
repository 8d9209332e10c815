"""Whether a broker is running on a log directory: it holds a lock on the file `.lock` there.

A file that a broker may truncate must not be mapped: reading a mapping past the new end kills the
process.
"""

import fcntl
import os
import struct
import sys
from typing import Final

_LOCK_FILE: Final = ".lock"  # LogManager.LockFileName
_FLOCK: Final = struct.Struct("@hhqqi")  # struct flock of Linux: type, whence, start, length, pid


def may_be_owned(log: str) -> bool:
    """Whether a broker may be writing to a segment file `LOG_DIR/TOPIC-PARTITION/SEGMENT.log`."""
    lock = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(log))), _LOCK_FILE)
    if not os.path.exists(lock):
        return False
    if not sys.platform.startswith("linux") or not os.access(lock, os.R_OK):
        return True
    with open(lock, "rb") as file:
        # Asking takes no lock, so that a broker which is starting is not disturbed.
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        found, *_ = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return bool(found != fcntl.F_UNLCK)
