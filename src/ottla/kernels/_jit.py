"""The one place that decides how kernels compile, and where the compiled code is cached."""

import os
import stat
import sys
import tempfile
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import config

from ottla.strangers import distrust, weak_parent

i64 = cast(Callable[[object], int], np.int64)  # compiled, an int is 64 bits wide

F = TypeVar("F", bound=Callable[..., object])


def choose_cache() -> str | None:
    """A folder for compiled kernels that nobody else can write to; None, and why, if there is none.

    Numba unpickles what lies there. Its own choice is beside the source: that fails for a zip and
    for a read-only install. A folder that the user named is taken, or none.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    home = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    temporary = os.path.join(tempfile.gettempdir(), f"ottla-{os.geteuid()}")
    reasons = []
    for folder in [named] if named else [os.path.join(home, "ottla"), temporary]:
        why = _unfit(os.path.realpath(folder))
        if why is None and named:
            return folder
        if why is None:
            os.chmod(folder, 0o700)
            return os.path.join(folder, "kernels")
        reasons.append(f"{folder} {why}")
    sys.stderr.write(
        f"ottla: kernels are compiled anew in every process ({'; '.join(reasons)}): let"
        " NUMBA_CACHE_DIR name a folder that only you can write to\n"
    )
    return None


def _unfit(folder: str) -> str | None:
    """Why kernels can not be kept in a folder, which is made if there is none."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status, weak = os.lstat(folder), weak_parent(folder)
    except OSError as error:
        return f"can not be made: {error.strerror}"
    why = distrust(status)
    if why is not None:
        return why
    if weak is not None:
        return f"lies in {weak}, where others can put another in its place"
    # With the sticky bit too: others may not even add a file.
    if stat.S_IMODE(status.st_mode) & 0o022:
        return "can be written to by others"
    return None if os.access(folder, os.W_OK) else "can not be written to"


INTERPRETED: bool = config.DISABLE_JIT  # type: ignore[attr-defined]

_CACHE = None if INTERPRETED else choose_cache()
if _CACHE is not None:
    config.CACHE_DIR = _CACHE  # type: ignore[attr-defined]

# Kernels allocate nothing, so they need no reference counts; counting costs more than decoding.
_COMPILE: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def kernel(function: F) -> F:
    """Compile for arrays only, without the GIL, cached so that workers do not compile again."""
    return cast(F, njit(cache=_CACHE is not None, **_COMPILE)(function))


def inlined(function: F) -> F:
    """Compile as a part of the kernels that call it, with no call left."""
    return cast(F, njit(forceinline=True, **_COMPILE)(function))
