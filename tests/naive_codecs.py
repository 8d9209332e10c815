"""The compressed payloads of Kafka, opened slowly: which streams it accepts and what is in them.

Libraries open single blocks; the framing around them is spelt out here, after Kafka's own streams,
snappy-java and java.util.zip. Never imports ottla.
"""

import struct
import zlib
from collections.abc import Iterator

import cramjam
import xxhash
import zstandard

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
INT32_MAX = 2**31 - 1
XERIAL = b"\x82SNAPPY\0"
MAX_SNAPPY_CHUNK = 512 << 20
LZ4_FRAME = b"\x04\x22\x4d\x18"


class RefusedError(Exception):
    """Kafka throws an exception here."""


def decompress(data: bytes, codec: int, *, magic: int) -> Iterator[bytes]:
    """Pieces of the payload; asking for the first opens the stream as Kafka's constructor does."""
    readers = {0: _stored, 1: _gzip, 2: _snappy, 4: _zstd}
    if codec == 3:
        return _lz4(data, magic)
    if codec not in readers:
        raise RefusedError("codec")
    return readers[codec](data)


def _stored(data: bytes) -> Iterator[bytes]:
    yield data


def _gzip(data: bytes) -> Iterator[bytes]:
    at = _gzip_header(data, 0)
    yield b""
    while True:
        inflate = zlib.decompressobj(-15)
        try:
            piece = inflate.decompress(data[at:])
        except zlib.error:
            raise RefusedError("deflate") from None
        trailer, rest = inflate.unused_data[:8], inflate.unused_data[8:]
        if not inflate.eof or trailer != struct.pack("<II", zlib.crc32(piece), len(piece)):
            raise RefusedError("gzip trailer")
        yield piece
        try:
            # GZIPInputStream.readTrailer looks for another member only in more bytes than its
            # smallest header and trailer, and takes what is no header for the end.
            at = _gzip_header(data, len(data) - len(rest))
        except RefusedError:
            return
        if len(rest) <= 18:
            return


def _gzip_header(data: bytes, start: int) -> int:
    at = start + 10
    try:
        if data[start : start + 3] != b"\x1f\x8b\x08":
            raise RefusedError("gzip header")
        flags = data[start + 3]
        if flags & 4:
            at += 2 + data[at] + (data[at + 1] << 8)
        for named in (8, 16):
            if flags & named:
                at = data.index(0, at) + 1
        if flags & 2:
            at += 2
            if data[at - 2] + (data[at - 1] << 8) != zlib.crc32(data[start : at - 2]) & 0xFFFF:
                raise RefusedError("gzip header checksum")
    except (IndexError, ValueError):
        raise RefusedError("gzip header") from None
    if at > len(data):
        raise RefusedError("gzip header")
    return at


def _snappy(data: bytes) -> Iterator[bytes]:
    if len(data) < 16 or not data.startswith(XERIAL):
        yield _snappy_block(data)
        return
    yield b""
    at = 16
    while len(data) - at >= 4:
        size = struct.unpack_from(">i", data, at)[0]
        at += 4
        if data[at - 4 : at] == XERIAL[:4]:
            if len(data) - at < 12:
                raise RefusedError("snappy header")
            if data[at - 4 : at + 4] != XERIAL:
                return
            if struct.unpack_from(">i", data, at + 4)[0] < 1:
                raise RefusedError("snappy version")
            at += 12
            continue
        if not 0 <= size <= min(MAX_SNAPPY_CHUNK, len(data) - at):
            raise RefusedError("snappy chunk")
        yield _snappy_block(data[at : at + size])
        at += size


def _snappy_block(data: bytes) -> bytes:
    try:
        # No element of the format makes more than 64 bytes out of two.
        if not data or cramjam.snappy.decompress_raw_len(data) > 32 * len(data):
            raise RefusedError("snappy length")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError:
        raise RefusedError("snappy block") from None


def _lz4(data: bytes, magic: int) -> Iterator[bytes]:
    if len(data) < 6 or not data.startswith(LZ4_FRAME):
        raise RefusedError("lz4 frame")
    flags, descriptor = data[4], data[5]
    at = 14 if flags & 8 else 6
    if flags & 0xE3 != 0x60 or descriptor & 0x8F or descriptor < 0x40 or at >= len(data):
        raise RefusedError("lz4 descriptor")
    if magic > 0 and data[at] != xxhash.xxh32_intdigest(data[4:at]) >> 8 & 0xFF:
        raise RefusedError("lz4 descriptor checksum")
    yield b""
    at += 1
    largest = 1 << 8 + 2 * (descriptor >> 4)
    while True:
        if len(data) - at < 4:
            raise RefusedError("lz4 without end mark")
        word = struct.unpack_from("<I", data, at)[0]
        block = data[at + 4 : at + 4 + (word & INT32_MAX)]
        at += 4 + len(block)
        if word & INT32_MAX == 0:
            if flags & 4 and len(data) - at < 4:
                raise RefusedError("lz4 content checksum")  # read, never compared
            return
        if len(block) != min(word & INT32_MAX, largest):
            raise RefusedError("lz4 block size")
        if flags & 16:
            at += 4
            if data[at - 4 : at] != struct.pack("<I", xxhash.xxh32_intdigest(block)):
                raise RefusedError("lz4 block checksum")
        piece = block if word > INT32_MAX else _lz4_block(block, largest)
        if not piece:
            return  # ChunkedBytesStream takes a read of no bytes for the end
        yield piece


def _lz4_block(block: bytes, largest: int) -> bytes:
    try:
        piece = bytearray(largest)
        return bytes(piece[: cramjam.lz4.decompress_block_into(block, piece)])
    except cramjam.DecompressionError:
        raise RefusedError("lz4 block") from None


def _zstd(data: bytes) -> Iterator[bytes]:
    yield b""
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            yield frame.decompress(data)
        except zstandard.ZstdError:
            raise RefusedError("zstd") from None
        if not frame.eof:
            raise RefusedError("zstd frame")
        data = frame.unused_data
