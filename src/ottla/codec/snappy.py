"""Snappy as snappy-java frames it (xerial), or one raw block; the blocks are cramjam's work.

The reader is org.xerial.snappy.SnappyInputStream. This is not the framing format of the Snappy
project, which Kafka does not read.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from cramjam import DecompressionError
from cramjam import snappy as blocks

from ottla.codec.arena import Arena, Measure, Output
from ottla.codec.errors import CodecError, OutputTooLarge
from ottla.codec.rows import Rows, decompress_together
from ottla.format.sentinels import INT32_MAX
from ottla.kernels.frames.snappy import open_frames

MAGIC: Final = b"\x82SNAPPY\x00"
HEAD: Final = MAGIC + struct.pack(">ii", 1, 1)  # version, oldest compatible version
CONCATENATED: Final = MAGIC[:4]
BLOCK_SIZE: Final = 32 * 1024  # SnappyOutputStream's default: raw bytes in a block
MAX_CHUNK_SIZE: Final = 512 << 20  # SnappyInputStream.MAX_CHUNK_SIZE
OLDEST_VERSION: Final = 1
# A copy element of three bytes yields at most 64: what claims more cannot be true.
MAX_EXPANSION: Final = 22
MAX_OPENED: Final = 64 << 20  # no batch of zero records has reason to expand to more


class Block(NamedTuple):
    """One raw block: where it lies, and what it says it decompresses to."""

    start: int
    stop: int
    size: int


def open_stream(payload: memoryview, magic: int) -> None:
    """Reject what SnappyInputStream's constructor rejects: nothing, or one bad raw block."""
    if not _is_framed(payload):
        decompress(payload, magic, Measure(MAX_OPENED))


def decompress(payload: memoryview, magic: int, output: Output) -> None:  # noqa: ARG001
    """Write what the blocks hold, after their sizes were added up."""
    # Found twice rather than listed: a payload may be nothing but empty blocks.
    if sum(block.size for block in _blocks(payload)) > output.limit:
        raise OutputTooLarge(output.limit)
    for start, stop, size in _blocks(payload):
        room = output.room(size)
        try:
            wrote = blocks.decompress_raw_into(payload[start:stop], room)
        except DecompressionError as error:
            raise CodecError(f"snappy: {error}") from error
        output.wrote(wrote)


def decompress_rows(rows: Rows, first: int, arena: Arena, limit: int) -> int:
    """Decompress usual streams from row `first` on in one go; return the first row not done."""
    return decompress_together(rows, first, arena, limit, BLOCK_SIZE, open_frames)


def compress_into(
    payload: memoryview,
    magic: int,  # noqa: ARG001
    level: int,  # noqa: ARG001
    room: memoryview,
) -> int:
    """Blocks of 32 KiB, each after its compressed size."""
    room[: len(HEAD)] = HEAD
    at = len(HEAD)
    for start in range(0, len(payload), BLOCK_SIZE):
        size = blocks.compress_raw_into(payload[start : start + BLOCK_SIZE], room[at + 4 :])
        room[at : at + 4] = size.to_bytes(4, "big")
        at += 4 + size
    return at


def _is_framed(payload: memoryview) -> bool:
    return len(payload) >= len(HEAD) and payload[: len(MAGIC)].tobytes() == MAGIC


def _blocks(payload: memoryview) -> Iterator[Block]:
    """Find the blocks as SnappyInputStream.hasNextChunk does."""
    if not payload:
        raise CodecError("snappy: nothing to decompress")
    if not _is_framed(payload):
        yield _block(payload, 0, len(payload))
        return
    at = len(HEAD)
    empty = True
    while at + 4 <= len(payload):  # one to three bytes at the end are no error
        if payload[at : at + 4] == CONCATENATED:
            if not _is_head(payload, at) and empty:
                return
            at += len(HEAD)
            continue
        size = int.from_bytes(payload[at : at + 4], "big", signed=True)
        at += 4
        if not 0 <= size <= MAX_CHUNK_SIZE:
            raise CodecError(f"snappy: block size {size} is out of range")
        if at + size > len(payload):
            raise CodecError("snappy: block is incomplete")
        block = _block(payload, at, at + size)
        empty = empty and block.size == 0
        yield block
        at += size


def _is_head(payload: memoryview, at: int) -> bool:
    """Judge the head of a concatenated stream; only here does snappy-java look at the version.

    When it is none, SnappyInputStream passes it and gives no byte for this read. Kafka's buffer
    takes that for the end if it has nothing yet, and otherwise does not notice.
    """
    head = payload[at : at + len(HEAD)].tobytes()
    if len(head) < len(HEAD):
        raise CodecError("snappy: head of a concatenated stream is incomplete")
    if not head.startswith(MAGIC):
        return False
    version = int.from_bytes(head[8:12], "big", signed=True)
    if version < OLDEST_VERSION:
        raise CodecError(f"snappy: version {version} of a concatenated stream is not supported")
    return True


def _block(payload: memoryview, start: int, stop: int) -> Block:
    """Read the uncompressed size that a raw block begins with, and doubt it."""
    size = 0
    for index, byte in enumerate(payload[start : min(stop, start + 5)]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    else:
        raise CodecError("snappy: uncompressed size is malformed")
    if size > min(INT32_MAX, MAX_EXPANSION * (stop - start)):
        raise CodecError(f"snappy: {stop - start} bytes cannot hold {size}")
    return Block(start, stop, size)
