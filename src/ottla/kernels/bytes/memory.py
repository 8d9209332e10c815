"""Unaligned loads, stores and wide copies, each with an interpreted twin that checks the padding.

Kernels index bytes only through arrays; these are the few places where one instruction must touch
several bytes at once. Contract: PADDING readable bytes follow every source and PADDING writable
bytes every target, so that a copy may overshoot (see `ottla.region.PADDING`).
"""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ottla.format.arrays import Bytes
from ottla.kernels._jit import INTERPRETED, inlined

WIDE = 32  # bytes per copy step

_BYTE = ir.IntType(8)
_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_BYTE, WIDE)


def _address(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    # To compile only: what is kept is loaded without it.
    from numba.np.arrayobj import make_array

    data = make_array(array_type)(context, builder, array).data  # type: ignore[no-untyped-call]
    return builder.gep(builder.bitcast(data, _BYTE.as_pointer()), [at])


def _load_u64(typing_context: Any, data: Any, at: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.load(builder.bitcast(address, _WORD.as_pointer()), align=1)

    return types.uint64(data, types.int64), generate


def _store_u64(typing_context: Any, data: Any, at: Any, word: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store(arguments[2], builder.bitcast(address, _WORD.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.none(data, types.int64, types.uint64), generate


def _copy_32(typing_context: Any, target: Any, to: Any, source: Any, at: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        into = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        out = _address(context, builder, signature.args[2], arguments[2], arguments[3])
        vector = builder.load(builder.bitcast(out, _VECTOR.as_pointer()), align=1)
        builder.store(vector, builder.bitcast(into, _VECTOR.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.none(target, types.int64, source, types.int64), generate


def _bit_length(typing_context: Any, word: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        zeros = builder.ctlz(arguments[0], ir.IntType(1)(0))
        return builder.sub(_WORD(64), zeros)

    return types.int64(types.uint64), generate


def _prefetch(typing_context: Any, data: Any, at: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        flag = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [address.type], shape)
        builder.call(fetch, [address, flag(0), flag(3), flag(1)])  # to read, keep, data
        return context.get_dummy_value()

    return types.none(data, types.int64), generate


if INTERPRETED:

    def prefetch(data: npt.NDArray[Any], at: int) -> None:
        """Ask for the cache line of a byte that will be read soon; it may lie behind the end."""

    def bit_length(word: np.uint64) -> int:
        """How many bits a word needs; 0 needs none."""
        return int(word).bit_length()

    def load_u64(data: Bytes, at: int) -> np.uint64:
        """Eight bytes as a little-endian word."""
        assert 0 <= at <= data.size - 8
        return np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little"))

    def store_u64(data: Bytes, at: int, word: np.uint64) -> None:
        """Write a word as eight little-endian bytes."""
        assert 0 <= at <= data.size - 8
        data[at : at + 8] = np.frombuffer(int(word).to_bytes(8, "little"), dtype=np.uint8)

    def copy_32(target: Bytes, to: int, source: Bytes, at: int) -> None:
        """Copy 32 bytes."""
        assert 0 <= to <= target.size - WIDE
        assert 0 <= at <= source.size - WIDE
        target[to : to + WIDE] = source[at : at + WIDE]

else:
    bit_length = cast(Any, intrinsic(_bit_length))
    prefetch = cast(Any, intrinsic(_prefetch))
    load_u64 = cast(Any, intrinsic(_load_u64))
    store_u64 = cast(Any, intrinsic(_store_u64))
    copy_32 = cast(Any, intrinsic(_copy_32))


@inlined
def copy_wide(target: Bytes, to: int, source: Bytes, at: int, size: int) -> None:
    """Copy `size` bytes in pieces that may overshoot by up to 31."""
    done = 0
    while done < size:
        copy_32(target, to + done, source, at + done)
        done += WIDE
