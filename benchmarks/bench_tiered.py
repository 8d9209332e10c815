"""A scan of encrypted zstd chunks of remote storage, and what it is made of, each measured apart.

The whole reads, opens, expands and scans a segment of local files, CRCs checked; the parts do one
of these with what the part before would have given. Chunks are of 4 MiB, as the plugin has them.
"""

import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import zstandard
from Crypto.Cipher import AES

from benchmarks.corpus import SEGMENTS, Plan
from benchmarks.rounds import best_rates, timed
from benchmarks.table import ratio
from benchmarks.targets import TIERED_TO_PARTS
from ottla import write_segment
from ottla.log.files.partition import find_partitions
from ottla.log.read.windows import read_windows
from ottla.storage.files import File, open_file
from ottla.storage.kept import chunks
from ottla.storage.kept.envelope import KEYS_VARIABLE

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from tiered.encoder import AAD, DATA_KEY, KEYS, Mode, Upload, write_upload

HEADING = ("what", "GB/s", "of its parts", "target")
MODE = Mode(4 << 20, compress=True, key_id="key1")
VALUE_BYTES = 120
_ROOM = bytearray(MODE.chunk_size)


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """The parts, then the whole."""
    os.environ[KEYS_VARIABLE] = str(KEYS)
    plain, remote = _files(plan)
    data = plain.read_bytes()
    (partition,) = find_partitions([remote])
    (segment,) = partition.segments
    stored = _stored(next(remote.rglob("*.log")).read_bytes(), segment.log.kept)
    opened = [_decrypt(chunk) for chunk in stored]
    turns = {
        "decrypt": lambda: _each(stored, _decrypt),
        "decompress": lambda: _each(opened, _expand),
        "scan": lambda: _scan(open_file(plain)),
        "whole": lambda: _scan_remote(segment.log),
    }
    size = len(data)
    best = best_rates({name: timed(_of(work, size)) for name, work in turns.items()}, plan.rounds)
    parts = 1 / sum(1 / best[name] for name in ("decrypt", "decompress", "scan"))
    for name, rate in best.items():
        if name != "whole":
            yield name, f"{rate / 1e9:.2f}", "", ""
    yield "all of them, one after another", f"{parts / 1e9:.2f}", "", ""
    told = f"{best['whole'] / 1e9:.2f}"
    yield ("a scan of the chunks", told, *ratio(best["whole"], parts, TIERED_TO_PARTS))


def _of(work: Callable[[], None], size: int) -> Callable[[], int]:
    def run() -> int:
        work()
        return size

    return run


def _files(plan: Plan) -> tuple[Path, Path]:
    """A segment, and the same as remote objects."""
    count = plan.uncompressed_bytes // VALUE_BYTES
    root = SEGMENTS / "tiered" / str(count)
    plain = root / "orders-0" / f"{0:020d}.log"
    if not plain.exists():
        plain.parent.mkdir(parents=True, exist_ok=True)
        write_segment(_records(count), plain, batch_bytes=60_000)
        upload = Upload(0, plain.read_bytes(), 0, count - 1, {0: 0}, [(0, 0)])
        write_upload(root / "remote", upload, MODE)
    return plain, root / "remote"


def _records(count: int) -> Iterator[pa.RecordBatch]:
    """Values are words, which zstd makes a third as long."""
    chance = random.Random(19)
    words = [chance.randbytes(5).hex().encode() for _ in range(1000)]
    for start in range(0, count, 10_000):
        numbers = range(start, min(start + 10_000, count))
        values = [b" ".join(chance.choices(words, k=9)) for _ in numbers]
        yield pa.RecordBatch.from_pydict({"key": [b"%d" % at for at in numbers], "value": values})


def _stored(data: bytes, kept: object) -> list[bytes]:
    assert isinstance(kept, chunks.Chunked)
    assert kept.sizes.table is not None
    found, at = [], 0
    for begin in range(0, len(kept.sizes.table), 4):
        size = int.from_bytes(kept.sizes.table[begin : begin + 4], "little")
        found.append(data[at : at + size])
        at += size
    return found


def _each(pieces: list[bytes], work: Callable[[bytes], object]) -> None:
    for piece in pieces:
        work(piece)


def _decrypt(chunk: bytes) -> bytes:
    cipher = AES.new(DATA_KEY, AES.MODE_GCM, nonce=chunk[:12])
    cipher.update(AAD)
    return cipher.decrypt_and_verify(chunk[12:-16], chunk[-16:])


def _expand(packed: bytes) -> int:
    """Into memory that was used before: what new pages cost is not what it costs."""
    with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
        return int(reader.readinto(_ROOM))


def _scan(file: File) -> None:
    with file:
        for window in read_windows(file):
            assert window.violation is None


def _scan_remote(entry: object) -> None:
    chunks._held = chunks._HeldChunks(chunks._HELD_BYTES)  # nothing of the turn before
    _scan(open_file(entry))  # type: ignore[arg-type]
