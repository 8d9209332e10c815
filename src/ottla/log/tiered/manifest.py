"""The manifest of an Aiven segment (`*.rsm-manifest`): what its objects hold, and how.

It is JSON of strangers: every field must be there, of its type and within its bounds, and what it
says of sizes must add up. What is not so is one violation, and the segment is not read.
"""

import base64
import binascii
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import zstandard

from ottla.errors import CorruptLogError, Rule, Violation
from ottla.format.names import TopicPartition, is_topic_name
from ottla.format.sentinels import INT32_MAX, INT64_MAX
from ottla.log.files.checkpoints import EpochStart
from ottla.log.files.identity import is_uuid
from ottla.storage.kept.chunks import SEAL_BYTES, ChunkSizes, Seal
from ottla.storage.kept.envelope import is_key_id

MAX_MANIFEST_BYTES: Final = 2 << 20  # what JSON makes of it is up to 25 times as much
_MAX_TABLE_BYTES: Final = 10 << 20  # the plugin refuses more too (ChunkSizesBinaryCodec)
# Of 32 KiB in the largest segment: a size of each is held, and of each that is lost a violation.
_MAX_CHUNKS: Final = 1 << 16
_MAX_KEY_BYTES: Final = 4096  # of RSA's largest keys, eight times over
_VERSION: Final = "1"
# In the order in which they lie in the object.
INDEX_NAMES: Final = ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")


@dataclass(frozen=True, slots=True)
class IndexSpan:
    """Bytes of the object of indexes."""

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """`size` is that of the segment, before anything was done to it."""

    name: TopicPartition
    topic_id: str
    segment_id: str
    start_offset: int
    end_offset: int
    event_ms: int
    epochs: tuple[EpochStart, ...]
    size: int
    chunk_size: int
    sizes: ChunkSizes
    compressed: bool
    seal: Seal | None
    indexes: Mapping[str, IndexSpan]


class _BadError(Exception):
    """What is wrong: the field, what it says, what it should."""


def read_manifest(data: bytes, path: str) -> Manifest:
    """Parse and check a manifest."""
    try:
        return _read(_object(_parse(data), "the manifest"))
    except _BadError as error:
        detail, found, expected = error.args
        raise CorruptLogError(
            Violation(
                Rule.REMOTE_MANIFEST_READABLE, detail, path, 0, found=found, expected=expected
            )
        ) from None


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise _BadError("no JSON in UTF-8", type(error).__name__, None) from None


def _read(told: dict[str, Any]) -> Manifest:
    if told.get("version") != _VERSION:
        raise _BadError("the version", _shown(told.get("version")), _VERSION)
    compressed = told.get("compression")
    if not isinstance(compressed, bool):
        raise _BadError("compression", _shown(compressed), "true or false")
    seal = None if told.get("encryption") is None else _read_seal(_field(told, "encryption"))
    index = _field(told, "chunkIndex")
    size = _number(index, "originalFileSize", INT32_MAX)
    chunk_size = _number(index, "originalChunkSize", INT32_MAX)
    if size and not chunk_size:
        raise _BadError("originalChunkSize", "0", f"more, for {size} bytes")
    count = -(-size // chunk_size) if size else 0
    sizes = _read_sizes(index, count)
    if not compressed:
        _require_plain(sizes, size, chunk_size, seal)
    segment = _field(told, "remoteLogSegmentMetadata")
    identity = _field(segment, "remoteLogSegmentId")
    home = _field(identity, "topicIdPartition")
    start, end = _number(segment, "startOffset"), _number(segment, "endOffset")
    if end < start:
        raise _BadError("endOffset", str(end), f"at least {start}")
    return Manifest(
        _read_name(_field(home, "topicPartition")),
        _read_id(home, "topicId"),
        _read_id(identity, "id"),
        start,
        end,
        _number(segment, "eventTimestampMs"),
        _read_epochs(_field(segment, "segmentLeaderEpochs"), end),
        size,
        chunk_size,
        sizes,
        compressed,
        seal,
        _read_indexes(_field(told, "segmentIndexes"), seal),
    )


def _read_sizes(index: dict[str, Any], count: int) -> ChunkSizes:
    if count > _MAX_CHUNKS:
        raise _BadError("originalChunkSize", f"{count} chunks", f"at most {_MAX_CHUNKS}")
    kind = index.get("type")
    if kind == "fixed":
        each = _number(index, "transformedChunkSize", INT32_MAX)
        return ChunkSizes(count, each, _number(index, "finalTransformedChunkSize", INT32_MAX))
    if kind != "variable":
        raise _BadError("the type of the chunk index", _shown(kind), "fixed or variable")
    table = _read_table(_text(index, "transformedChunks"), count)
    return ChunkSizes(count, 0, 0, table[:count].tobytes())


def _read_table(text: str, expected: int) -> "np.ndarray[Any, np.dtype[np.int32]]":
    """Sizes of chunks (ChunkSizesBinaryCodec): a base, and what is added to it in few bytes."""
    packed = _base64(text, "transformedChunks")
    try:
        stated = zstandard.get_frame_parameters(packed).content_size
        if stated > _MAX_TABLE_BYTES:
            told = "unknown" if stated == zstandard.CONTENTSIZE_UNKNOWN else str(stated)
            raise _BadError("the size of transformedChunks", told, f"at most {_MAX_TABLE_BYTES}")
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=stated)
    except zstandard.ZstdError as error:
        raise _BadError("transformedChunks is no zstd frame", str(error), None) from None
    if len(data) < 4:
        raise _BadError("transformedChunks", f"{len(data)} bytes", "a count")
    (count,) = struct.unpack_from(">i", data)
    # The plugin gives an empty file one empty chunk.
    if count != expected and not (expected == 0 and count == 1):
        raise _BadError("transformedChunks", f"{count} chunks", f"{expected}")
    if count <= 1:
        if count < 0 or len(data) != 4 + 4 * count:
            raise _BadError("transformedChunks", f"{count} chunks in {len(data)} bytes", None)
        table = np.frombuffer(data, dtype=">i4", offset=4).astype(np.int32)
    else:
        table = _read_many(data, count)
    if (table < 0).any():
        raise _BadError("transformedChunks", f"a chunk of {int(table.min())} bytes", "at least 0")
    return table


