"""Numba's compiler without what kernels have no use for: people wait for it, on their first day."""

from typing import Any, Final

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import (
    AnnotateTypes,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    TranslateByteCode,
)


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _LowerPlainIndexes(NativeLowering):
    """Take every index as it is. To Numba -1 is the last item, so it compares each with 0.

    No kernel has a negative index: `make test-bounds` compiles them so that one raises.
    """

    def run_pass(self, state: Any) -> bool:
        from numba.np import arrayobj  # to compile only: what is kept is loaded without it

        wrapping = arrayobj.fix_integer_index
        arrayobj.fix_integer_index = _take_as_it_is  # Numba compiles in one thread at a time
        try:
            return bool(super().run_pass(state))  # type: ignore[no-untyped-call]
        finally:
            arrayobj.fix_integer_index = wrapping


def _take_as_it_is(context: Any, builder: Any, kind: Any, index: Any, _size: Any) -> Any:
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


# Numba has as many again for what no kernel has: closures, `with`, messages of exceptions, loops
# over tuples, expressions of whole arrays. After each it looks at every variable once more.
_PASSES: Final = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    GenericRewrites,
    ReconstructSSA,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    AnnotateTypes,
    _LowerPlainIndexes,
    NoPythonBackend,
)
_WRAPPER: Final = "_ZN7cpython"  # how Numba's names of functions for Python begin


class KernelCompiler(CompilerBase):
    """Makes what Python can call."""

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.library = self._library(state.targetctx.codegen(), state.func_id.func_qualname)
        passes = PassManager("kernel")  # type: ignore[no-untyped-call]
        for one in _PASSES:
            passes.add_pass(one, one.__name__)  # type: ignore[no-untyped-call]
        passes.finalize()  # type: ignore[no-untyped-call]
        return [passes]

    def _library(self, codegen: Any, name: str) -> JITCodeLibrary:
        library = _KernelLibrary(codegen, name)  # type: ignore[no-untyped-call]
        library.enable_object_caching()  # type: ignore[no-untyped-call]
        return library


class PartCompiler(KernelCompiler):
    """Makes what only kernels call."""

    def _library(self, codegen: Any, name: str) -> JITCodeLibrary:
        return _PartLibrary(codegen, name)  # type: ignore[no-untyped-call]


class _KernelLibrary(JITCodeLibrary):
    """Code that is optimised, but for what takes the arguments from Python.

    That is code for every array of every table, and runs once in a call.
    """

    def add_ir_module(self, ir_module: Any) -> None:
        for function in ir_module.functions:
            if function.name.startswith(_WRAPPER) and not function.is_declaration:
                function.attributes.add("noinline")
                function.attributes.add("optnone")
        super().add_ir_module(ir_module)  # type: ignore[no-untyped-call]


class _PartLibrary(JITCodeLibrary):
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
    def codegen(self) -> "_PartLibrary":
        """Numba asks it for `set_env` only."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """An environment holds what exceptions say, and kernels raise none."""
