"""Where compiled kernels are kept: a folder that only we write to, and that only ours go to."""

import hashlib
import inspect
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from ottla.strangers import distrust, weak_parent

# Of a file that lost its end with the power (Numba renames without a sync), or that an older
# version kept: Numba unpickles names of classes, which may be gone, before it looks at the stamp.
_TORN: Final = (
    AttributeError,
    EOFError,
    ImportError,
    IndexError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)
_SOURCES: Final = ("kernels", "format")  # of which compiled kernels are made


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
        # Resolved once: who owns a link on the way could let it lead elsewhere later.
        real = os.path.realpath(folder)
        is_planted = folder == temporary and os.path.islink(folder)
        why = "is a link" if is_planted else _unfit(real)
        if why is None and named:
            return real
        if why is None:
            os.chmod(real, 0o700)
            return os.path.join(real, "kernels")
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
        return f"cannot be made: {error.strerror}"
    why = distrust(status)
    if why is not None:
        return why
    if weak is not None:
        return f"lies in {weak}, where others can put another in its place"
    # With the sticky bit too: others may not even add a file.
    if stat.S_IMODE(status.st_mode) & 0o022:
        return "can be written to by others"
    return None if os.access(folder, os.W_OK) else "cannot be written to"


class KernelCache(FunctionCache):
    """The compiled forms of one kernel; what can not be read or written is compiled again.

    Numba's own cache lets one setting of the process name the folder, for everybody's functions.
    """

    def __init__(self, function: Callable[..., object], folder: str) -> None:
        self._impl_class = lambda kernel: _Kept(kernel, folder)  # type: ignore[assignment]
        super().__init__(function)  # type: ignore[no-untyped-call]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form for a signature, if it is kept.

        Numba first has its context learn all that compiled code might be made of, for a fifth of a
        second; what is kept is made already, and compiling has the context learn it anyway.
        """
        try:
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except (OSError, *_TORN):
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled form, if there is room."""
        try:
            self._save(sig, data)
        except OSError:
            self.disable()  # type: ignore[no-untyped-call]

    def _save(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except _TORN:
            self.flush()  # type: ignore[no-untyped-call]
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


class _Kept(CompileResultCacheImpl):
    """What Numba's class does, but for a folder that is given."""

    def __init__(self, function: Callable[..., object], folder: str) -> None:
        file = inspect.getfile(function)
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Place(file, self._lineno, folder)
        module = os.path.splitext(os.path.basename(file))[0]
        name = f"{module}.{function.__qualname__}"
        self._filename_base = self.get_filename_base(name, sys.abiflags)  # type: ignore[no-untyped-call]


class _Place(_CacheLocator):
    """Where one kernel is kept, and until when it is good."""

    def __init__(self, file: str, line: int, folder: str) -> None:
        name = self.get_suitable_cache_subpath(file)  # type: ignore[no-untyped-call]
        self._path = os.path.join(folder, name)
        self._line = line

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return sources_stamp()

    def get_disambiguator(self) -> str:
        return str(self._line)


@cache
def sources_stamp() -> str:
    """A hash of all that kernels are made of.

    Numba looks at the file of a kernel alone, but what is inlined into it lies in others.
    """
    total = hashlib.sha256()
    for folder in _SOURCES:
        for source in _modules(files("ottla") / folder):
            data = source.read_bytes()
            total.update(b"%s %d\n" % (source.name.encode(), len(data)))
            total.update(data)
    return total.hexdigest()


def _modules(folder: Traversable) -> Iterator[Traversable]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _modules(entry)
        elif entry.name.endswith(".py"):
            yield entry
