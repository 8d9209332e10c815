"""Codec streams against what Kafka said of them: those of the corpus, and 2800 damaged ones."""

import base64
import lzma
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus import CASES, expected_lines
from ottla.codec import Arena, CodecError, decompress_into, decompress_window, open_stream
from ottla.format.attributes import CODEC_NAMES
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
    assert len(asked) == 700
    for number, (_, magic, stream, expected) in enumerate(asked):
        found = verdict(codec, int(magic), base64.b64decode(stream))
        assert found == expected, f"stream {number} of codec {codec}"


def test_a_window_of_damaged_streams_gets_the_same_verdicts() -> None:
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
