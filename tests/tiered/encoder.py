"""Remote objects as Aiven's plugin writes them, from keywords with defaults. Nothing here imports
ottla: the layout is that of the plugin's own classes, written down once more.
"""

import base64
import json
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard
from Crypto.Cipher import AES, PKCS1_OAEP
from Crypto.Hash import SHA3_512
from Crypto.PublicKey import RSA

from builders import Row, batch

GOLDEN = Path(__file__).parent / "golden"
KEYS = GOLDEN / "keys"
TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
AAD = bytes(range(32))
DATA_KEY = bytes(range(100, 132))


def segment_id(number: int) -> str:
    """An id by number; some begin with a dash, as Kafka's may."""
    head = b"\xfb\xe0" if number % 3 == 0 else b"\x01\x02"
    raw = head + bytes(6) + struct.pack(">q", number + 1)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@dataclass
class Upload:
    """One segment: what is in it, and how it is uploaded."""

    number: int
    log: bytes
    start: int
    end: int
    epochs: dict[int, int]
    lineage: list[tuple[int, int]]
    indexes: dict[str, bytes] = field(default_factory=dict)
    event_ms: int = 0

    @property
    def id(self) -> str:
        return segment_id(self.number)


@dataclass
class Mode:
    """What is done to chunks."""

    chunk_size: int = 1024
    compress: bool = False
    key_id: str | None = None


def seal(data: bytes) -> bytes:
    if not data:
        return b""
    iv = os.urandom(12)
    cipher = AES.new(DATA_KEY, AES.MODE_GCM, nonce=iv)
    cipher.update(AAD)
    text, tag = cipher.encrypt_and_digest(data)
    return iv + text + tag


def pack_sizes(sizes: list[int]) -> bytes:
    """ChunkSizesBinaryCodec: the smallest is the base, the last one stands by itself."""
    body = struct.pack(">i", len(sizes))
    if len(sizes) == 1:
        body += struct.pack(">i", sizes[0])
    elif sizes:
        base = min(sizes[:-1])
        width = max(1, (max(sizes[:-1]) - base).bit_length() + 7 >> 3)
        body += struct.pack(">iB", base, width)
        body += b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1])
        body += struct.pack(">i", sizes[-1])
    return zstandard.ZstdCompressor().compress(body)


def stored_chunks(log: bytes, mode: Mode) -> list[bytes]:
    chunks = [log[at : at + mode.chunk_size] for at in range(0, len(log), mode.chunk_size)]
    if mode.compress:
        chunks = [zstandard.ZstdCompressor().compress(chunk) for chunk in chunks]
    return [seal(chunk) for chunk in chunks] if mode.key_id else chunks


def checkpoint(lineage: list[tuple[int, int]]) -> bytes:
    lines = ["0", str(len(lineage)), *(f"{epoch} {offset}" for epoch, offset in lineage)]
    return "".join(f"{line}\n" for line in lines).encode()


def manifest_of(
    upload: Upload, mode: Mode, topic: str, partition: int, chunks: list[bytes]
) -> tuple[dict[str, Any], bytes]:
    """The manifest, and the object of indexes."""
    sizes = [len(chunk) for chunk in chunks]
    index: dict[str, Any] = {
        "type": "variable" if mode.compress else "fixed",
        "originalChunkSize": mode.chunk_size,
        "originalFileSize": len(upload.log),
    }
    if mode.compress:
        index["transformedChunks"] = base64.b64encode(pack_sizes(sizes)).decode()
    else:
        more = 28 if mode.key_id else 0
        index["transformedChunkSize"] = mode.chunk_size + more
        index["finalTransformedChunkSize"] = sizes[-1] if sizes else 0
    files = {
        "offset": b"",
        "timestamp": b"",
        "producerSnapshot": b"",
        "leaderEpoch": checkpoint(upload.lineage),
        "transaction": None,
    } | upload.indexes
    spans: dict[str, Any] = {}
    packed = b""
    for name, data in files.items():
        if data is None:
            spans[name] = None
            continue
        part = seal(data) if mode.key_id else data
        spans[name] = {"position": len(packed), "size": len(part)}
        packed += part
    told: dict[str, Any] = {
        "version": "1",
        "chunkIndex": index,
        "segmentIndexes": spans,
        "compression": mode.compress,
    }
    if mode.key_id:
        public = RSA.import_key((GOLDEN / "key1.public.pem").read_bytes())
        sealed = PKCS1_OAEP.new(public, hashAlgo=SHA3_512).encrypt(DATA_KEY)
        told["encryption"] = {
            "dataKey": f"{mode.key_id}:{base64.b64encode(sealed).decode()}",
            "aad": base64.b64encode(AAD).decode(),
        }
    home = {"topicId": TOPIC_ID, "topicPartition": {"topic": topic, "partition": partition}}
    told["remoteLogSegmentMetadata"] = {
        "remoteLogSegmentId": {"topicIdPartition": home, "id": upload.id},
        "startOffset": upload.start,
        "endOffset": upload.end,
        "maxTimestampMs": 0,
        "brokerId": 1,
        "eventTimestampMs": upload.event_ms,
        "segmentLeaderEpochs": {str(epoch): offset for epoch, offset in upload.epochs.items()},
    }
    return told, packed


