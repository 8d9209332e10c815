"""Streams that kernels open together: each gets what it gets when it is opened on its own."""

import random
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import partial

import cramjam
import numpy as np
import pytest
import zstandard

from builders import compress
from ottla.codec import Arena, CodecError, decompress_into, decompress_window, gzip, zstd
from ottla.codec.snappy import HEAD
from ottla.format.attributes import CODEC_NAMES, Codec
from ottla.kernels._jit import INTERPRETED
from ottla.kernels.frames import gzip as gzip_kernel
from ottla.kernels.frames import zstd as zstd_kernel
from ottla.kernels.frames.snappy import open_frames as open_snappy
from ottla.region import PADDING, padded

LIMIT = 1 << 20
SNAPPY = int(Codec.SNAPPY)
ZSTD = int(Codec.ZSTD)
TEXT = b"".join(b'{"id":%d,"name":"%s"}' % (at, b"ab" * (at % 5)) for at in range(9))
FEW = 300 if INTERPRETED else 20_000


def alone(codec: int, stream: bytes, limit: int = LIMIT) -> bytes | str:
    arena = Arena()
    try:
        size = decompress_into(codec, 2, memoryview(stream), arena, limit)
    except CodecError as error:
        return refusal(codec, error)
    return arena.data[:size].tobytes()


def refusal(codec: int, error: CodecError) -> str:
    """What is said; what libzstd says of broken frames depends on the room for them."""
    return "refused" if codec == Codec.ZSTD else str(error)


def together(codec: int, streams: list[bytes], limit: int = LIMIT) -> list[bytes | str]:
    stops = np.cumsum([len(stream) for stream in streams])
    starts = stops - [len(stream) for stream in streams]
    kinds, magics = np.full(len(streams), codec), np.full(len(streams), 2)
    arena = Arena()
    opened = decompress_window(
        kinds, magics, starts, stops, padded(b"".join(streams)), arena, limit
    )
    assert len(opened.starts) == len(streams)
    return [
        refusal(codec, opened.errors[row])
        if row in opened.errors
        else arena.data[begin:end].tobytes()
        for row, (begin, end) in enumerate(zip(opened.starts, opened.stops, strict=True))
    ]


def damaged(stream: bytes) -> Iterator[bytes]:
    """Every prefix, one bit of every byte, all of the first ones, and a byte too many."""
    for at in range(len(stream)):
        yield stream[:at]
        for bit in range(8) if at < 24 else (at % 8, (at + 3) % 8):
            yield stream[:at] + bytes([stream[at] ^ 1 << bit]) + stream[at + 1 :]
    yield stream + b"\0"


