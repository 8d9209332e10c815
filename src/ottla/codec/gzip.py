"""gzip as Java reads and writes it: the members are framed here, deflate is ISA-L's or zlib's.

The reader is java.util.zip.GZIPInputStream of JDK 17 over a buffer of 8 KiB, as GzipCompression
opens it. Its one oddity: after a member it looks for another only when more than 18 bytes are
left, or when the bytes left were not yet in its buffer; what does not parse as a member's head
is ignored.
"""

import ctypes
import struct
import threading
import zlib
from functools import partial
from types import ModuleType
from typing import Final, cast

from isal import isal_zlib

from ottla.codec.arena import MAX_ROOM, Arena, Output
from ottla.codec.errors import CodecError
from ottla.codec.library import Workspace, find_functions
from ottla.codec.rows import Rows, decompress_together
from ottla.kernels.frames.gzip import TINY, ZStream, open_frames

MAGIC: Final = b"\x1f\x8b"
DEFLATE: Final = 8
FHCRC: Final = 0x02
FEXTRA: Final = 0x04
FNAME: Final = 0x08
FCOMMENT: Final = 0x10
HEAD_SIZE: Final = 10
TRAILER_SIZE: Final = 8
# JDK 16 and later write 255, "unknown", as the operating system.
HEAD: Final = MAGIC + b"\x08\x00\x00\x00\x00\x00\x00\xff"

PLAIN: Final = HEAD[:4]  # no flags: the head is ten bytes, whatever they say
NAME_AT_ONCE: Final = 256  # how much of a name is copied to look for its end
READ_BUFFER: Final = 8 * 1024  # GzipCompression.wrapForInput
RAW_DEFLATE: Final = -15
GZIP_MEMBER: Final = 31
ROOM_AT_ONCE: Final = 128 * 1024
_ISAL_ERROR: Final = cast(type[Exception], isal_zlib.error)  # its stub says instance, not class


# Kernels call two of them for each member. They need a stream, which the others make and free.
RESET, INFLATE, _INIT, _END = find_functions(
    "zlib", "inflateReset", "inflate", "inflateInit2_", "inflateEnd"
)
_make_stream: Final = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ZStream), ctypes.c_int, ctypes.c_char_p, ctypes.c_int
)(_INIT)
_free_stream: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ZStream))(_END)


def _make_workspace() -> Workspace:
    stream = ZStream()
    version = zlib.ZLIB_RUNTIME_VERSION.encode()
    # zlib compares the size with its own.
    failed = _make_stream(stream, GZIP_MEMBER, version, ctypes.sizeof(stream))
    return Workspace(0 if failed else ctypes.addressof(stream), partial(_free_stream, stream))


class _Inflaters(threading.local):
    """Threads must not share a stream."""

    def __init__(self) -> None:
        self.workspace = _make_workspace() if INFLATE else None


_inflaters: Final = _Inflaters()


def open_stream(payload: memoryview, magic: int) -> None:  # noqa: ARG001
    """Reject what GZIPInputStream's constructor rejects: a bad head."""
    _read_head(payload, 0)


def decompress(payload: memoryview, magic: int, output: Output) -> None:  # noqa: ARG001
    """Write what the members hold; zlib, which is Java's judge of deflate, has the last word."""
    try:
        _read_members(payload, output, isal_zlib)
    except _ISAL_ERROR:
        output.restart()
        try:
            _read_members(payload, output, zlib)
        except zlib.error as error:
            raise CodecError(f"gzip: {error}") from error


def decompress_rows(rows: Rows, first: int, arena: Arena, limit: int) -> int:
    """Decompress tiny payloads of one member from row `first` on; return the first not done."""
    _, start, stop = rows.spans[first]
    workspace = _inflaters.workspace
    if workspace is None or stop - start > TINY:
        return first
    decoder = RESET, INFLATE, workspace.address
    return decompress_together(rows, first, arena, limit, ROOM_AT_ONCE, open_frames, *decoder)


