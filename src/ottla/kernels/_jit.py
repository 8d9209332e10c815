"""The one place that decides how kernels compile.

Every function compiles for one signature. What calls it from Python passes the same types every
time; what calls it from another kernel is compiled for the plain types of its arguments (`_plain`).
"""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from numba import types
from numba.core import config, event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.registry import CPUDispatcher

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
}


def kernel(function: F) -> F:
    """Compile for arrays only, without the GIL, cached so that workers do not compile again."""
    if INTERPRETED:
        return function
    compiled = _Kernel(function, targetoptions=_COMPILE)
    compiled.enable_caching()
    return cast(F, compiled)


def inlined(function: F) -> F:
    """Compile as a part of the kernels that call it, with no call left; Python can not call it."""
    if INTERPRETED:
        return function
    options = _COMPILE | {"forceinline": True, "no_cpython_wrapper": True}
    return cast(F, _Inlined(function, targetoptions=options, pipeline_class=_InlinedCompiler))


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


class _Inlined(_Kernel):
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


class _InlinedCompiler(CompilerBase):
    """Numba's own compiler, but for where its result goes."""

    def define_pipelines(self) -> list[Any]:
        state = self.state
        name = state.func_id.func_qualname
        state.library = _InlinedLibrary(state.targetctx.codegen(), name)  # type: ignore[no-untyped-call]
        return [DefaultPassBuilder.define_nopython_pipeline(state)]  # type: ignore[no-untyped-call]


class _InlinedLibrary(JITCodeLibrary):
    """Code to be linked into kernels: these are optimised and become machine code, it does not.

    Numba does both for every function, with all that is inlined into it, and so many times over.
    """

    def _optimize_final_module(self) -> None: ...

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        """There is none."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> "_InlinedLibrary":
        """Numba asks it for `set_env` only."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """An environment holds what exceptions say, and kernels raise none."""


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