CONTENTS = {
    "nothing": b"",
    "one byte": b"a",
    "text": TEXT,
    "zeros": bytes(1000),
    "every third": b"abc" * 60,
    "random": random.Random(3).randbytes(100),
    "long literal": random.Random(4).randbytes(300) * 2,
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=CODEC_NAMES.__getitem__)
def test_damaged_streams_give_together_what_they_give_alone(codec: int, content: str) -> None:
    whole = compress(CONTENTS[content], codec, magic=2)
    streams = [whole, *damaged(whole), whole]
    if INTERPRETED:
        streams = streams[:: 1 + len(streams) // FEW]
    for limit in (LIMIT, 50):
        found = together(codec, streams, limit)
        for stream, one in zip(streams, found, strict=True):
            assert one == alone(codec, stream, limit), stream.hex()


def zstd_frames(content: bytes) -> Iterator[bytes]:
    """As other clients write them: with a content size, a checksum, both or none."""
    for sized in (False, True):
        for checked in (False, True):
            writer = zstandard.ZstdCompressor(write_content_size=sized, write_checksum=checked)
            yield writer.compress(content)
            stream = writer.compressobj(size=len(content))
            yield stream.compress(content) + stream.flush()


@pytest.mark.parametrize("content", [*CONTENTS.values(), TEXT * 9, bytes(70_000)], ids=len)
def test_damaged_zstd_frames_of_other_clients_give_together_what_they_give_alone(
    content: bytes,
) -> None:
    for whole in zstd_frames(content):
        streams = [whole, *damaged(whole), whole]
        if INTERPRETED:
            streams = streams[:: 1 + len(streams) // FEW]
        for stream, one in zip(streams, together(ZSTD, streams), strict=True):
            assert one == alone(ZSTD, stream), stream.hex()


@pytest.mark.skipif(not zstd.DECODE_FRAME, reason="the zstandard package hides its functions")
def test_the_zstd_kernel_opens_what_clients_write() -> None:
    workspace = zstd._contexts.workspace
    assert workspace is not None
    kernel = partial(zstd_kernel.open_frames, zstd.DECODE_FRAME, workspace.address)
    for content in (b"", b"a", TEXT, TEXT * 9, bytes(70_000), random.Random(8).randbytes(70_000)):
        for stream in zstd_frames(content):
            assert opened(kernel, ZSTD, [stream], 1 << 17) == 1, stream[:20].hex()
            assert together(ZSTD, [stream]) == [content]
    sized = zstandard.ZstdCompressor().compress(b"12345")
    assert sized[4] == 0x20
    refused = {
        "smaller": sized[:5] + b"\x04" + sized[6:],
        "larger": sized[:5] + b"\x06" + sized[6:],
        "a dictionary": sized[:4] + b"\x21\x05\0" + sized[6:],
        "a reserved bit": sized[:4] + b"\x28" + sized[5:],
        "an unused bit": sized[:4] + b"\x30" + sized[5:],
        "eight bytes of size": sized[:4] + b"\xe0" + b"\xff" * 8 + sized[6:],
        "half a head": sized[:5],
        "no blocks": sized[:6],
    }
    for name, stream in refused.items():
        assert opened(kernel, ZSTD, [stream], 1 << 17) == 0, name
        assert together(ZSTD, [stream]) == [alone(ZSTD, stream)], name


def test_large_streams_give_together_what_they_give_alone() -> None:
    chance = random.Random(5)
    pieces = [chance.randbytes(size) * 3 for size in range(1, 90)]
    content = b"".join(chance.choice(pieces) for _ in range(60 if INTERPRETED else 3000))
    for codec in (1, 2, 3, 4):
        streams = [compress(content[at:], codec, magic=2) for at in (0, 1, len(content) // 2)]
        assert together(codec, streams) == [alone(codec, stream) for stream in streams]


def opened(
    kernel: Callable[..., tuple[int, int, int]], codec: int, streams: list[bytes], size: int
) -> int:
    """How many of the first streams a kernel opens."""
    stops = np.cumsum([len(stream) for stream in streams])
    starts = stops - [len(stream) for stream in streams]
    columns = np.full(len(streams), codec), np.full(len(streams), 2), starts, stops
    found = np.zeros((2, len(streams)), dtype=np.int64)
    out = np.zeros(size + PADDING, dtype=np.uint8)
    row, _, _ = kernel(padded(b"".join(streams)), columns, 0, LIMIT, out, 0, found)
    return int(row)


def opened_by_snappy_kernel(streams: list[bytes], size: int) -> int:
    return opened(open_snappy, SNAPPY, streams, size)


def snappy_elements(chance: random.Random) -> bytes:
    """A block put together by hand: every kind of element, and sizes that are nearly right."""
    out, held = bytearray(), 0
    for _ in range(chance.randrange(1, 9)):
        kind = chance.randrange(8)
        size = chance.choice((1, 2, 4, 7, 11, 12, 31, 32, 33, 59, 60, 61, 64))
        back = chance.choice((1, 2, 3, 7, 8, 9, 15, 16, 31, 32, 33, held, held + 1, 0))
        if kind < 2 or not held:
            literal, width = chance.randbytes(size), chance.choice((0, 0, 1, 2, 3, 4))
            width = width or int(size > 60)
            out += bytes([(59 + width if width else size - 1) << 2])
            out += (size - 1).to_bytes(4, "little")[:width] + literal
        elif kind < 4:
            size = min(max(size, 4), 11)
            out += bytes([(back >> 8 & 7) << 5 | size - 4 << 2 | 1, back & 0xFF])
        elif kind < 7:
            out += bytes([size - 1 << 2 | 2]) + struct.pack("<H", back)
        else:
            out += bytes([size - 1 << 2 | 3]) + struct.pack("<I", back)
        held += size
    held += chance.choice((0, 0, 0, 0, 0, 0, 1, -1))
    size = bytes([held]) if held < 0x80 else bytes([held & 0x7F | 0x80, held >> 7])
    cut = chance.choice((0, 0, 0, 0, 0, 1, 2, 5))
    return size + bytes(out[: max(0, len(out) - cut)])


def test_a_snappy_block_is_judged_as_the_library_does() -> None:
    chance = random.Random(6)
    good = 0
    for _ in range(FEW):
        block = snappy_elements(chance)
        size = block[0] if block[0] < 0x80 else block[0] & 0x7F | block[1] << 7
        if size > 22 * len(block):  # the slow path doubts it
            continue
        room = bytearray(size)
        try:
            refused = cramjam.snappy.decompress_raw_into(block, room) != size
        except cramjam.DecompressionError:
            refused = True
        framed = HEAD + struct.pack(">i", len(block)) + block
        for stream in (block, framed):
            assert opened_by_snappy_kernel([stream], size) == int(not refused), block.hex()
            if not refused:
                assert together(SNAPPY, [stream]) == [bytes(room)], block.hex()
        good += not refused
    assert good > FEW // 20


def test_the_snappy_kernel_opens_what_clients_write() -> None:
    whole = compress(TEXT, SNAPPY, magic=2)
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    streams = [whole, HEAD, whole + b"\0\0\0", raw, b"\0", compress(bytes(70_000), 2, magic=2)]
    assert together(SNAPPY, streams) == [TEXT, b"", TEXT, TEXT, b"", bytes(70_000)]
    assert opened_by_snappy_kernel(streams, 100_000) == len(streams)
    assert opened_by_snappy_kernel(streams, 2 * len(TEXT)) == 3
    assert opened_by_snappy_kernel([whole, whole + HEAD, whole], 100_000) == 1


@pytest.mark.skipif(not gzip.INFLATE, reason="Python hides the functions of its zlib")
def test_the_gzip_kernel_opens_what_clients_write() -> None:
    workspace = gzip._inflaters.workspace
    assert workspace is not None
    kernel = partial(gzip_kernel.open_frames, gzip.RESET, gzip.INFLATE, workspace.address)
    written = [zlib.compress(TEXT, level, 31) for level in range(10)]
    streams = [compress(TEXT, 1, magic=2), *written, zlib.compress(b"", 6, 31)]
    size = len(TEXT) * 11 + gzip_kernel.SLACK
    assert opened(kernel, 1, streams, size) == len(streams)
    assert opened(kernel, 1, streams, size - 1) == 10
    assert together(1, streams) == [TEXT] * 11 + [b""]
    whole = written[6]
    unusual = {
        "a name": whole[:3] + b"\x08" + whole[4:10] + b"a\0" + whole[10:],
        "two members": whole * 2,
        "a byte too many": whole + b"\0",
        "another size": whole[:-4] + bytes([whole[-4] ^ 1]) + whole[-3:],
        "another checksum": whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:],
        "more than it can hold": whole[:-4] + b"\xff" * 4,
        "many bytes": zlib.compress(random.Random(7).randbytes(gzip_kernel.TINY), 6, 31),
    }
    for name, stream in unusual.items():
        assert opened(kernel, 1, [stream], LIMIT) == 0, name
        assert together(1, [stream, whole]) == [alone(1, stream), TEXT], name


@pytest.mark.skipif(not gzip.INFLATE, reason="Python hides the functions of its zlib")
def test_each_thread_inflates_in_a_stream_of_its_own() -> None:
    contents = [bytes([at % 251]) * at for at in range(200)]
    streams = [compress(content, 1, magic=2) for content in contents]
    found: list[list[bytes | str]] = []

    def work() -> None:
        found.extend(together(1, streams) for _ in range(2 if INTERPRETED else 50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one == contents for one in found)
    assert len(found) == (8 if INTERPRETED else 200)
