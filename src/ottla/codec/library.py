"""Functions of the codec libraries that kernels can call: the way through Python costs more."""

import ctypes
from importlib.util import find_spec


def find_function(module: str, name: str) -> int:
    """The address of a C function in the library of a Python module; 0 where that hides it."""
    spec = find_spec(module)
    if spec is None:
        return 0
    try:
        function = ctypes.CDLL(spec.origin)[name]
    except (AttributeError, OSError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