def compress_into(
    payload: memoryview,
    magic: int,  # noqa: ARG001
    level: int,
    room: memoryview,
) -> int:
    """One member, deflated by zlib, as GzipOutputStream writes it."""
    deflater = zlib.compressobj(level, zlib.DEFLATED, RAW_DEFLATE)
    body = deflater.compress(payload) + deflater.flush()
    trailer = struct.pack("<II", isal_zlib.crc32(payload), len(payload) & 0xFFFFFFFF)
    member = b"".join((HEAD, body, trailer))
    room[: len(member)] = member
    return len(member)


def _read_members(payload: memoryview, output: Output, library: ModuleType) -> None:
    """Decode member after member until Java would see the end."""
    at = _read_head(payload, 0)
    buffered = at  # how far GZIPInputStream has filled its buffer
    fed = len(payload)
    while True:
        stop = _inflate(payload, at, fed=fed, output=output, library=library)
        while buffered < stop:
            buffered = min(buffered + READ_BUFFER, len(payload))
        end = stop + TRAILER_SIZE
        if len(payload) <= end:
            return
        buffered = max(buffered, end)
        # GZIPInputStream.readTrailer wants bytes unread, or room for two trailers and a head.
        if buffered == len(payload) and len(payload) - stop <= 2 * TRAILER_SIZE + HEAD_SIZE:
            return
        try:
            at = _read_head(payload, end)
        except CodecError:
            return
        buffered = max(buffered, at)
        # The library copies what follows a member: feed it little, as there may be many.
        fed = READ_BUFFER


def _inflate(payload: memoryview, at: int, *, fed: int, output: Output, library: ModuleType) -> int:
    """Decode the member whose deflate data begins at `at`; return where that data ends."""
    inflater = library.decompressobj(RAW_DEFLATE)
    crc = size = 0
    pending: bytes | memoryview = payload[at : at + fed]
    read = at + len(pending)
    while True:
        data = inflater.decompress(pending, MAX_ROOM)
        crc = isal_zlib.crc32(data, crc)
        size += len(data)
        output.put(data)
        if inflater.eof:
            break
        pending = inflater.unconsumed_tail
        if not pending and len(data) < MAX_ROOM:
            pending = payload[read : read + fed]
            read += len(pending)
            if not pending:
                raise CodecError("gzip: deflate data ends too early")
    stop = read - len(inflater.unused_data)
    if payload[stop : stop + TRAILER_SIZE] == struct.pack("<II", crc, size & 0xFFFFFFFF):
        return stop
    if len(payload) - stop < TRAILER_SIZE:
        raise CodecError("gzip: trailer is incomplete")
    raise CodecError("gzip: trailer does not match the data (CRC-32 or size)")


def _read_head(payload: memoryview, start: int) -> int:
    """Return where the deflate data of the member at `start` begins."""
    at = start + HEAD_SIZE
    head = payload[start:at].tobytes()
    if head.startswith(PLAIN) and len(head) == HEAD_SIZE:
        return at
    if not MAGIC.startswith(head[:2]):
        raise CodecError("gzip: magic bytes are missing")
    if len(head) > len(MAGIC) and head[2] != DEFLATE:
        raise CodecError(f"gzip: compression method {head[2]} is unknown")
    if len(head) < HEAD_SIZE:
        raise CodecError("gzip: head is incomplete")
    flags = head[3]
    if flags & FEXTRA:
        at += 2 + int.from_bytes(payload[at : at + 2], "little")
    for flag in (FNAME, FCOMMENT):
        if flags & flag:
            at = _after_zero(payload, at)
    if flags & FHCRC:
        stored = int.from_bytes(payload[at : at + 2], "little")
        computed = isal_zlib.crc32(payload[start:at]) & 0xFFFF
        at += 2
        if at <= len(payload) and stored != computed:
            raise CodecError("gzip: head does not match its checksum")
    if at > len(payload):
        raise CodecError("gzip: head is incomplete")
    return at


def _after_zero(payload: memoryview, at: int) -> int:
    """Return the position after the next zero byte, or past the end if there is none."""
    for start in range(at, len(payload), NAME_AT_ONCE):
        found = payload[start : start + NAME_AT_ONCE].tobytes().find(0)
        if found >= 0:
            return start + found + 1
    return len(payload) + 1
