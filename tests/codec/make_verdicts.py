"""Make `verdicts.txt.xz`: streams, most of them damaged, and what Kafka's Java says of each.

Run from the project folder: `PYTHONPATH=. python tests/codec/make_verdicts.py`. Needs Maven. The
streams are seeded; the file changes only when this program or Kafka does.
"""

import base64
import lzma
import random
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import lz4.block
import lz4.frame
import zstandard
from benchmarks.maven import class_path, java

VERDICTS = Path(__file__).parent / "verdicts.txt.xz"
KAFKA = Path(__file__).parents[1] / "java"
STREAMS = 700  # of each codec
KAFKA_FRAMES = 400  # of zstd, besides those
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
GZIP_BUFFER = 8192
ZSTD_BUFFER = 131075

random_ = random.Random(20)


def text(words: int) -> bytes:
    choices = (b"alpha ", b"beta ", b'{"id":%d}' % random_.randrange(1000), b"\xff")
    return b"".join(random_.choice(choices) for _ in range(words))


def damage(data: bytes) -> bytes:
    """Change, drop or add a few bytes; the front and the end are where framing is."""
    out = bytearray(data)
    for _ in range(random_.choice((0, 1, 1, 2))):
        kind = random_.randrange(7)
        at = random_.randrange(min(len(out), random_.choice((12, 40, 1 << 20)))) if out else 0
        if kind < 3 and out:
            out[at] ^= 1 << random_.randrange(8)
        elif kind == 3 and out:
            out[-1 - random_.randrange(min(len(out), 16))] = random_.randrange(256)
        elif kind == 4:
            del out[random_.randrange(len(out) + 1) :]
        elif kind == 5:
            out += random_.randbytes(random_.randrange(1, 25))
        else:
            out[at:at] = random_.randbytes(1)
    return bytes(out)


def member(data: bytes, flags: int = 0, level: int = 6) -> bytes:
    """One gzip member with whatever its flags announce."""
    deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
    head = b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\xff"
    head += b"\x03\0abc" if flags & 4 else b""
    head += b"name\0" if flags & 8 else b""
    head += b"comment\0" if flags & 16 else b""
    head += struct.pack("<H", zlib.crc32(head) & 0xFFFF) if flags & 2 else b""
    body = deflate.compress(data) + deflate.flush()
    return head + body + struct.pack("<II", zlib.crc32(data), len(data))


def gzip_stream() -> bytes:
    first = member(text(random_.randrange(30)), random_.choice((0, 0, random_.randrange(256))))
    if random_.random() < 0.15:  # the end of the first member around the end of Java's buffer
        first = member(bytes(GZIP_BUFFER - random_.randrange(40)), level=0)
    more = [member(text(random_.choice((0, 1, 9)))) for _ in range(random_.randrange(3))]
    cut = [piece[: random_.randrange(len(piece) + 1)] for piece in more]
    return first + b"".join(random_.choice((more, cut)))


def snappy_block() -> bytes:
    return damage(bytes(cramjam.snappy.compress_raw(text(random_.randrange(30)))))


def snappy_stream() -> bytes:
    if random_.random() < 0.3:
        return snappy_block()
    out = XERIAL
    for _ in range(random_.randrange(4)):
        block = snappy_block()
        out += struct.pack(">i", len(block)) + block
        if random_.random() < 0.3:
            out += XERIAL[:4] + damage(XERIAL[4:])
    return out + bytes(random_.choice((0, 0, 1, 2, 3)))


def lz4_frame(blocks: list[bytes]) -> bytes:
    sized = (struct.pack("<I", len(block)) + block for block in blocks if block)
    return b"\x04\x22\x4d\x18\x60\x40\x82" + b"".join(sized) + bytes(4)


def lz4_sequences() -> bytes:
    """A block put together by hand, with matches where no compressor would put them."""
    out = bytearray()
    for _ in range(random_.randrange(1, 5)):
        literals, match = random_.choice((0, 1, 5, 12, 14)), random_.choice((4, 8, 18))
        out += bytes([literals << 4 | match - 4]) + b"x" * literals
        out += struct.pack("<H", random_.choice((0, 1, 4, 33, 300)))
    literals = random_.choice((0, 1, 4, 5, 7, 8, 12))
    return bytes(out) + bytes([literals << 4]) + b"z" * literals


