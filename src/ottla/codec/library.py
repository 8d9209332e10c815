"""Functions of the codec libraries that kernels can call: the way through Python costs more."""

import ctypes
import weakref
from collections.abc import Callable
from importlib.util import find_spec


def find_functions(module: str, *names: str) -> tuple[int, ...]:
    """The addresses of C functions in the library of a Python module; all 0 if it hides one."""
    spec = find_spec(module)
    if spec is None:
        return (0,) * len(names)
    # Debian's Python has its zlib built in: it is found as what the process itself has.
    path = None if spec.origin == "built-in" else spec.origin
    try:
        library = ctypes.CDLL(path)
        return tuple(ctypes.cast(library[name], ctypes.c_void_p).value or 0 for name in names)
    except (AttributeError, OSError):
        return (0,) * len(names)


class Workspace:
    """Memory in which a library decodes; threads must not share it, and it is freed with theirs."""

    def __init__(self, address: int, free: Callable[[], object]) -> None:
        if not address:
            raise MemoryError("a codec library got no memory to decode in")
        self.address = address
        # Not when Python ends: a thread may still be decoding then.
        weakref.finalize(self, free).atexit = False
