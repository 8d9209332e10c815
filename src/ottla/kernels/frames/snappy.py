"""Open the usual snappy streams of many batches in one pass, and decode their blocks.

Usual is xerial framing with one header, as Kafka writes it, or one raw block, as other clients do.
Whatever else there is, and whatever is broken, is left to `ottla.codec.snappy`, row by row.
"""

import numpy as np

from ottla.format.arrays import PADDING, Bytes, Int64s
from ottla.format.attributes import Codec
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.ints import read_i32
from ottla.kernels.bytes.memory import WIDE, copy_32, copy_wide, load_u64, store_u64

NONE = int(Codec.NONE)
SNAPPY = int(Codec.SNAPPY)
MAGIC = np.uint64(int.from_bytes(b"\x82SNAPPY\0", "little"))
HEAD_SIZE = 16
MAX_EXPANSION = 22  # a copy element of three bytes yields at most 64

LITERAL = 0
SHORT_COPY = 1  # an offset of eleven bits, three of them in the tag; the others have 16 and 32
LONG_COPY = 3
LITERAL_IN_TAG = 60  # a longer one has its length in one to four bytes behind the tag

NO_ROOM = -1
UNUSUAL = -2


@inlined
def is_framed(data: Bytes, start: int, stop: int) -> bool:
    """Whether a stream begins with the xerial header."""
    return stop - start >= HEAD_SIZE and load_u64(data, start) == MAGIC


@inlined
def claimed_size(data: Bytes, start: int, stop: int) -> tuple[int, int]:
    """The size that a block begins with, or -1 when it cannot be true, and what follows it."""
    size = i64(0)
    for index in range(min(i64(5), stop - start)):
        byte = i64(data[start + index])
        size |= (byte & i64(0x7F)) << i64(7 * index)
        if byte < 0x80:
            held = size if size <= MAX_EXPANSION * (stop - start) else i64(-1)
            return held, start + index + 1
    return i64(-1), stop


@inlined
def repeat(out: Bytes, to: int, offset: int, size: int) -> None:
    """Copy what lies `offset` bytes before, where it overlaps with its copy."""
    done = i64(0)
    while done < size:
        copy_32(out, to + done, out, to + done - offset)
        done += min(offset, i64(WIDE))
        if offset < WIDE:  # what repeats every 3 bytes repeats every 6 bytes
            offset += offset


@inlined
def open_block(data: Bytes, at: int, stop: int, out: Bytes, to: int, end: int) -> int:
    """Decode the elements data[at:stop] into out[to:end]; UNUSUAL unless they fill it exactly."""
    begin = to
    while at < stop:
        tag = i64(data[at])
        kind = tag & i64(3)
        at += 1
        word = load_u64(data, at)
        size = (tag >> i64(2)) + i64(1)
        if kind == LITERAL:
            if size > LITERAL_IN_TAG:
                if at + 4 > stop:  # the library wants four bytes, however few the length has
                    return UNUSUAL
                more = size - i64(LITERAL_IN_TAG)
                size = i64(word & ((np.uint64(1) << np.uint64(8 * more)) - np.uint64(1))) + i64(1)
                at += more
            if size > stop - at or size > end - to:
                return UNUSUAL
            copy_wide(out, to, data, at, size)
            at += size
            to += size
            continue
        if kind == LONG_COPY:
            offset = i64(word & np.uint64(0xFFFFFFFF))
            at += 4
        else:
            short = kind == SHORT_COPY
            offset = i64(word & np.uint64(0xFFFF))
            near = (tag >> i64(5)) << i64(8) | (offset & i64(0xFF))
            size = ((tag >> i64(2)) & i64(7)) + i64(4) if short else size
            offset = near if short else offset
            at += kind
        if at > stop or offset == 0 or offset > to - begin or size > end - to:
            return UNUSUAL
        if size <= 16 and offset >= 8:  # the usual one, in pieces that wait for few stores
            store_u64(out, to, load_u64(out, to - offset))
            store_u64(out, to + 8, load_u64(out, to + 8 - offset))
        elif offset >= size or offset >= WIDE:
            copy_wide(out, to, out, to - offset, size)
        else:
            repeat(out, to, offset, size)
        to += size
    return to if to == end else i64(UNUSUAL)


@inlined
def open_stream(data: Bytes, start: int, stop: int, out: Bytes, to: int, most: int) -> int:
    """Decode the blocks of one stream; return where what came out ends, or why not."""
    framed = is_framed(data, start, stop)
    at = start + HEAD_SIZE if framed else start
    if at == stop and not framed:
        return UNUSUAL
    while at + 4 <= stop or not framed:
        size = stop - at
        if framed:
            size = read_i32(data, at)
            at += 4
        if size < 0 or at + size > stop:
            return UNUSUAL
        held, first = claimed_size(data, at, at + size)
        if held < 0 or to + held > most:
            return UNUSUAL
        if to + held + PADDING > out.size:
            return NO_ROOM
        at += size
        to = open_block(data, first, at, out, to, to + held)
        if to < 0 or not framed:
            return to
    return to


@kernel
def open_frames(
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
        if codecs[row] != SNAPPY:
            return row, at, 0
        end = open_stream(data, starts[row], stops[row], out, at, at + limit)
        if end < 0:
            return row, at, i64(end == NO_ROOM)
        found[0, row] = at
        found[1, row] = end
        at = end
    return codecs.size, at, 0