def lz4_stream() -> bytes:
    kind = random_.randrange(4)
    if kind == 0:
        return lz4_frame([lz4_sequences()])
    if kind == 1:
        blocks = [text(random_.randrange(40)) for _ in range(random_.randrange(3))]
        return lz4_frame([damage(lz4.block.compress(block, store_size=False)) for block in blocks])
    if kind == 2:
        return lz4_frame([lz4.block.compress(text(20), store_size=False)]) + text(3)
    frame: bytes = lz4.frame.compress(
        text(random_.choice((0, 3, 60))),
        block_size=random_.randrange(4, 8),
        block_linked=random_.random() < 0.1,
        content_checksum=random_.random() < 0.5,
        block_checksum=random_.random() < 0.5,
        store_size=random_.random() < 0.5,
    )
    return frame


def zstd_raw_frame(size: int) -> bytes:
    """A frame of one stored block, which has as many bytes as are asked for."""
    zeros = size - 9
    return b"\x28\xb5\x2f\xfd\x00\x58" + struct.pack("<I", zeros << 3 | 1)[:3] + bytes(zeros)


def zstd_frame() -> bytes:
    if random_.random() < 0.15:
        return struct.pack("<II", 0x184D2A50 + random_.randrange(16), 5) + b"hello"
    compressor = zstandard.ZstdCompressor(
        level=random_.choice((-5, 1, 3, 19)),
        write_checksum=random_.random() < 0.3,
        write_content_size=random_.random() < 0.3,
    )
    stream = compressor.compressobj()
    body: bytes = stream.compress(text(random_.choice((0, 1, 10, 60))))
    end: bytes = stream.flush()
    return body + end


def zstd_stream() -> bytes:
    out = b"".join(zstd_frame() for _ in range(random_.randrange(1, 4)))
    if random_.random() < 0.1:  # the second frame around the end of zstd-jni's buffer
        out = zstd_raw_frame(100_000) + zstd_raw_frame(ZSTD_BUFFER - 100_000 - random_.randrange(9))
        out += zstd_frame()
    if random_.random() < 0.4:
        out = out[: len(out) - random_.randrange(min(len(out), 12))]
    return out


def zstd_of_kafka() -> bytes:
    """A frame as Kafka closes it, perhaps with another window or with bits changed behind it."""
    stream = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
    body: bytes = stream.compress(text(random_.choice((1, 10, 60, 600))))
    body += stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) if random_.random() < 0.7 else b""
    out = bytearray(body + stream.flush())
    if random_.random() < 0.2:
        out[5] = random_.randrange(256)
    for _ in range(random_.choice((0, 1, 1, 2))):
        out[random_.randrange(6, len(out))] ^= 1 << random_.randrange(8)
    return bytes(out)


MAKERS: dict[int, Callable[[], bytes]] = {
    1: gzip_stream,
    2: snappy_stream,
    3: lz4_stream,
    4: zstd_stream,
}


def main() -> None:
    lines = []
    for codec, make in MAKERS.items():
        for _ in range(STREAMS):
            magic = 2 if codec == 4 else random_.randrange(3)
            stream = make() if random_.random() < 0.5 else damage(make())
            lines.append(f"{codec} {magic} {base64.b64encode(stream).decode()}")
    frames = (base64.b64encode(zstd_of_kafka()).decode() for _ in range(KAFKA_FRAMES))
    lines += [f"4 2 {frame}" for frame in frames]
    command = java("questions.CodecVerdicts", class_path(KAFKA), "-Xmx512m")
    asked = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=True
    )
    pairs = zip(lines, asked.stdout.splitlines(), strict=True)
    written = "".join(f"{line} {verdict}\n" for line, verdict in pairs)
    VERDICTS.write_bytes(lzma.compress(written.encode(), preset=9))


if __name__ == "__main__":
    main()
