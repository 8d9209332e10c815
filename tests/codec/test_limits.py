"""What a stream may cost: the limit on what comes out, and the memory on the way there."""

import struct
import subprocess
import sys
import tracemalloc
import zlib

import cramjam
import lz4.block
import numpy as np
import pytest

from builders import compress
from ottla.codec import (
    Arena,
    CodecError,
    OutputTooLarge,
    decompress_into,
    decompress_window,
    open_stream,
)
from ottla.codec.rows import ENOUGH
from ottla.codec.streams import STORED_AT_ONCE
from ottla.region import PADDING

MIB = 1 << 20


def zstd_bomb(window: int) -> bytes:
    """82,000 blocks of 4 bytes that stand for 128 KiB each: 10 GiB."""
    repeated = struct.pack("<I", (1 << 17) << 3 | 1 << 1)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd\0" + bytes([window]) + repeated * 82000 + b"\x01\0\0"


def gzip_bomb() -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    pieces = [deflate.compress(bytes(MIB)) for _ in range(300)]
    return b"".join(pieces) + deflate.flush()


def lz4_bomb() -> bytes:
    block = lz4.block.compress(bytes(1 << 16), store_size=False)
    sized = struct.pack("<I", len(block)) + block
    return b"\x04\x22\x4d\x18\x60\x40\x82" + sized * 5000 + bytes(4)


BOMBS = {
    "zstd": lambda: (4, zstd_bomb(0x58)),
    "zstd-window-128-mib": lambda: (4, zstd_bomb(0x88)),
    "gzip": lambda: (1, gzip_bomb()),
    "lz4": lambda: (3, lz4_bomb()),
}

# Peak memory is the process's own, so each bomb gets a process.
SCRIPT = """
import resource, sys
from ottla.codec import Arena, OutputTooLarge, decompress_into
payload = sys.stdin.buffer.read()
idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress_into(int(sys.argv[1]), 2, memoryview(payload), Arena(), 256 << 20)
except OutputTooLarge:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle)
"""


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_an_error_and_little_memory(name: str) -> None:
    codec, payload = BOMBS[name]()
    command = [sys.executable, "-c", SCRIPT, str(codec)]
    run = subprocess.run(command, input=payload, capture_output=True, check=True)
    assert int(run.stdout) < 150 * 1024, "kilobytes above the idle peak"


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_limit_is_exact(codec: int) -> None:
    stream = memoryview(compress(bytes(100_000), codec, magic=2))
    assert decompress_into(codec, 2, stream, Arena(), 100_000) == 100_000
    with pytest.raises(OutputTooLarge, match="99999"):
        decompress_into(codec, 2, stream, Arena(), 99_999)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_what_is_too_large_to_store_at_once_is_stored_all_the_same(codec: int) -> None:
    payload = b"0123456789abcdef" * (STORED_AT_ONCE // 16 + 1)
    arena = Arena()
    arena.room(5)[:] = b"first"
    arena.at = 5
    size = decompress_into(codec, 2, memoryview(compress(payload, codec, magic=2)), arena, 64 * MIB)
    assert size == len(payload)
    assert arena.data[: arena.at].tobytes() == b"first" + payload
    assert arena.data.size >= arena.at + PADDING


def test_many_tiny_members_cost_no_square() -> None:
    stream = memoryview(zlib.compress(b"ab", 9, 31) * 20_000)
    assert decompress_into(1, 2, stream, Arena(), MIB) == 40_000


def test_many_tiny_members_with_names_cost_no_square() -> None:
    member = zlib.compress(b"ab", 9, 31)
    named = member[:3] + b"\x08" + member[4:10] + b"name\0" + member[10:]
    stream = memoryview(named * 100_000)  # the square is a terabyte
    assert decompress_into(1, 2, stream, Arena(), MIB) == 200_000


def test_a_name_of_any_length_is_passed_over() -> None:
    member = zlib.compress(b"ab", 9, 31)
    for size in (0, 1, 254, 255, 256, 257, 1000):
        named = member[:3] + b"\x08" + member[4:10] + b"n" * size + b"\0" + member[10:]
        assert decompress_into(1, 2, memoryview(named), Arena(), MIB) == 2
        with pytest.raises(CodecError, match="head is incomplete"):
            decompress_into(1, 2, memoryview(named[: 10 + size]), Arena(), MIB)


def test_blocks_of_nothing_are_not_listed() -> None:
    framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + struct.pack(">iB", 1, 0) * 20_000
    tracemalloc.start()
    try:
        assert decompress_into(2, 2, memoryview(framed), Arena(), MIB) == 0
        assert tracemalloc.get_traced_memory()[1] < 2 * MIB
    finally:
        tracemalloc.stop()


def test_a_stream_that_nobody_reads_is_not_opened_at_any_cost() -> None:
    block = bytes(cramjam.snappy.compress_raw(bytes(65 * MIB)))
    with pytest.raises(OutputTooLarge):
        open_stream(2, 2, memoryview(block))


@pytest.mark.parametrize("claimed", [b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x32"])
def test_a_snappy_block_cannot_claim_what_it_cannot_hold(claimed: bytes) -> None:
    arena = Arena()
    with pytest.raises(CodecError, match="cannot hold"):
        decompress_into(2, 2, memoryview(claimed + bytes(50)), arena, 1 << 40)
    assert arena.data.size < 2 * MIB


def test_a_failed_stream_leaves_the_arena_as_it_was() -> None:
    arena = Arena()
    arena.at = 7
    broken = compress(b"abc" * 1000, 1, magic=2)[:-9]
    with pytest.raises(CodecError):
        decompress_into(1, 2, memoryview(broken), arena, MIB)
    assert arena.at == 7


def window(payloads: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The payloads one after another, padded, and where each begins and ends."""
    stops = np.cumsum([len(payload) for payload in payloads])
    starts = stops - [len(payload) for payload in payloads]
    data = np.frombuffer(b"".join(payloads) + bytes(PADDING), dtype=np.uint8)
    return data, starts, stops


def test_a_window_gives_each_row_its_place_or_its_error() -> None:
    payloads = [
        compress(b"one", 3, magic=2),
        b"not compressed",
        b"\x1f\x8bno",
        compress(b"four" * 99, 4, magic=2),
        compress(b"five", 2, magic=1),
    ]
    data, starts, stops = window(payloads)
    arena = Arena()
    columns = np.array([3, 0, 1, 4, 2]), np.array([2, 2, 2, 2, 1])
    opened = decompress_window(*columns, starts, stops, data, arena, MIB)
    found = [arena.data[a:b].tobytes() for a, b in zip(opened.starts, opened.stops, strict=True)]
    assert found == [b"one", b"", b"", b"four" * 99, b"five"]
    assert list(opened.errors) == [2]


def test_a_window_stops_when_the_arena_holds_enough() -> None:
    size = ENOUGH // 2 + 1
    payloads = [compress(bytes(size), 4, magic=2)] * 5
    data, starts, stops = window(payloads)
    codecs_, magics = np.full(5, 4), np.full(5, 2)
    arena = Arena()
    opened = decompress_window(codecs_, magics, starts, stops, data, arena, 64 * MIB)
    assert opened.stops.tolist() == [size, 2 * size]
