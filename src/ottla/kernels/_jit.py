"""The one place that decides how kernels compile, and where the compiled code is cached."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit
from numba.core import config

Bytes = npt.NDArray[np.uint8]
i64 = cast(Callable[[object], int], np.int64)  # compiled, an int is 64 bits wide

F = TypeVar("F", bound=Callable[..., object])


def _choose_cache() -> None:
    """Keep compiled kernels in a place that is ours and writable, unless the user named one.

    Numba's own choice is beside the source: that fails for a zip and for a read-only install.
    """
    if config.CACHE_DIR:  # type: ignore[attr-defined]
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla"
    try:
        home.mkdir(parents=True, exist_ok=True)
        usable = os.access(home, os.W_OK)
    except OSError:
        usable = False
    chosen = home if usable else Path(tempfile.gettempdir()) / f"ottla-{os.getuid()}"
    config.CACHE_DIR = str(chosen / "kernels")  # type: ignore[attr-defined]


_choose_cache()

INTERPRETED: bool = config.DISABLE_JIT  # type: ignore[attr-defined]

# Kernels allocate nothing, so they need no reference counts; counting costs more than decoding.
_COMPILE: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def kernel(function: F) -> F:
    """Compile for arrays only, without the GIL, cached so that workers do not compile again."""
    return cast(F, njit(cache=True, **_COMPILE)(function))


def inlined(function: F) -> F:
    """Compile as a part of the kernels that call it, with no call left."""
    return cast(F, njit(forceinline=True, **_COMPILE)(function))
