"""CRC-32C (magic 2, producer snapshots) and CRC-32 (magic 0 and 1) over a span of an array.

CRC-32C uses the processor's instruction on x86-64 with SSE4.2, three streams at a time for long
spans because the instruction takes three cycles but can start every cycle; elsewhere tables.
"""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from ottla.format.arrays import Bytes
from ottla.format.layout import CRC_COVERS, MESSAGE_CRC_COVERS
from ottla.kernels._jit import INTERPRETED, called, i64, inlined, kernel
from ottla.kernels.bytes.memory import load_u64, prefetch
from ottla.kernels.tables import Batches

CASTAGNOLI = 0x82F63B78
IEEE = 0xEDB88320
_MASK = np.uint64(0xFFFFFFFF)


def _slicing_tables(polynomial: int) -> npt.NDArray[np.uint64]:
    """Eight tables: what a byte becomes after 0 to 7 more zero bytes."""
    tables = np.zeros((8, 256), dtype=np.uint64)
    tables[0] = np.arange(256)
    for _ in range(8):
        tables[0] = _shift(tables[0], polynomial)
    for row in range(1, 8):
        before = tables[row - 1]
        tables[row] = (before >> np.uint64(8)) ^ tables[0][
            (before & np.uint64(0xFF)).astype(np.int64)
        ]
    return tables


def _shift(registers: npt.NDArray[np.uint64], polynomial: int) -> npt.NDArray[np.uint64]:
    """What registers become by one more bit, a 0."""
    odd = (registers & np.uint64(1)).astype(np.bool_)
    return (registers >> np.uint64(1)) ^ np.where(odd, np.uint64(polynomial), np.uint64(0))


def _zero_tables(size: int) -> npt.NDArray[np.uint64]:
    """Four tables that move a CRC-32C register past `size` zero bytes; `size` is a power of two."""
    # What each bit of a register becomes by one bit of zero, then by two, four and so on.
    step = _shift(np.uint64(1) << np.arange(32, dtype=np.uint64), CASTAGNOLI)
    bits = size * 8
    while bits > 1:
        step = _apply(step, step)
        bits //= 2
    shifts = np.array([[0], [8], [16], [24]], dtype=np.uint64)
    return _apply(step, np.arange(256, dtype=np.uint64) << shifts)


