"""Codec streams against what Kafka said of them: those of the corpus, and 3200 damaged ones."""

import base64
import lzma
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from corpus import CASES, expected_lines
from ottla.codec import (
    Arena,
    CodecError,
    decompress_into,
    decompress_window,
    gzip,
    lz4,
    open_stream,
)
from ottla.codec.zstd import DECODE_FRAME, _contexts
from ottla.format.attributes import CODEC_NAMES
from ottla.kernels.frames.zstd import open_frames
from ottla.region import padded

VERDICTS = Path(__file__).parent / "verdicts.txt.xz"
LIMIT = 64 << 20
# How the exceptions of codec streams reach a consumer.
CODEC_EXCEPTIONS = ("KafkaException", "SnappyError", "NegativeArraySizeException")

Line = dict[str, Any]


def verdict(codec: int, magic: int, stream: bytes) -> str:
    """The answer of `CodecVerdicts.java`, by our own reader."""
    try:
        open_stream(codec, magic, memoryview(stream))
    except CodecError:
        return "refused"
    arena = Arena()
    try:
        size = decompress_into(codec, magic, memoryview(stream), arena, LIMIT)
    except CodecError:
        return "broken"
    return f"{size} {zlib.crc32(arena.data[:size])}"


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=CODEC_NAMES.__getitem__)
def test_damaged_streams_get_kafkas_verdict(codec: int) -> None:
    lines = lzma.decompress(VERDICTS.read_bytes()).decode().splitlines()
    asked = [line.split(" ", 3) for line in lines if line.startswith(f"{codec} ")]
    assert len(asked) == (1100 if codec == 4 else 700)
    for number, (_, magic, stream, expected) in enumerate(asked):
        found = verdict(codec, int(magic), base64.b64decode(stream))
        assert found == expected, f"stream {number} of codec {codec}"


