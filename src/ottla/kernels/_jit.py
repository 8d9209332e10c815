"""The one place that decides how kernels compile.

Every function compiles for one signature. What calls it from Python passes the same types every
time; what calls it from another kernel is compiled for the plain types of its arguments (`_plain`).
"""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from numba import types
from numba.core import config, event
from numba.core.registry import CPUDispatcher

from ottla.kernels._compiler import KernelCompiler, PartCompiler
from ottla.kernels.cache import KernelCache, choose_cache
from ottla.notices import COMPILING

i64 = cast(Callable[[object], int], np.int64)  # compiled, an int is 64 bits wide

F = TypeVar("F", bound=Callable[..., object])

INTERPRETED: bool = config.DISABLE_JIT  # type: ignore[attr-defined]

_CACHE = None if INTERPRETED else choose_cache()

# Kernels allocate nothing, so they need no reference counts; counting costs more than decoding.
# Nobody calls them through pointers of C.
_COMPILE: dict[str, Any] = {
    "nopython": True,
    "boundscheck": None,
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
    "forceinline": False,  # else what an inlined function calls is inlined as well
}


def kernel(function: F) -> F:
    """Compile for arrays only, without the GIL, cached so that workers do not compile again."""
    if INTERPRETED:
        return function
    compiled = _Kernel(function, targetoptions=_COMPILE, pipeline_class=KernelCompiler)
    compiled.enable_caching()
    return cast(F, compiled)


def called(function: F) -> F:
    """Compile for other kernels that call it; Python can not."""
    return _part(function, {})


def inlined(function: F) -> F:
    """Compile as a part of the kernels that call it, with no call left; Python can not call it."""
    return _part(function, {"forceinline": True})


def _part(function: F, more: dict[str, Any]) -> F:
    if INTERPRETED:
        return function
    options = _COMPILE | {"no_cpython_wrapper": True} | more
    return cast(F, _KernelPart(function, targetoptions=options, pipeline_class=PartCompiler))


class _Kernel(CPUDispatcher):
    """A function that other kernels call with plain types only."""

    def enable_caching(self) -> None:
        """Keep what is compiled, if there is a folder for it."""
        if _CACHE is not None:
            self._cache = KernelCache(self.py_func, _CACHE)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Numba would compile once for each literal, and once for arrays that are read-only."""
        plain = {name: _plain(kind) for name, kind in kws.items()}
        return super().get_call_template([_plain(kind) for kind in args], plain)


class _KernelPart(_Kernel):
    """A function that has no machine code of its own."""

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{self.py_func.__name__} is for kernels: it is compiled into them only")


class _Listener(event.Listener):
    """Lets people know that our functions compile; those of others are none of our business."""

    def on_start(self, event: Any) -> None:
        if isinstance(event.data["dispatcher"], _Kernel):
            COMPILING.go_on()

    def on_end(self, event: Any) -> None:
        self.on_start(event)


event.register("numba:compile", _Listener())  # type: ignore[no-untyped-call]


def _plain(kind: Any) -> Any:
    """A type without what only says more than functions need: literal, narrow, read-only.

    That no kernel writes to a read-only array is seen where kernels are interpreted.
    """
    kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
    if kind in (types.int8, types.int16, types.int32):
        return types.int64
    if isinstance(kind, types.Array) and not kind.mutable:
        return kind.copy(readonly=False)
    return kind
