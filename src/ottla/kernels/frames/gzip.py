"""Open the usual gzip streams of many batches in one pass; zlib's own function inflates each.

Usual is one member with a plain head, as Kafka writes it, in few bytes: ISA-L, which is faster at
large ones, has no function that could be called so. zlib checks the CRC-32 and the size in the
trailer. Whatever else there is, and whatever is broken, is left to `ottla.codec.gzip`, row by row.
"""

import ctypes
from typing import Any, Final, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ottla.format.arrays import PADDING, Bytes, Int64s
from ottla.format.attributes import Codec
from ottla.kernels._jit import INTERPRETED, i64, inlined, kernel
from ottla.kernels.bytes.memory import _address, load_u64

NONE = int(Codec.NONE)
GZIP = int(Codec.GZIP)
HEAD = np.uint64(int.from_bytes(b"\x1f\x8b\x08\x00", "little"))  # the last byte: no flags
HEAD_MASK = np.uint64(0xFFFFFFFF)
LEAST = 18  # head and trailer
SIZE_SIZE = 4  # the last bytes of a trailer say how many bytes come out
TINY = 2048  # what is more, ISA-L inflates faster, and that it is called from Python matters less
MAX_EXPANSION = 1032  # of deflate: two bits for 258 bytes
SLACK = 512  # zlib goes byte by byte where fewer than 258 bytes of room are left

Z_FINISH = 4
Z_STREAM_END = 1


class ZStream(ctypes.Structure):
    """z_stream of zlib.h, which has been the same since 1995."""

    _fields_ = (
        ("next_in", ctypes.c_void_p),
        ("avail_in", ctypes.c_uint),
        ("total_in", ctypes.c_ulong),
        ("next_out", ctypes.c_void_p),
        ("avail_out", ctypes.c_uint),
        ("total_out", ctypes.c_ulong),
        ("msg", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
        ("zalloc", ctypes.c_void_p),
        ("zfree", ctypes.c_void_p),
        ("opaque", ctypes.c_void_p),
        ("data_type", ctypes.c_int),
        ("adler", ctypes.c_ulong),
        ("reserved", ctypes.c_ulong),
    )


_NEXT_IN: Final[int] = ZStream.next_in.offset
_AVAIL_IN: Final[int] = ZStream.avail_in.offset
_NEXT_OUT: Final[int] = ZStream.next_out.offset
_AVAIL_OUT: Final[int] = ZStream.avail_out.offset


def _inflate_member(
    typing_context: Any,  # noqa: ARG001
    reset: Any,  # noqa: ARG001
    inflate: Any,  # noqa: ARG001
    stream: Any,  # noqa: ARG001
    source: Any,
    at: Any,  # noqa: ARG001
    size: Any,  # noqa: ARG001
    target: Any,
    to: Any,  # noqa: ARG001
    capacity: Any,  # noqa: ARG001
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        reset, inflate, stream, source, at, size, target, to, capacity = arguments
        number, whole, pointer = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
        known = builder.inttoptr(stream, pointer)

        def field(offset: int, kind: Any) -> Any:
            address = builder.gep(known, [whole(offset)])
            return builder.bitcast(address, kind.as_pointer())

        read = _address(context, builder, signature.args[3], source, at)
        write = _address(context, builder, signature.args[6], target, to)
        kind = ir.FunctionType(number, [pointer])
        builder.call(builder.inttoptr(reset, kind.as_pointer()), [known])
        builder.store(read, field(_NEXT_IN, pointer))
        builder.store(builder.trunc(size, number), field(_AVAIL_IN, number))
        builder.store(write, field(_NEXT_OUT, pointer))
        builder.store(builder.trunc(capacity, number), field(_AVAIL_OUT, number))
        kind = ir.FunctionType(number, [pointer, number])
        ended = builder.call(
            builder.inttoptr(inflate, kind.as_pointer()), [known, number(Z_FINISH)]
        )
        unread = builder.load(field(_AVAIL_IN, number))
        unused = builder.zext(builder.load(field(_AVAIL_OUT, number)), whole)
        good = builder.and_(
            builder.icmp_signed("==", ended, number(Z_STREAM_END)),
            builder.icmp_signed("==", unread, number(0)),
        )
        return builder.select(good, builder.sub(capacity, unused), whole(-1))

    whole = types.int64
    return whole(whole, whole, whole, source, whole, whole, target, whole, whole), generate


if INTERPRETED:
    _RESET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    _INFLATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)

    def inflate_member(
        reset: int,
        inflate: int,
        stream: int,
        source: Bytes,
        at: int,
        size: int,
        target: Bytes,
        to: int,
        capacity: int,
    ) -> int:
        """Call inflate at its address; what came out, or below 0 if it is not all or broken."""
        assert 0 <= at <= at + size <= source.size
        assert 0 <= to <= to + capacity <= target.size
        known = ZStream.from_address(stream)
        _RESET(reset)(stream)
        known.next_in, known.avail_in = source.ctypes.data + int(at), int(size)
        known.next_out, known.avail_out = target.ctypes.data + int(to), int(capacity)
        ended = _INFLATE(inflate)(stream, Z_FINISH)
        good = ended == Z_STREAM_END and known.avail_in == 0
        return int(capacity) - known.avail_out if good else -1

else:
    inflate_member = cast(Any, intrinsic(_inflate_member))


@inlined
def claimed_size(data: Bytes, start: int, stop: int) -> int:
    """How much a usual member says that comes out; -1 for any other."""
    size = stop - start
    if size < LEAST or size > TINY or load_u64(data, start) & HEAD_MASK != HEAD:
        return -1
    claimed = i64(load_u64(data, stop - SIZE_SIZE) & np.uint64(0xFFFFFFFF))
    return claimed if claimed <= MAX_EXPANSION * size else i64(-1)


@kernel
def open_frames(
    reset: int,
    inflate: int,
    stream: int,
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
        claimed = claimed_size(data, start, stops[row]) if codecs[row] == GZIP else i64(-1)
        if claimed < 0 or claimed > limit:
            return row, at, 0
        if at + claimed + SLACK + PADDING > out.size:
            return row, at, 1
        wrote = inflate_member(
            reset, inflate, stream, data, start, size, out, at, claimed + i64(SLACK)
        )
        if wrote < 0:
            return row, at, 0
        found[0, row] = at
        found[1, row] = at + wrote
        at += wrote
    return codecs.size, at, 0