@pytest.mark.parametrize("hidden", [False, True], ids=["kernels", "libraries hide theirs"])
def test_a_window_of_damaged_streams_gets_the_same_verdicts(
    hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hidden:
        monkeypatch.setattr(lz4, "DECODE_BLOCK", 0)
        monkeypatch.setattr(_contexts, "workspace", None)
        monkeypatch.setattr(gzip._inflaters, "workspace", None)
    lines = lzma.decompress(VERDICTS.read_bytes()).decode().splitlines()
    asked = [line.split(" ", 3) for line in lines]
    streams = [base64.b64decode(stream) for _, _, stream, _ in asked]
    stops = np.cumsum([len(stream) for stream in streams])
    starts = stops - [len(stream) for stream in streams]
    codecs, magics = (np.array([int(line[column]) for line in asked]) for column in (0, 1))
    arena = Arena()
    data = padded(b"".join(streams))
    opened = decompress_window(codecs, magics, starts, stops, data, arena, LIMIT)
    for row, (_, _, _, expected) in enumerate(asked):
        piece = arena.data[opened.starts[row] : opened.stops[row]]
        assert (row in opened.errors) == (expected in ("refused", "broken")), row
        if row not in opened.errors:
            assert f"{piece.size} {zlib.crc32(piece)}" == expected, row


ZSTD_HEAD = b"\x28\xb5\x2f\xfd\x00"
WINDOW_2_MIB, WINDOW_1_KIB, WINDOW_2_GIB = b"\x58", b"\x00", b"\xa8"
WINDOW_120_MIB, WINDOW_128_MIB, WINDOW_144_MIB = b"\x87", b"\x88", b"\x89"
ZEROS = zstandard.ZstdCompressor(write_content_size=False).compressobj()
ZEROS_10_KB = (ZEROS.compress(bytes(10_000)) + ZEROS.flush())[len(ZSTD_HEAD) + 1 :]


def block(size: int, kind: int, content: bytes, *, last: bool = True) -> bytes:
    return struct.pack("<I", size << 3 | kind << 1 | last)[:3] + content


# Frames on the border of what a kernel opens with the library's function for whole frames.
BORDER = {
    "stored": ZSTD_HEAD + WINDOW_2_MIB + block(5, 0, b"12345"),
    "stored, then the end": ZSTD_HEAD
    + WINDOW_2_MIB
    + block(5, 0, b"12345", last=False)
    + block(0, 0, b""),
    "two blocks": ZSTD_HEAD + WINDOW_2_MIB + block(5, 0, b"12345", last=False) + block(2, 0, b"67"),
    "no end": ZSTD_HEAD + WINDOW_2_MIB + block(5, 0, b"12345", last=False),
    "repeated": ZSTD_HEAD + WINDOW_2_MIB + block(1 << 17, 1, b"x"),
    "repeated too often": ZSTD_HEAD + WINDOW_2_MIB + block((1 << 17) + 1, 1, b"x"),
    "stored, as large as a block may be": ZSTD_HEAD
    + WINDOW_2_MIB
    + block(1 << 17, 0, bytes(1 << 17)),
    "stored, larger": ZSTD_HEAD + WINDOW_2_MIB + block((1 << 17) + 1, 0, bytes((1 << 17) + 1)),
    "as large as its window": ZSTD_HEAD + WINDOW_1_KIB + block(1024, 0, bytes(1024)),
    "larger than its window": ZSTD_HEAD + WINDOW_1_KIB + block(1025, 0, bytes(1025)),
    "zeros": ZSTD_HEAD + WINDOW_2_MIB + ZEROS_10_KB,
    "zeros that are more than their window": ZSTD_HEAD + WINDOW_1_KIB + ZEROS_10_KB,
    "a large window": ZSTD_HEAD + WINDOW_120_MIB + block(5, 0, b"12345"),
    "a window above the largest": ZSTD_HEAD + WINDOW_144_MIB + block(5, 0, b"12345"),
    "the largest window": ZSTD_HEAD + WINDOW_128_MIB + block(5, 0, b"12345"),
    "a window that is too large": ZSTD_HEAD + WINDOW_2_GIB + block(5, 0, b"12345"),
    "two frames": 2 * (ZSTD_HEAD + WINDOW_2_MIB + block(5, 0, b"12345")),
    "a second frame with too large a window": ZSTD_HEAD
    + WINDOW_2_MIB
    + block(5, 0, b"12345")
    + ZSTD_HEAD
    + WINDOW_2_GIB
    + block(5, 0, b"12345"),
    "a reserved block": ZSTD_HEAD + WINDOW_2_MIB + block(5, 3, b"12345"),
    "bytes behind the end": ZSTD_HEAD + WINDOW_2_MIB + block(5, 0, b"12345") + b"6",
    "half a head": ZSTD_HEAD + WINDOW_2_MIB + b"\0",
    "nothing": b"",
}


# How many bytes Kafka read from each (`CodecVerdicts.java`); the others are broken to it.
READ_BY_KAFKA = {
    "stored": 5,
    "stored, then the end": 5,
    "two blocks": 7,
    "repeated": 131072,
    "stored, as large as a block may be": 131072,
    "as large as its window": 1024,
    "zeros": 10_000,
    "a large window": 5,
    "the largest window": 5,
    "two frames": 10,
    "nothing": 0,
}
OPENED_TOGETHER = {
    "stored",
    "stored, then the end",
    "stored, as large as a block may be",
    "as large as its window",
    "zeros",
    "a large window",
}


@pytest.mark.skipif(not DECODE_FRAME, reason="the zstandard package hides its functions")
@pytest.mark.parametrize("name", BORDER)
def test_kernels_open_what_they_are_meant_to(name: str) -> None:
    stream = BORDER[name]
    found = np.zeros((2, 1), dtype=np.int64)
    columns = tuple(np.array([value]) for value in (4, 2, 0, len(stream)))
    workspace = _contexts.workspace
    assert workspace is not None
    row, _, _ = open_frames(
        DECODE_FRAME,
        workspace.address,
        padded(stream),
        columns,
        0,
        LIMIT,
        np.zeros(1 << 18, dtype=np.uint8),
        0,
        found,
    )
    assert (row == 1) == (name in OPENED_TOGETHER)


@pytest.mark.parametrize("name", BORDER)
def test_a_frame_on_the_border_is_judged_as_kafka_does(name: str) -> None:
    stream = BORDER[name]
    one = np.array([0]), np.array([len(stream)])
    for limit in (LIMIT, 4):
        arena, alone = Arena(), Arena()
        opened = decompress_window(np.array([4]), np.array([2]), *one, padded(stream), arena, limit)
        errors = []
        try:
            decompress_into(4, 2, memoryview(stream), alone, limit)
        except CodecError as error:
            errors.append(str(error))
        assert [str(error) for error in opened.errors.values()] == errors
        assert arena.data[: arena.at].tobytes() == alone.data[: alone.at].tobytes()
        if limit == LIMIT:
            assert (None if errors else arena.at) == READ_BY_KAFKA.get(name)


def compressed_payloads(corpus: Path, case: str) -> Iterator[tuple[Line, bytes, list[Line]]]:
    """Batches of a case that a consumer decompresses, their payloads and the errors Kafka found."""
    data = (corpus / "segments" / f"{case}.log").read_bytes()
    lines = expected_lines(corpus, case)
    for batch in lines:
        if batch["type"] != "batch" or batch["codec"] in ("none", None):
            continue
        at = batch["position"]
        errors = [line for line in lines if line["type"] == "error" and line["position"] == at]
        payload = payload_of(data[at : at + batch["size"]])
        if payload is not None and all(error["stage"] != "crc" for error in errors):
            yield batch, payload, errors


def payload_of(batch: bytes) -> bytes | None:
    """What is compressed: the records of magic 2, the value of a message before it."""
    if batch[16] == 2:
        return batch[61:]
    at = 26 if batch[16] == 1 else 18
    at += 4 + max(0, struct.unpack_from(">i", batch, at)[0])
    size = struct.unpack_from(">i", batch, at)[0]
    return None if size < 0 else batch[at + 4 : at + 4 + size]


def is_rejected(batch: Line, payload: bytes) -> bool:
    """Whether the stream is rejected; of a batch without records Kafka only opens it."""
    codec, magic, stream = batch["codecId"], batch["magic"], memoryview(payload)
    try:
        if batch["count"] == 0:
            open_stream(codec, magic, stream)
        else:
            decompress_into(codec, magic, stream, Arena(), LIMIT)
    except CodecError:
        return True
    return False


@pytest.mark.parametrize("case", [case for case in CASES if "-none-" not in case])
def test_streams_of_the_corpus_are_judged_as_kafka_does(corpus: Path, case: str) -> None:
    for batch, payload, errors in compressed_payloads(corpus, case):
        rejected = is_rejected(batch, payload)
        if not errors:
            assert not rejected, batch["position"]
        if any(error["exception"] in CODEC_EXCEPTIONS for error in errors):
            assert rejected, batch["position"]
