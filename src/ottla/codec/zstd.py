"""Zstandard streams as zstd-jni reads and writes them: frames one after another, none cut short.

The reader is ZstdInputStreamNoFinalizer. The library decodes but does not say that a frame was
cut short, so the walk over the blocks of each frame is ours.
"""

import ctypes
import threading
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import zstandard

from ottla.codec.arena import MAX_ROOM, Arena, Output
from ottla.codec.errors import CodecError
from ottla.codec.library import Workspace, find_functions
from ottla.codec.rows import Rows, decompress_together
from ottla.kernels.frames.zstd import MAX_BLOCK_SIZE, open_frames

MAGIC: Final = b"\x28\xb5\x2f\xfd"
SKIPPABLE: Final = 0x184D2A50
SKIPPABLE_MASK: Final = 0xFFFFFFF0
SINGLE_SEGMENT: Final = 0x20
CHECKSUM: Final = 0x04
DICTIONARY_SIZES: Final = (0, 1, 2, 4)
CONTENT_SIZES: Final = (0, 2, 4, 8)
RLE: Final = 1
READ_BUFFER: Final = MAX_BLOCK_SIZE + 3  # ZSTD_DStreamInSize, what zstd-jni reads at once
USUAL: Final = 32 << 20  # what holds more gets a decoder of its own: a decoder keeps its window
TINY: Final = 1024  # so few bytes hold at most 256 blocks of 128 KiB: a bomb of 32 MiB


class Frames(NamedTuple):
    """What a walk over whole frames found."""

    stop: int  # where the last whole frame ends
    bound: int  # no more bytes than this come out


# Kernels call the first for each frame. It needs a workspace, which the others make and free.
DECODE_FRAME, _CREATE, _FREE = find_functions(
    "zstandard._cffi", "ZSTD_decompressDCtx", "ZSTD_createDCtx", "ZSTD_freeDCtx"
)
_create: Final = ctypes.CFUNCTYPE(ctypes.c_void_p)(_CREATE)
_free: Final = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(_FREE)


def _make_workspace() -> Workspace:
    address = _create() or 0
    return Workspace(address, partial(_free, address))


class _Contexts(threading.local):
    """Coders and decoders are costly to make and must not be shared by threads."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}
        self.workspace = _make_workspace() if DECODE_FRAME else None

    def compressor(self, level: int) -> zstandard.ZstdCompressor:
        if level not in self.compressors:
            self.compressors[level] = zstandard.ZstdCompressor(
                level=level, write_content_size=False, write_checksum=False
            )
        return self.compressors[level]


_contexts: Final = _Contexts()


def open_stream(payload: memoryview, magic: int) -> None:
    """ZstdInputStreamNoFinalizer's constructor reads nothing, so it rejects nothing."""


def decompress(payload: memoryview, magic: int, output: Output) -> None:  # noqa: ARG001
    """Write what the frames hold."""
    try:
        _read_frames(payload, output)
    except zstandard.ZstdError as error:
        raise CodecError(f"zstd: {error}") from error


def decompress_rows(rows: Rows, first: int, arena: Arena, limit: int) -> int:
    """Decompress usual or tiny frames from row `first` on; return the first row not done."""
    done = first
    if (workspace := _contexts.workspace) is not None:
        decoder = DECODE_FRAME, workspace.address
        done = decompress_together(rows, first, arena, limit, MAX_BLOCK_SIZE, open_frames, *decoder)
    if done == first:
        done = _decompress_each(rows, first, arena, limit)
    return done


def compress_into(
    payload: memoryview,
    magic: int,  # noqa: ARG001
    level: int,
    room: memoryview,
) -> int:
    """One frame without content size and checksum, as a stream is written.

    The library knows the size, though, and takes smaller tables for what is small.
    """
    frame: bytes = _contexts.compressor(level).compress(payload)
    room[: len(frame)] = frame
    return len(frame)


