"""Find the blocks in the usual snappy streams of many batches: xerial framing, one header.

Whatever else there is, and whatever is broken, is left to `ottla.codec.snappy`, row by row.
"""

import numpy as np

from ottla.format.arrays import Bytes, Int64s
from ottla.format.attributes import Codec
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.ints import read_i32
from ottla.kernels.bytes.memory import load_u64

NONE = int(Codec.NONE)
SNAPPY = int(Codec.SNAPPY)
MAGIC = np.uint64(int.from_bytes(b"\x82SNAPPY\0", "little"))
HEAD_SIZE = 16
MAX_EXPANSION = 22  # a copy element of three bytes yields at most 64

# The columns of the table of blocks: the row, where the block lies, where what it holds will.
ROW = 0
START = 1
STOP = 2
TO = 3
END = 4
COLUMNS = 5


@inlined
def is_framed(data: Bytes, start: int, stop: int) -> bool:
    """Whether a stream begins with the xerial header."""
    return stop - start >= HEAD_SIZE and load_u64(data, start) == MAGIC


@inlined
def claimed_size(data: Bytes, start: int, stop: int) -> int:
    """The uncompressed size that a block begins with, or -1 when it cannot be true."""
    size = i64(0)
    for index in range(min(i64(5), stop - start)):
        byte = i64(data[start + index])
        size |= (byte & i64(0x7F)) << i64(7 * index)
        if byte < 0x80:
            return size if size <= MAX_EXPANSION * (stop - start) else i64(-1)
    return i64(-1)


@inlined
def find_row(
    data: Bytes, span: tuple[int, int], row: int, at: int, most: int, blocks: Int64s, count: int
) -> tuple[int, int]:
    """List the blocks of one stream; return their new count, or -1, and where the last one ends."""
    start, stop = span
    if not is_framed(data, start, stop):
        return -1, at
    start += HEAD_SIZE
    while start + 4 <= stop:
        size = read_i32(data, start)
        start += 4
        if size < 0 or start + size > stop or count == blocks.shape[1]:
            return -1, at
        held = claimed_size(data, start, start + size)
        if held < 0 or at + held > most:
            return -1, at
        blocks[ROW, count] = row
        blocks[START, count] = start
        blocks[STOP, count] = start + size
        blocks[TO, count] = at
        blocks[END, count] = at + held
        count += 1
        at += held
        start += size
    return count, at


@kernel
def find_blocks(
    data: Bytes,
    rows: tuple[Int64s, Int64s, Int64s, Int64s],
    first: int,
    limit: int,
    at: int,
    blocks: Int64s,
    found: Int64s,
) -> tuple[int, int]:
    """List the blocks of rows from `first` on, as long as they are usual and in all below `limit`.

    `rows` are codecs, magics, starts and stops. What the rows hold will lie one after another from
    `at` on; found[0] and found[1] say where. Return the first row not listed and the blocks' count.
    """
    codecs, _, starts, stops = rows
    count = i64(0)
    most = at + limit
    for row in range(first, codecs.size):
        if codecs[row] == NONE:
            continue
        if codecs[row] != SNAPPY:
            return row, count
        listed, end = find_row(data, (starts[row], stops[row]), row, at, most, blocks, count)
        if listed < 0:
            return row, count
        found[0, row] = at
        found[1, row] = end
        at = end
        count = listed
    return codecs.size, count