def _read_many(data: bytes, count: int) -> "np.ndarray[Any, np.dtype[np.int32]]":
    if len(data) < 9:
        raise _BadError("transformedChunks", f"{count} chunks in {len(data)} bytes", None)
    base, width = struct.unpack_from(">iB", data, 4)
    if not 1 <= width <= 4 or len(data) != 9 + (count - 1) * width + 4:
        raise _BadError(
            "transformedChunks", f"{count} chunks of {width} bytes in {len(data)} bytes", None
        )
    rows = np.frombuffer(data, np.uint8, (count - 1) * width, 9).reshape(count - 1, width)
    added = np.zeros(count - 1, dtype=np.int64)
    for column in range(width):
        added = added * 256 + rows[:, column]
    (last,) = struct.unpack_from(">i", data, len(data) - 4)
    table = np.append(added + base, last)
    if (table > INT32_MAX).any():
        raise _BadError("transformedChunks", f"a chunk of {int(table.max())} bytes", "an int32")
    return table.astype(np.int32)


def _require_plain(sizes: ChunkSizes, size: int, chunk_size: int, seal: Seal | None) -> None:
    """Without compression every stored chunk has the size that it had, and that of a seal."""
    if size == 0:
        return
    more = 0 if seal is None else SEAL_BYTES
    last = size - (sizes.count - 1) * chunk_size + more
    if sizes.table is None:
        fits = sizes.last == last and (sizes.count == 1 or sizes.each == chunk_size + more)
    else:
        table = np.frombuffer(sizes.table, dtype=np.int32)
        fits = bool(table[-1] == last and (table[:-1] == chunk_size + more).all())
    if not fits:
        raise _BadError(
            "sizes of stored chunks", f"{sizes.total} in all", f"{size + more * sizes.count}"
        )


def _read_seal(told: dict[str, Any]) -> Seal:
    key_id, colon, text = _text(told, "dataKey").partition(":")
    if not colon or ":" in text or not is_key_id(key_id):
        raise _BadError("dataKey", _shown(key_id), "the id of a key, a colon, and base64")
    data_key = _base64(text, "dataKey")
    aad = _base64(_text(told, "aad"), "aad")
    if len(data_key) > _MAX_KEY_BYTES or len(aad) > _MAX_KEY_BYTES:
        raise _BadError("dataKey or aad", f"{len(data_key)} and {len(aad)} bytes", None)
    return Seal(key_id, data_key, aad)


def _read_indexes(told: dict[str, Any], seal: Seal | None) -> dict[str, IndexSpan]:
    spans = {}
    for name in INDEX_NAMES:
        if told.get(name) is None and name == "transaction":
            continue
        one = _field(told, name)
        span = IndexSpan(_number(one, "position", INT32_MAX), _number(one, "size", INT32_MAX))
        if seal is not None and 0 < span.size < SEAL_BYTES:
            raise _BadError(f"the size of index {name}", str(span.size), f"0 or from {SEAL_BYTES}")
        spans[name] = span
    return spans


def _read_name(told: dict[str, Any]) -> TopicPartition:
    topic = _text(told, "topic")
    if not is_topic_name(topic):
        raise _BadError("the name of the topic", _shown(topic), "one that Kafka takes")
    return TopicPartition(topic, _number(told, "partition", INT32_MAX))


def _read_id(told: dict[str, Any], name: str) -> str:
    text = _text(told, name)
    if not is_uuid(text):
        raise _BadError(name, _shown(text), "22 characters of base64")
    return text


def _read_epochs(told: dict[str, Any], end: int) -> tuple[EpochStart, ...]:
    epochs = []
    for text, offset in told.items():
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= INT32_MAX):
            raise _BadError("segmentLeaderEpochs", _shown(text), "an epoch")
        if not _is_number(offset, INT64_MAX):
            raise _BadError("segmentLeaderEpochs", _shown(offset), "an offset")
        epochs.append(EpochStart(int(text), offset))
    epochs.sort()
    offsets = [start.start_offset for start in epochs]
    if not epochs or offsets != sorted(offsets) or offsets[-1] > end:
        raise _BadError(
            "segmentLeaderEpochs", _shown(told), "at least one, with offsets that rise to the end"
        )
    return tuple(epochs)


def _field(told: dict[str, Any], name: str) -> dict[str, Any]:
    return _object(told.get(name), name)


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _BadError(name, _shown(value), "an object")
    return value


def _text(told: dict[str, Any], name: str) -> str:
    value = told.get(name)
    if not isinstance(value, str):
        raise _BadError(name, _shown(value), "text")
    return value


def _number(told: dict[str, Any], name: str, most: int = INT64_MAX) -> int:
    value = told.get(name)
    if not _is_number(value, most):
        raise _BadError(name, _shown(value), f"a number from 0 to {most}")
    assert isinstance(value, int)
    return value


def _is_number(value: Any, most: int) -> bool:
    return type(value) is int and 0 <= value <= most


def _base64(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _BadError(f"{name} is no base64", str(error), None) from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
