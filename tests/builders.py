"""Bytes of batches from keywords with defaults, so that a test shows only what it is about.

Nothing here imports ottla: what it builds is Kafka's format as `naive` reads it, legal or not.
"""

import gzip
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import cramjam
import xxhash
import zstandard

from naive import crc32c
from naive_codecs import LZ4_FRAME, XERIAL

Header = tuple[bytes, bytes | None]

SNAPPY_BLOCK = 32 << 10
LZ4_BLOCK = 64 << 10


class Row(NamedTuple):
    """One record as a reader sees it."""

    offset: int
    timestamp: int = 0
    key: bytes | None = None
    value: bytes | None = b"value"
    headers: tuple[Header, ...] = ()


def varint(value: int) -> bytes:
    """Zig-zag, seven bits a byte; the same bytes for varint and varlong."""
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(row: Row, *, base_offset: int = 0, base_timestamp: int = 0) -> bytes:
    """One v2 record with its length."""
    headers = b"".join(field(key) + field(value) for key, value in row.headers)
    deltas = varint(row.timestamp - base_timestamp) + varint(row.offset - base_offset)
    fields = field(row.key) + field(row.value) + varint(len(row.headers))
    body = b"\0" + deltas + fields + headers
    return varint(len(body)) + body


def batch(
    rows: Sequence[Row] = (Row(0),),
    *,
    codec: int = 0,
    attributes: int = 0,
    base_offset: int | None = None,
    last_offset_delta: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    leader_epoch: int = 0,
) -> bytes:
    """A v2 batch; `producer` is id, epoch and base sequence."""
    base = base_offset if base_offset is not None else rows[0].offset
    base_timestamp = rows[0].timestamp if rows else -1
    records = [record(row, base_offset=base, base_timestamp=base_timestamp) for row in rows]
    return batch_of(
        compress(b"".join(records), codec, magic=2),
        count=len(rows),
        attributes=attributes | codec,
        base_offset=base,
        last_offset_delta=rows[-1].offset - base
        if last_offset_delta is None
        else last_offset_delta,
        timestamps=(base_timestamp, max((row.timestamp for row in rows), default=-1)),
        producer=producer,
        leader_epoch=leader_epoch,
    )


def batch_of(
    payload: bytes,
    *,
    count: int,
    attributes: int = 0,
    base_offset: int = 0,
    last_offset_delta: int = 0,
    timestamps: tuple[int, int] = (0, 0),
    producer: tuple[int, int, int] = (-1, -1, -1),
    leader_epoch: int = 0,
) -> bytes:
    """A v2 batch around any payload; `timestamps` are base and max."""
    covered = struct.pack(">Hiqq", attributes, last_offset_delta, *timestamps)
    covered += struct.pack(">qhii", *producer, count) + payload
    front = struct.pack(">qiib", base_offset, 9 + len(covered), leader_epoch, 2)
    return front + struct.pack(">I", crc32c(covered)) + covered


def message(row: Row, *, magic: int, attributes: int = 0) -> bytes:
    """A v0 or v1 message with its offset and size."""
    times = struct.pack(">q", row.timestamp) if magic else b""
    covered = struct.pack(">bB", magic, attributes) + times + _sized(row.key) + _sized(row.value)
    body = struct.pack(">I", zlib.crc32(covered)) + covered
    return struct.pack(">qi", row.offset, len(body)) + body


def wrapper(rows: Sequence[Row], *, magic: int, codec: int, attributes: int = 0) -> bytes:
    """A compressed v0 or v1 message around the rows, offsets inside as Kafka writes them."""
    base = rows[0].offset if magic else 0
    inner = [message(row._replace(offset=row.offset - base), magic=magic) for row in rows]
    value = compress(b"".join(inner), codec, magic=magic)
    newest = max(row.timestamp for row in rows)
    outer = Row(rows[-1].offset, newest, None, value)
    return message(outer, magic=magic, attributes=attributes | codec)


def segment(rows: Sequence[Row], *, magic: int, codec: int) -> bytes:
    """The rows as Kafka would lay them out: one batch, or one message each where uncompressed."""
    if magic == 2:
        return batch(rows, codec=codec)
    if codec:
        return wrapper(rows, magic=magic, codec=codec)
    return b"".join(message(row, magic=magic) for row in rows)


def reseal(data: bytes) -> bytes:
    """One batch of any magic with the CRC that its bytes now have."""
    if data[16] == 2:
        return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]
    return data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]


def compress(data: bytes, codec: int, *, magic: int) -> bytes:
    """A payload as Kafka frames it."""
    if codec == 3:
        return _lz4(data, magic)
    return (bytes, _gzip, _snappy, bytes, _zstd)[codec](data)


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _snappy(data: bytes) -> bytes:
    blocks = [bytes(cramjam.snappy.compress_raw(piece)) for piece in _pieces(data, SNAPPY_BLOCK)]
    sized = [struct.pack(">i", len(block)) + block for block in blocks]
    return XERIAL + struct.pack(">ii", 1, 1) + b"".join(sized)


def _lz4(data: bytes, magic: int) -> bytes:
    # KafkaLZ4BlockOutputStream of magic 0 hashes the frame's magic number too.
    descriptor = b"\x60\x40"
    hashed = descriptor if magic else LZ4_FRAME + descriptor
    out = LZ4_FRAME + descriptor + bytes([xxhash.xxh32_intdigest(hashed) >> 8 & 0xFF])
    for piece in _pieces(data, LZ4_BLOCK):
        block = bytes(cramjam.lz4.compress_block(piece, store_size=False))
        stored = len(block) >= len(piece)
        out += (
            struct.pack("<I", len(piece) | 1 << 31) + piece
            if stored
            else struct.pack("<I", len(block)) + block
        )
    return out + bytes(4)


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3, write_content_size=False).compress(data)
