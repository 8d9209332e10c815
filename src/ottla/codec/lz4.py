"""LZ4 frames as Kafka reads and writes them: the blocks are a library's work, the frame is ours.

The reader is Kafka's Lz4BlockInputStream: independent blocks only, one frame, whatever follows
its end mark ignored, block checksums verified, the content checksum read but not verified.
"""

from typing import Final, NamedTuple

import lz4.block
from cramjam import lz4 as blocks
from xxhash import xxh32_intdigest

from ottla.codec.arena import Arena, Output
from ottla.codec.errors import CodecError
from ottla.codec.library import find_functions
from ottla.codec.rows import Rows, decompress_together
from ottla.kernels.frames.lz4 import open_frames

MAGIC: Final = b"\x04\x22\x4d\x18"
RESERVED: Final = 0x03
CONTENT_CHECKSUM: Final = 0x04
CONTENT_SIZE: Final = 0x08
BLOCK_CHECKSUM: Final = 0x10
INDEPENDENT: Final = 0x20
VERSION_1: Final = 0x40
VERSION_MASK: Final = 0xC0
BLOCK_SIZES: Final = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
STORED: Final = 0x80000000  # in a block's size: the block is not compressed
END_MARK: Final = b"\x00\x00\x00\x00"

WRITTEN_BLOCK_SIZE: Final = 1 << 16  # Lz4BlockOutputStream: 64 KiB
DESCRIPTOR: Final = b"\x60\x40"  # version 1, independent blocks; 64 KiB
# Magic 0 hashes the magic bytes too (KAFKA-3160): readers of that format must ignore the byte.
HEAD: Final = MAGIC + DESCRIPTOR + b"\x82"
BROKEN_HEAD: Final = MAGIC + DESCRIPTOR + b"\x1a"
FAST_LEVEL: Final = 9  # Lz4Compression: the default level means the fast compressor, all others HC


class Head(NamedTuple):
    """What a frame's descriptor says, and where its blocks begin."""

    flags: int
    block_size: int
    stop: int


# Kernels call it for each block: the way through Python costs more than most blocks.
(DECODE_BLOCK,) = find_functions("lz4.block._block", "LZ4_decompress_safe")
USUAL: Final = Head(flags=0x60, block_size=1 << 16, stop=len(HEAD))


def open_stream(payload: memoryview, magic: int) -> None:
    """Reject what Lz4BlockInputStream's constructor rejects: a bad head."""
    _read_head(payload, magic)


def decompress(payload: memoryview, magic: int, output: Output) -> None:
    """Write what the blocks of the first frame hold."""
    flags, block_size, at = _read_head(payload, magic)
    checked = 4 if flags & BLOCK_CHECKSUM else 0
    while True:
        word = int.from_bytes(payload[at : at + 4], "little")
        at += 4
        if at > len(payload):
            raise CodecError("lz4: the end mark is missing")
        size = word & ~STORED
        if size == 0:
            break
        if size > block_size:
            raise CodecError(f"lz4: block of {size} bytes exceeds the frame's {block_size}")
        if at + size + checked > len(payload):
            raise CodecError("lz4: block is incomplete")
        block = payload[at : at + size]
        at += size
        if checked and xxh32_intdigest(block) != int.from_bytes(payload[at : at + 4], "little"):
            raise CodecError("lz4: block does not match its checksum")
        at += checked
        if _write_block(block, word, block_size, output) == 0:
            # Lz4BlockInputStream gives no byte then, and its caller takes that for the end.
            return
    if flags & CONTENT_CHECKSUM and at + 4 > len(payload):
        raise CodecError("lz4: content checksum is incomplete")


def decompress_rows(rows: Rows, first: int, arena: Arena, limit: int) -> int:
    """Decompress usual frames from row `first` on in one go; return the first row not done."""
    if not DECODE_BLOCK:
        return first
    return decompress_together(
        rows, first, arena, limit, WRITTEN_BLOCK_SIZE, open_frames, DECODE_BLOCK
    )


def compress_into(payload: memoryview, magic: int, level: int, room: memoryview) -> int:
    """Independent blocks of 64 KiB; a block that does not shrink is stored."""
    room[: len(HEAD)] = BROKEN_HEAD if magic == 0 else HEAD
    at = len(HEAD)
    for start in range(0, len(payload), WRITTEN_BLOCK_SIZE):
        raw = payload[start : start + WRITTEN_BLOCK_SIZE]
        block = room[at + 4 :]
        if level == FAST_LEVEL:
            # Not with lz4.block: of some data its older LZ4 makes 5 % more than Java's.
            size = word = blocks.compress_block_into(raw, block, store_size=False)
        else:
            packed = lz4.block.compress(
                raw, mode="high_compression", compression=level, store_size=False
            )
            size = word = len(packed)
            block[:size] = packed
        if size >= len(raw):
            size, word = len(raw), len(raw) | STORED
            block[:size] = raw
        room[at : at + 4] = word.to_bytes(4, "little")
        at += 4 + size
    room[at : at + len(END_MARK)] = END_MARK
    return at + len(END_MARK)


def _write_block(block: memoryview, word: int, block_size: int, output: Output) -> int:
    """Decompress one block, or copy a stored one; return how many bytes came out."""
    if word & STORED:
        output.put(bytes(block))
        return len(block)
    try:
        data: bytes = lz4.block.decompress(block, uncompressed_size=block_size)
    except lz4.block.LZ4BlockError as error:
        raise CodecError(f"lz4: {error}") from error
    output.put(data)
    return len(data)


def _read_head(payload: memoryview, magic: int) -> Head:
    """Read the frame descriptor; Kafka writes one kind, and accepts some others."""
    if payload[: len(HEAD)].tobytes() == HEAD:
        return USUAL
    if len(payload) < len(MAGIC) + 2:
        raise CodecError("lz4: head is incomplete")
    if payload[:4].tobytes() != MAGIC:
        raise CodecError("lz4: magic bytes are missing")
    flags, sizes = payload[4], payload[5]
    block_size = BLOCK_SIZES.get(sizes >> 4)
    if flags & RESERVED:
        raise CodecError("lz4: reserved bits of the descriptor must be 0 (no dictionary)")
    if not flags & INDEPENDENT:
        raise CodecError("lz4: blocks that depend on each other are not supported")
    if flags & VERSION_MASK != VERSION_1:
        raise CodecError(f"lz4: version {flags >> 6} is not supported")
    if block_size is None or sizes & 0x0F:
        raise CodecError(f"lz4: block size byte {sizes:#04x} is not supported")
    stop = 6 + (8 if flags & CONTENT_SIZE else 0)
    if len(payload) <= stop:
        raise CodecError("lz4: head is incomplete")
    if magic > 0 and payload[stop] != (xxh32_intdigest(payload[4:stop]) >> 8) & 0xFF:
        raise CodecError("lz4: head does not match its checksum")
    return Head(flags, block_size, stop + 1)