def write_upload(
    root: Path, upload: Upload, mode: Mode, topic: str = "orders", partition: int = 0
) -> Path:
    """The three objects below a prefix; the path of the log."""
    folder = root / f"{topic}-{TOPIC_ID}" / str(partition)
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{upload.start:020d}-{upload.id}"
    chunks = stored_chunks(upload.log, mode)
    told, indexes = manifest_of(upload, mode, topic, partition, chunks)
    Path(f"{stem}.log").write_bytes(b"".join(chunks))
    Path(f"{stem}.indexes").write_bytes(indexes)
    Path(f"{stem}.rsm-manifest").write_text(json.dumps(told, separators=(",", ":")))
    return Path(f"{stem}.log")


def write_plain(root: Path, upload: Upload, topic: str = "orders", partition: int = 0) -> Path:
    """The same segment as Kafka's LocalTieredStorage copies it."""
    folder = root / "kafka-tiered-storage" / f"{topic}-{partition}-{TOPIC_ID}"
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{upload.start:020d}-{upload.id}"
    suffixes = {"offset": "index", "timestamp": "timeindex", "producerSnapshot": "snapshot"}
    Path(f"{stem}.log").write_bytes(upload.log)
    for name, suffix in suffixes.items():
        Path(f"{stem}.{suffix}").write_bytes(upload.indexes.get(name, b""))
    Path(f"{stem}.leader_epoch_checkpoint").write_bytes(checkpoint(upload.lineage))
    return Path(f"{stem}.log")


def batches_of(offsets: range, epoch: int, each: int = 5, tag: bytes = b"") -> list[bytes]:
    """Batches of records that say their offset, and who wrote them."""
    return [
        batch(
            [
                Row(at, 1000 + at, b"k%d" % at, b"%s value of %d " % (tag, at) * 4)
                for at in range(begin, min(begin + each, offsets.stop))
            ],
            leader_epoch=epoch,
        )
        for begin in range(offsets.start, offsets.stop, each)
    ]


def offset_index(base: int, batches: list[bytes]) -> bytes:
    """An entry for every batch but the first."""
    entries, position = b"", 0
    for data in batches:
        first, delta = struct.unpack_from(">q", data)[0], struct.unpack_from(">i", data, 23)[0]
        if position:
            entries += struct.pack(">ii", first + delta - base, position)
        position += len(data)
    return entries


def upload_of(
    number: int,
    offsets: range,
    epochs: dict[int, int],
    *,
    lineage: list[tuple[int, int]] | None = None,
    event_ms: int = 0,
    tag: bytes = b"",
    each: int = 5,
) -> Upload:
    """A segment of these offsets, each of the epoch that began last before it."""
    starts = sorted(epochs.items())
    batches: list[bytes] = []
    for (epoch, start), (_, stop) in zip(starts, [*starts[1:], (0, offsets.stop)], strict=True):
        batches += batches_of(range(max(start, offsets.start), stop), epoch, each, tag)
    own = {epoch: max(start, offsets.start) for epoch, start in starts}
    return Upload(
        number,
        b"".join(batches),
        offsets.start,
        offsets.stop - 1,
        own,
        starts if lineage is None else lineage,
        {"offset": offset_index(offsets.start, batches), "producerSnapshot": SNAPSHOT},
        event_ms,
    )


SNAPSHOT = (GOLDEN / "original" / f"{1200:020d}.snapshot").read_bytes()  # of no producers