def _apply(
    operator: npt.NDArray[np.uint64], registers: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """What registers become, by what each of their bits does."""
    result = np.zeros_like(registers)
    for bit in range(32):
        result ^= (registers >> np.uint64(bit) & np.uint64(1)) * operator[bit]
    return result


_CRC32_TABLES = _slicing_tables(IEEE)
_CRC32C_TABLES = _slicing_tables(CASTAGNOLI)
_TINY = 64
_SHORT = 256
_LONG = 2048
_CACHE_LINE = 64
_AHEAD = 8192  # three short streams give the processor's own prefetching no time to start
_TINY_ZEROS = _zero_tables(_TINY)
_SHORT_ZEROS = _zero_tables(_SHORT)
_LONG_ZEROS = _zero_tables(_LONG)


def _has_sse42() -> bool:
    return not INTERPRETED and bool(binding.get_host_cpu_features().get("sse4.2", False))


@inlined
def _by_tables(
    tables: npt.NDArray[np.uint64], register: np.uint64, data: Bytes, start: int, stop: int
) -> np.uint64:
    byte = np.uint64(0xFF)
    at = start
    while at + 8 <= stop:
        word = load_u64(data, at) ^ register
        register = (
            tables[7, i64(word & byte)]
            ^ tables[6, i64((word >> np.uint64(8)) & byte)]
            ^ tables[5, i64((word >> np.uint64(16)) & byte)]
            ^ tables[4, i64((word >> np.uint64(24)) & byte)]
            ^ tables[3, i64((word >> np.uint64(32)) & byte)]
            ^ tables[2, i64((word >> np.uint64(40)) & byte)]
            ^ tables[1, i64((word >> np.uint64(48)) & byte)]
            ^ tables[0, i64(word >> np.uint64(56))]
        )
        at += 8
    while at < stop:
        register = tables[0, i64((register ^ np.uint64(data[at])) & byte)] ^ (
            register >> np.uint64(8)
        )
        at += 1
    return register


@inlined
def crc32_register(register: np.uint64, data: Bytes, start: int, stop: int) -> np.uint64:
    """The register of CRC-32 after data[start:stop], nothing inverted before or after."""
    return _by_tables(_CRC32_TABLES, register, data, start, stop)


@called
def crc32(data: Bytes, start: int, stop: int) -> int:
    """CRC-32 of data[start:stop], as zlib has it."""
    return i64(_by_tables(_CRC32_TABLES, _MASK, data, start, stop) ^ _MASK)


@kernel
def crc32c_by_tables(data: Bytes, start: int, stop: int) -> int:
    """CRC-32C of data[start:stop], on any processor."""
    return i64(_by_tables(_CRC32C_TABLES, _MASK, data, start, stop) ^ _MASK)


def _crc32_word(typing_context: Any, register: Any, word: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        word_type = ir.IntType(64)
        step = builder.module.declare_intrinsic(
            "llvm.x86.sse42.crc32.64.64", (), ir.FunctionType(word_type, [word_type, word_type])
        )
        return builder.call(step, arguments)

    return types.uint64(types.uint64, types.uint64), generate


if _has_sse42():
    crc32_word = cast(Any, intrinsic(_crc32_word))

    @inlined
    def _past_zeros(zeros: npt.NDArray[np.uint64], register: np.uint64) -> np.uint64:
        byte = np.uint64(0xFF)
        moved: np.uint64 = (
            zeros[0, i64(register & byte)]
            ^ zeros[1, i64((register >> np.uint64(8)) & byte)]
            ^ zeros[2, i64((register >> np.uint64(16)) & byte)]
            ^ zeros[3, i64(register >> np.uint64(24))]
        )
        return moved

    @inlined
    def _three_streams(
        zeros: npt.NDArray[np.uint64], size: int, register: np.uint64, data: Bytes, at: int
    ) -> np.uint64:
        second = np.uint64(0)
        third = np.uint64(0)
        for line in range(0, size, _CACHE_LINE):
            prefetch(data, at + line + _AHEAD)
            prefetch(data, at + size + line + _AHEAD)
            prefetch(data, at + 2 * size + line + _AHEAD)
            for index in range(line, line + _CACHE_LINE, 8):
                register = crc32_word(register, load_u64(data, at + index))
                second = crc32_word(second, load_u64(data, at + size + index))
                third = crc32_word(third, load_u64(data, at + 2 * size + index))
        register = _past_zeros(zeros, register) ^ second
        return _past_zeros(zeros, register) ^ third

    @inlined
    def crc32c_register(register: np.uint64, data: Bytes, start: int, stop: int) -> np.uint64:
        """The register of CRC-32C after data[start:stop], nothing inverted before or after."""
        at = start
        while at + 8 <= stop:
            register = crc32_word(register, load_u64(data, at))
            at += 8
        return _by_tables(_CRC32C_TABLES, register, data, at, stop)

    @inlined
    def crc32c_inlined(data: Bytes, start: int, stop: int) -> int:
        """The body of `crc32c`, for kernels that call it per batch."""
        register = _MASK
        at = start
        while at + 3 * _LONG <= stop:
            register = _three_streams(_LONG_ZEROS, _LONG, register, data, at)
            at += 3 * _LONG
        while at + 3 * _SHORT <= stop:
            register = _three_streams(_SHORT_ZEROS, _SHORT, register, data, at)
            at += 3 * _SHORT
        while at + 3 * _TINY <= stop:
            register = _three_streams(_TINY_ZEROS, _TINY, register, data, at)
            at += 3 * _TINY
        while at + 8 <= stop:
            register = crc32_word(register, load_u64(data, at))
            at += 8
        return i64(_by_tables(_CRC32C_TABLES, register, data, at, stop) ^ _MASK)

    @kernel
    def crc32c(data: Bytes, start: int, stop: int) -> int:
        """CRC-32C of data[start:stop]."""
        return crc32c_inlined(data, start, stop)

else:

    @inlined
    def crc32c_register(register: np.uint64, data: Bytes, start: int, stop: int) -> np.uint64:
        """The register of CRC-32C after data[start:stop], nothing inverted before or after."""
        return _by_tables(_CRC32C_TABLES, register, data, start, stop)

    crc32c = crc32c_by_tables
    crc32c_inlined = crc32c_by_tables


@inlined
def compute_crc(data: Bytes, at: int, row: int, batches: Batches) -> None:
    """Fill `computed_crc` of the batch at data[at]."""
    stop = at + batches.size[row]
    if batches.magic[row] < 2:
        batches.computed_crc[row] = crc32(data, at + MESSAGE_CRC_COVERS, stop)
    else:
        batches.computed_crc[row] = crc32c_inlined(data, at + CRC_COVERS, stop)


@kernel
def compute_crcs(data: Bytes, origin: int, batches: Batches) -> None:
    """Fill `computed_crc` of every batch; `origin` is the file position of data[0]."""
    for row in range(batches.position.size):
        compute_crc(data, batches.position[row] - origin, row, batches)