def _decompress_each(rows: Rows, first: int, arena: Arena, limit: int) -> int:
    """Read tiny frames from row `first` on; return the first row that holds something else.

    The arena is written once, at the end.
    """
    view = rows.data.data
    codec = rows.spans[first][0]
    pieces: list[bytes] = []
    left = limit
    for row in range(first, len(rows.spans)):
        kind, start, stop = rows.spans[row]
        piece = _read_one_frame(view[start:stop]) if kind == codec else None
        if piece is None or len(piece) > left:
            break
        left -= len(piece)
        pieces.append(piece)
    if not pieces:
        return first
    stops = arena.at + np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    done = first + len(pieces)
    rows.found[0, first + 1 : done] = stops[:-1]
    rows.found[1, first:done] = stops
    rows.found[0, first] = arena.at
    arena.room(limit - left)[:] = b"".join(pieces)
    arena.at += limit - left
    return done


def _read_one_frame(payload: memoryview) -> bytes | None:
    """What a tiny payload holds that is one whole frame, else None."""
    if len(payload) > TINY:
        return None
    decoder = _contexts.decompressor.decompressobj()
    try:
        data: bytes = decoder.decompress(payload)
    except zstandard.ZstdError:
        return None
    return data if decoder.eof and not decoder.unused_data else None


def _read_frames(payload: memoryview, output: Output) -> None:
    """Decode frame after frame."""
    frames = _walk_frames(payload)
    if frames.stop < len(payload) and not _cut_unseen(frames.stop, len(payload)):
        raise CodecError("zstd: frame is incomplete")
    usual = frames.bound <= USUAL
    decompressor = _contexts.decompressor if usual else zstandard.ZstdDecompressor()
    reader = decompressor.stream_reader(payload, read_across_frames=True)
    step = min(frames.bound + MAX_BLOCK_SIZE, MAX_ROOM)
    while wrote := reader.readinto(output.room(step)):
        output.wrote(wrote)


def _cut_unseen(start: int, size: int) -> bool:
    """Whether zstd-jni overlooks that the frame at `start` is cut short.

    It notes that a frame is open only when it reads from its source. A frame that begins in the
    middle of the last piece read begins without a read, and so its end is never missed.
    """
    return start % READ_BUFFER != 0 and start // READ_BUFFER == (size - 1) // READ_BUFFER


def _walk_frames(payload: memoryview) -> Frames:
    """Pass whole frames; stop at the end, at a frame that is cut short, or at what is no frame."""
    at = bound = 0
    while at < len(payload):
        word = int.from_bytes(payload[at : at + 4], "little")
        if word & SKIPPABLE_MASK == SKIPPABLE and at + 8 <= len(payload):
            stop = at + 8 + int.from_bytes(payload[at + 4 : at + 8], "little")
            size = 0
        elif payload[at : at + 4].tobytes() == MAGIC:
            stop, size = _walk_blocks(payload, at)
        else:
            break
        bound += size
        if stop > len(payload):
            break
        at = stop
    return Frames(at, bound)


def _walk_blocks(payload: memoryview, start: int) -> tuple[int, int]:
    """Return where a frame ends, past the payload if it is cut short, and how much comes out."""
    if start + 5 > len(payload):
        return len(payload) + 1, 0
    descriptor = payload[start + 4]
    single = bool(descriptor & SINGLE_SEGMENT)
    content = CONTENT_SIZES[descriptor >> 6] or (1 if single else 0)
    at = start + 5 + (0 if single else 1) + DICTIONARY_SIZES[descriptor & 3] + content
    bound = 0
    while at + 3 <= len(payload):
        block = int.from_bytes(payload[at : at + 3], "little")
        kind = (block >> 1) & 3
        at += 3 + (1 if kind == RLE else block >> 3)
        bound += MAX_BLOCK_SIZE
        if block & 1:
            return at + (4 if descriptor & CHECKSUM else 0), bound
    return len(payload) + 1, bound
