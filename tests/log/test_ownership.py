"""A running broker's lock is seen, from another process as a broker's is, and never disturbed."""

import subprocess
import sys
from pathlib import Path

from ottla.log.files.ownership import may_be_owned

HOLD = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_only_a_lock_that_somebody_holds_makes_a_directory_owned(tmp_path: Path) -> None:
    log = tmp_path / "orders-0" / "00000000000000000000.log"
    log.parent.mkdir()
    assert not may_be_owned(str(log))  # a backup has no .lock
    (tmp_path / ".lock").touch()
    assert not may_be_owned(str(log))  # a stopped broker leaves it behind
    command = [sys.executable, "-c", HOLD, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert may_be_owned(str(log))
        holder.communicate()
    assert not may_be_owned(str(log))
