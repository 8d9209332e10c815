"""Open the usual lz4 frames of many batches in one pass; a library's function decodes each block.

Usual is what Kafka writes: independent blocks of 64 KiB, no checksums. Whatever else there is, and
whatever is broken, is left to `ottla.codec.lz4`, row by row.
"""

import ctypes
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ottla.format.arrays import PADDING, Bytes, Int64s
from ottla.format.attributes import Codec
from ottla.kernels._jit import INTERPRETED, i64, inlined, kernel
from ottla.kernels.bytes.memory import _address, copy_wide, load_u64

NONE = int(Codec.NONE)
LZ4 = int(Codec.LZ4)
HEAD = np.uint64(int.from_bytes(b"\x04\x22\x4d\x18\x60\x40", "little"))
HEAD_MASK = np.uint64(0xFFFFFFFFFFFF)
CHECKSUM = 0x82
HEAD_SIZE = 7
BLOCK_SIZE = 1 << 16
STORED = 0x80000000

NO_ROOM = -1
UNUSUAL = -2


def _decode_block(
    typing_context: Any,  # noqa: ARG001
    function: Any,  # noqa: ARG001
    source: Any,
    at: Any,  # noqa: ARG001
    size: Any,  # noqa: ARG001
    target: Any,
    to: Any,  # noqa: ARG001
    capacity: Any,  # noqa: ARG001
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, source, at, size, target, to, capacity = arguments
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(number, [pointer, pointer, number, number])
        decode = builder.inttoptr(function, kind.as_pointer())
        read = _address(context, builder, signature.args[1], source, at)
        write = _address(context, builder, signature.args[4], target, to)
        sizes = [builder.trunc(value, number) for value in (size, capacity)]
        return builder.sext(builder.call(decode, [read, write, *sizes]), ir.IntType(64))

    whole = types.int64
    return whole(whole, source, whole, whole, target, whole, whole), generate


if INTERPRETED:
    _SIGNATURE = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int
    )

    def decode_block(
        function: int, source: Bytes, at: int, size: int, target: Bytes, to: int, capacity: int
    ) -> int:
        """Call LZ4_decompress_safe at its address; below 0 the block is broken."""
        assert 0 <= at <= at + size <= source.size
        assert 0 <= to <= to + capacity <= target.size
        read, write = source.ctypes.data + int(at), target.ctypes.data + int(to)
        return int(_SIGNATURE(function)(read, write, int(size), int(capacity)))

else:
    decode_block = cast(Any, intrinsic(_decode_block))


@inlined
def is_usual(data: Bytes, start: int, stop: int, magic: int) -> bool:
    """Whether a frame has the head that Kafka writes; magic 0 has a checksum that nobody checks."""
    if stop - start < HEAD_SIZE or load_u64(data, start) & HEAD_MASK != HEAD:
        return False
    return magic == 0 or data[start + HEAD_SIZE - 1] == CHECKSUM


@inlined
def open_frame(
    function: int, data: Bytes, at: int, stop: int, out: Bytes, to: int, most: int
) -> int:
    """Decode the blocks from `at` on; return where what came out ends, or why not."""
    while at + 4 <= stop:
        word = i64(load_u64(data, at) & np.uint64(0xFFFFFFFF))
        at += 4
        size = word & i64(STORED - 1)
        if size == 0:
            return to
        if size > BLOCK_SIZE or at + size > stop or to > most:
            return UNUSUAL
        if to + BLOCK_SIZE + PADDING > out.size:
            return NO_ROOM
        if word & i64(STORED):
            copy_wide(out, to, data, at, size)
            wrote = size
        else:
            wrote = decode_block(function, data, at, size, out, to, i64(BLOCK_SIZE))
        if wrote <= 0:
            return UNUSUAL
        at += size
        to += wrote
    return UNUSUAL


@kernel
def open_frames(
    function: int,
    data: Bytes,
    rows: tuple[Int64s, Int64s, Int64s, Int64s],
    first: int,
    limit: int,
    out: Bytes,
    at: int,
    found: Int64s,
) -> tuple[int, int, int]:
    """Decode rows from `first` on into `out` from `at` on, as long as they are usual.

    `rows` are codecs, magics, starts and stops. Of each row done, found[0] and found[1] say where
    it lies. Return the first row not done, where `out` ends, and whether room was missing.
    """
    codecs, magics, starts, stops = rows
    for row in range(first, codecs.size):
        if codecs[row] == NONE:
            continue
        if codecs[row] != LZ4 or not is_usual(data, starts[row], stops[row], magics[row]):
            return row, at, 0
        begin = starts[row] + HEAD_SIZE
        end = open_frame(function, data, begin, stops[row], out, at, at + limit)
        if end < 0 or end > at + limit:
            return row, at, i64(end == NO_ROOM)
        found[0, row] = at
        found[1, row] = end
        at = end
    return codecs.size, at, 0
