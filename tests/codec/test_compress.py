"""Compressed streams byte by byte where the format decides, and through independent readers."""

import gzip
import random
import struct

import cramjam
import lz4.block
import lz4.frame
import pytest
import zstandard

import naive_codecs
from ottla.codec import compress, compress_into, resolve_level, room_to_compress
from ottla.errors import OptionError
from ottla.format.attributes import CODEC_NAMES, Codec

TEXT = b'{"order": 4711, "customer": "Zephyr", "amount": 12}' * 3000  # several blocks
VARIED = b"".join(b'{"id": %d, "user": "u%d"}' % (i, i * 7919 % 10007) for i in range(2000))
NOISE = bytes((index * 7919 >> 3) & 0xFF for index in range(70000))

PAYLOADS = [
    pytest.param(b"", id="empty"),
    pytest.param(b"x", id="one-byte"),
    pytest.param(TEXT, id="text"),
    pytest.param(NOISE, id="noise"),
]
STREAMS = [
    pytest.param(codec, magic, id=f"{CODEC_NAMES[codec]}-v{magic}")
    for codec in (1, 2, 3, 4)
    for magic in (0, 1, 2)
    if codec != Codec.ZSTD or magic == 2
]


def compressed(codec: int, payload: bytes, magic: int = 2, level: int | None = None) -> bytes:
    return compress(codec, magic, memoryview(payload), level=resolve_level(codec, level))


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize(("codec", "magic"), STREAMS)
def test_a_naive_reader_gets_the_payload_back(codec: int, magic: int, payload: bytes) -> None:
    stream = compressed(codec, payload, magic)
    assert b"".join(naive_codecs.decompress(stream, codec, magic=magic)) == payload


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [0, 1, 100, 32768, 32769, 65536, 65537, 300000])
def test_noise_fits_the_room_that_is_said_to_be_enough(codec: int, size: int) -> None:
    payload = random.Random(size).randbytes(size)
    room = memoryview(bytearray(room_to_compress(size, 1)))
    level = resolve_level(codec, None)
    wrote = compress_into(codec, 2, memoryview(payload), room, level=level)
    assert room[:wrote] == compressed(codec, payload)
    assert b"".join(naive_codecs.decompress(bytes(room[:wrote]), codec, magic=2)) == payload


def test_gzip_begins_as_java_17_begins_it() -> None:
    assert compressed(Codec.GZIP, TEXT)[:10].hex() == "1f8b08000000000000ff"


def test_gzip_ends_with_crc_and_size() -> None:
    stream = compressed(Codec.GZIP, b"123456789")
    assert stream[-8:] == struct.pack("<II", 0xCBF43926, 9)
    assert gzip.decompress(stream) == b"123456789"


def test_snappy_has_the_xerial_header_and_blocks_of_32_kib() -> None:
    stream = compressed(Codec.SNAPPY, TEXT)
    assert stream[:16].hex() == "82534e41505059000000000100000001"
    size = struct.unpack_from(">i", stream, 16)[0]
    assert stream[20:23] == b"\x80\x80\x02"  # the first block's uncompressed size, 32768
    assert stream[20 + size + 4 : 20 + size + 7] == b"\x80\x80\x02"


def test_an_empty_snappy_stream_is_the_header() -> None:
    assert compressed(Codec.SNAPPY, b"").hex() == "82534e41505059000000000100000001"


@pytest.mark.parametrize(("magic", "checksum"), [(0, 0x1A), (1, 0x82), (2, 0x82)])
def test_lz4_of_magic_0_has_the_broken_header_checksum(magic: int, checksum: int) -> None:
    head = b"\x04\x22\x4d\x18\x60\x40" + bytes([checksum])
    assert compressed(Codec.LZ4, TEXT, magic)[:7] == head


def test_lz4_blocks_are_of_64_kib_and_independent() -> None:
    stream = compressed(Codec.LZ4, TEXT)
    size = struct.unpack_from("<I", stream, 7)[0]
    assert lz4.block.decompress(stream[11 : 11 + size], uncompressed_size=65536) == TEXT[:65536]
    second = struct.unpack_from("<I", stream, 11 + size)[0]
    start = 15 + size
    block = stream[start : start + second]
    assert lz4.block.decompress(block, uncompressed_size=65536) == TEXT[65536 : 2 * 65536]
    assert lz4.frame.decompress(stream) == TEXT


def test_an_lz4_block_that_does_not_shrink_is_stored() -> None:
    payload = bytes(range(16))
    expected = b"\x04\x22\x4d\x18\x60\x40\x82" + struct.pack("<I", 16 | 1 << 31) + payload
    assert compressed(Codec.LZ4, payload) == expected + bytes(4)


def test_an_empty_lz4_stream_is_head_and_end_mark() -> None:
    assert compressed(Codec.LZ4, b"").hex() == "04224d1860408200000000"


def test_zstd_states_neither_size_nor_checksum() -> None:
    stream = compressed(Codec.ZSTD, TEXT)
    parameters = zstandard.get_frame_parameters(stream)
    assert parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert not parameters.has_checksum
    assert zstandard.ZstdDecompressor().decompressobj().decompress(stream) == TEXT


@pytest.mark.parametrize(
    ("codec", "weak", "strong"),
    [(Codec.GZIP, 1, 9), (Codec.LZ4, 1, 17), (Codec.ZSTD, -50, 19)],
    ids=["gzip", "lz4", "zstd"],
)
def test_a_higher_level_gives_fewer_bytes(codec: int, weak: int, strong: int) -> None:
    sizes = [len(compressed(codec, VARIED, level=level)) for level in (weak, strong)]
    assert sizes[1] < sizes[0]


def test_level_9_of_lz4_is_the_fast_compressor() -> None:
    # Lz4Compression: only the default level is not LZ4 HC.
    stream = compressed(Codec.LZ4, TEXT[:60000], level=9)
    assert stream[11:-4] == bytes(cramjam.lz4.compress_block(TEXT[:60000], store_size=False))


# CompressionType: minimum, maximum and default of each codec.
@pytest.mark.parametrize(
    ("codec", "level"),
    [(1, 1), (1, 9), (1, -1), (3, 1), (3, 17), (4, -131072), (4, 0), (4, 22)],
)
def test_a_level_in_kafkas_range_is_taken(codec: int, level: int) -> None:
    assert resolve_level(codec, level) == level


@pytest.mark.parametrize(
    ("codec", "level"),
    [(1, 0), (1, 10), (1, -2), (3, 0), (3, 18), (4, -131073), (4, 23), (0, 1), (2, 1)],
)
def test_a_level_outside_kafkas_range_is_refused(codec: int, level: int) -> None:
    with pytest.raises(OptionError, match=CODEC_NAMES[codec]):
        resolve_level(codec, level)


@pytest.mark.parametrize(("codec", "level"), [(1, -1), (3, 9), (4, 3)])
def test_the_default_levels_are_kafkas(codec: int, level: int) -> None:
    assert resolve_level(codec, None) == level
