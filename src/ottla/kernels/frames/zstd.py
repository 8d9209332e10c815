"""Open the usual zstd frames of many batches in one pass; a library's function decodes each frame.

Usual is what Kafka and other clients write of at most 128 KiB: one frame, one block with
everything, and perhaps an empty one from closing the stream. The size of the content and a
checksum, which Kafka does not write, are the library's to check. Whatever else there is, and
whatever is broken, is left to `ottla.codec.zstd`, row by row. A larger frame would gain little,
and the library's function for whole frames lets some of them pass that its stream refuses: blocks
that are too large, windows that are too large.
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
from ottla.kernels.bytes.memory import _address, load_u64

NONE = int(Codec.NONE)
ZSTD = int(Codec.ZSTD)
MAGIC = np.uint64(int.from_bytes(b"\x28\xb5\x2f\xfd", "little"))
MAGIC_MASK = np.uint64(0xFFFFFFFF)
MAGIC_SIZE = 4
# The descriptor: two bits for how many bytes of content size follow, and these.
SINGLE_SEGMENT = 0x20  # no byte for the window, which is as large as the content
CHECKSUM = 0x04
UNUSUAL_BITS = 0x1B  # a dictionary, and what is reserved
CONTENT_SIZES = 0x8420
SHORT_CONTENT = 0x100  # a content size of two bytes counts from here
CHECKSUM_SIZE = 4
MIN_WINDOW_LOG = 10
MAX_WINDOW_LOG = 27  # a stream refuses windows above 128 MiB: these are left to it
BLOCK_HEAD = 3
MAX_BLOCK_SIZE = 1 << 17
RAW, COMPRESSED = 0, 2
END_BLOCK = 1  # the last one, raw, with nothing in it


def _decode_frame(
    typing_context: Any,  # noqa: ARG001
    function: Any,  # noqa: ARG001
    workspace: Any,  # noqa: ARG001
    source: Any,
    at: Any,  # noqa: ARG001
    size: Any,  # noqa: ARG001
    target: Any,
    to: Any,  # noqa: ARG001
    capacity: Any,  # noqa: ARG001
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, workspace, source, at, size, target, to, capacity = arguments
        number, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(number, [pointer, pointer, number, pointer, number])
        decode = builder.inttoptr(function, kind.as_pointer())
        known = builder.inttoptr(workspace, pointer)
        read = _address(context, builder, signature.args[2], source, at)
        write = _address(context, builder, signature.args[5], target, to)
        return builder.call(decode, [known, write, capacity, read, size])

    whole = types.int64
    return whole(whole, whole, source, whole, whole, target, whole, whole), generate


if INTERPRETED:
    _SIGNATURE = ctypes.CFUNCTYPE(
        ctypes.c_ssize_t,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_size_t,
    )

    def decode_frame(
        function: int,
        workspace: int,
        source: Bytes,
        at: int,
        size: int,
        target: Bytes,
        to: int,
        capacity: int,
    ) -> int:
        """Call ZSTD_decompressDCtx at its address; below 0 the frame is broken or too large."""
        assert 0 <= at <= at + size <= source.size
        assert 0 <= to <= to + capacity <= target.size
        read, write = source.ctypes.data + int(at), target.ctypes.data + int(to)
        return int(_SIGNATURE(function)(workspace, write, int(capacity), read, int(size)))

else:
    decode_frame = cast(Any, intrinsic(_decode_frame))


@inlined
def read_head(data: Bytes, start: int, stop: int) -> tuple[int, int, int]:
    """Where the blocks of a frame begin, what a block may hold, and what comes out at most.

    Where they begin is -1 for an unusual head. It may lie behind `stop`.
    """
    unusual = i64(-1), i64(0), i64(0)
    if start + MAGIC_SIZE + 2 > stop or load_u64(data, start) & MAGIC_MASK != MAGIC:
        return unusual
    descriptor = i64(data[start + MAGIC_SIZE])
    at = start + MAGIC_SIZE + 1
    if descriptor & UNUSUAL_BITS:
        return unusual
    single = descriptor & SINGLE_SEGMENT != 0
    width = i64(CONTENT_SIZES) >> (i64(4) * (descriptor >> i64(6))) & i64(15)
    most = i64(MAX_BLOCK_SIZE)
    if single:
        width = max(width, i64(1))
    else:
        window_log = i64(MIN_WINDOW_LOG) + (i64(data[at]) >> i64(3))
        if window_log >= MAX_WINDOW_LOG:
            return unusual
        most = min(most, i64(1) << window_log)
        at += 1
    if width == 0:
        return at, most, most
    word = load_u64(data, at)
    if width < 8:
        word &= (np.uint64(1) << np.uint64(8 * width)) - np.uint64(1)
    if word > np.uint64(MAX_BLOCK_SIZE):
        return unusual
    content = i64(word) + i64(SHORT_CONTENT if width == 2 else 0)
    if single:
        most = content
    if content > most or content > MAX_BLOCK_SIZE:
        return unusual
    return at + width, most, content


@inlined
def usual_bound(data: Bytes, start: int, stop: int) -> int:
    """No more than this comes out of a usual frame; -1 for any other."""
    at, most, bound = read_head(data, start, stop)
    if at < 0 or at + BLOCK_HEAD > stop:
        return -1
    block = i64(load_u64(data, at) & np.uint64(0xFFFFFF))
    kind, size = (block >> 1) & 3, block >> 3
    at += BLOCK_HEAD + size
    if (kind != RAW and kind != COMPRESSED) or size > most or at > stop:
        return -1
    if not block & 1:
        if i64(load_u64(data, at) & np.uint64(0xFFFFFF)) != END_BLOCK:
            return -1
        at += BLOCK_HEAD
    if data[start + MAGIC_SIZE] & CHECKSUM:
        at += CHECKSUM_SIZE
    return bound if at == stop else i64(-1)


@kernel
def open_frames(
    function: int,
    workspace: int,
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
    codecs, _, starts, stops = rows
    for row in range(first, codecs.size):
        if codecs[row] == NONE:
            continue
        start, size = starts[row], stops[row] - starts[row]
        bound = usual_bound(data, start, stops[row]) if codecs[row] == ZSTD else i64(-1)
        if bound < 0:
            return row, at, 0
        if at + bound + PADDING > out.size:
            return row, at, 1
        wrote = decode_frame(function, workspace, data, start, size, out, at, bound)
        if wrote < 0 or wrote > limit:
            return row, at, 0
        found[0, row] = at
        found[1, row] = at + wrote
        at += wrote
    return codecs.size, at, 0
