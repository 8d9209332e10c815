"""Decode damaged segments from and into memory that ends at a page nobody may touch.

Run as `python guard_pages.py SEED COUNT`: a kernel that reads or writes past its padding kills the
process. Prints how many inputs gave rows and how many gave errors. `python guard_pages.py streams
SEED COUNT` does so with compressed streams, and prints how many a kernel opened and how many not.
`python guard_pages.py batches SEED COUNT` encodes records, and prints how many batches it made.
"""

import ctypes
import mmap
import random
import sys
from functools import partial

import numpy as np
import zstandard

import builders
from builders import Row
from ottla.batch import encode
from ottla.batch.decode import Chunk, Decoder
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.batch.select import Selected
from ottla.codec import gzip as gzip_codec
from ottla.codec import lz4 as lz4_codec
from ottla.codec import zstd as zstd_codec
from ottla.kernels.frames import gzip, lz4, snappy, zstd
from ottla.kernels.records.scan import scan_and_check
from ottla.kernels.tables import Wanted, allocate_batches, take_batches
from ottla.region import PADDING, Bytes, Region

PAGE = mmap.PAGESIZE
PROT_NONE = 0
EVERYTHING = Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS | Wanted.INDEXES | Wanted.CONTROL
# With how much more room than what comes out each opens everything.
OPENERS = {2: (snappy.open_frames, 0)}
if (_gzip := gzip_codec._inflaters.workspace) is not None:
    _inflate = gzip_codec.RESET, gzip_codec.INFLATE, _gzip.address
    OPENERS[1] = partial(gzip.open_frames, *_inflate), gzip.SLACK
if lz4_codec.DECODE_BLOCK:
    OPENERS[3] = partial(lz4.open_frames, lz4_codec.DECODE_BLOCK), lz4.BLOCK_SIZE
if (_zstd := zstd_codec._contexts.workspace) is not None:
    _decode = zstd_codec.DECODE_FRAME, _zstd.address
    OPENERS[4] = partial(zstd.open_frames, *_decode), zstd.MAX_BLOCK_SIZE
SIZES = (0, 1, 2, 31, 32, 33, 54, 55, 62, 63, 64, 65, 100, 8188, 8191, 8192)
INTERESTING = (0, 1, 2, 0x3F, 0x40, 0x7F, 0x80, 0xFE, 0xFF)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def guarded(size: int) -> Bytes:
    """`size` bytes, the last of them just before a page that faults; another such page in front."""
    pages = -(-size // PAGE) * PAGE
    memory = mmap.mmap(-1, pages + 2 * PAGE)
    whole = np.frombuffer(memory, dtype=np.uint8)
    address = whole.ctypes.data
    for guard in (address, address + PAGE + pages):
        if _libc.mprotect(guard, PAGE, PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
    return whole[PAGE + pages - size : PAGE + pages]


def originals() -> list[bytes]:
    headers = ((b"trace", b"x" * 40), (b"", None), (b"\xff", b""))
    rows = [Row(at, 1000 + at, b"k" * at, b"value" * at, headers[: at % 4]) for at in range(9)]
    legacy = [row._replace(headers=()) for row in rows]
    modern = [builders.segment(rows, magic=2, codec=codec) for codec in range(5)]
    older = [builders.segment(legacy, magic=m, codec=codec) for m in (0, 1) for codec in range(4)]
    long = builders.batch([Row(at, at, b"k" * 33, b"v" * 31) for at in range(200)])
    return [*modern, *older, long, modern[0] + older[1] + modern[3]]


def damage(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, removed or doubled; a cut at a random place now and then."""
    changed = bytearray(data)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(changed))
        if chance.random() < 0.8:
            random_byte = chance.randrange(256)
            changed[at] = chance.choice((*INTERESTING, random_byte, changed[at] ^ 1 << at % 8))
        elif chance.random() < 0.5:
            del changed[at : at + chance.randrange(1, 9)]
        else:
            changed[at:at] = changed[at : at + chance.randrange(1, 9)]
        if not changed:
            return b""
    return bytes(
        changed[: chance.randrange(len(changed) + 1)] if chance.random() < 0.2 else changed
    )


_selected = Selected(EVERYTHING, guarded)


def select(chunk: Chunk | None) -> int:
    """Copy every record, as if all were chosen; how many there are."""
    if chunk is None:
        return 0
    copies = [*_selected.add(chunk, np.arange(chunk.count))]
    assert all(copy.count for copy in copies)
    return chunk.count


def decode(data: bytes) -> tuple[int, int]:
    """How many records came out and how many rules were broken, CRCs aside."""
    source = guarded(len(data) + PADDING)
    source[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    region = Region(source, len(data), "guarded", 0)
    table = allocate_batches(64)
    at = records = broken = 0
    decoder = Decoder(EVERYTHING, check_crcs=False, allocate=guarded)
    while True:
        found, stopped, _, _ = scan_and_check(source, at, len(data), 0, table)
        batches = take_batches(table, slice(0, found))
        for chunk, left_out in decoder.decode(region, batches):
            records += select(chunk)
            broken += len(left_out)
        records += select(decoder.flush())
        if stopped <= at:
            return records, broken
        at = stopped


def open_stream(codec: int, stream: bytes, size: int) -> bool:
    """Whether a kernel opens a stream where there is room for `size` bytes and no more."""
    source = guarded(len(stream) + PADDING)
    source[: len(stream)] = np.frombuffer(stream, dtype=np.uint8)
    columns = tuple(np.array([value]) for value in (codec, 2, 0, len(stream)))
    found = np.zeros((2, 1), dtype=np.int64)
    out = guarded(size + PADDING)
    row, at, _ = OPENERS[codec][0](source, columns, 0, 1 << 20, out, 0, found)
    assert row == 0 or at == found[1, 0] <= size
    return bool(row)


def compress(content: bytes, codec: int, chance: random.Random) -> bytes:
    """As Kafka does, or as other clients write zstd: with the size of what comes out."""
    if codec != 4 or chance.random() < 0.3:
        return builders.compress(content, codec, magic=2)
    return zstandard.ZstdCompressor(write_checksum=chance.random() < 0.5).compress(content)


def open_streams(seed: int, count: int) -> None:
    chance = random.Random(seed)
    pieces = [b"a", b"abc", b"0123456789", chance.randbytes(70), bytes(40), chance.randbytes(9)]
    opened = 0
    for _ in range(count):
        content = b"".join(chance.choices(pieces, k=chance.randrange(12)))
        codec = chance.choice([*OPENERS])
        stream = compress(content, codec, chance)
        if chance.random() < 0.7:
            stream = damage(stream, chance)
        size = max(0, len(content) + chance.choice((0, 0, 0, -1, 1, 40)))
        slack = OPENERS[codec][1]
        opened += open_stream(codec, stream, size + chance.choice((0, slack, slack, slack)))
    print(opened, count - opened)


def encode_batches(seed: int, count: int) -> None:
    chance = random.Random(seed)
    encode._allocate = lambda size: guarded(size + PADDING)
    made = 0

    def some_bytes() -> bytes | None:
        return None if chance.random() < 0.1 else b"x" * chance.choice(SIZES)

    for _ in range(count):
        offsets = np.cumsum([chance.choice((1, 1, 2, 1000, 1 << 20)) for _ in range(9)])
        times = (-1, 0, 1000, 1 << 40, (1 << 63) - 1)
        headers = [(b"h" * chance.choice(SIZES), some_bytes()) for _ in range(chance.randrange(4))]
        rows = [
            NewRecord(offset, chance.choice(times), some_bytes(), some_bytes(), headers)
            for offset in offsets.tolist()
        ]
        records = pack_rows(rows)
        copies = {}
        for name in records._fields:
            if name.endswith("_bytes"):
                column = getattr(records, name)
                copies[name] = guarded(column.size)
                copies[name][:] = column
        bounds = np.unique([0, chance.randrange(10), chance.randrange(10), 9])
        encoded = encode.encode_batches(records._replace(**copies), bounds, NewBatch())
        made += encoded.batches.position.size
    print(made)


def main(seed: int, count: int) -> None:
    chance = random.Random(seed)
    segments = originals()
    rows = errors = 0
    for _ in range(count):
        records, broken = decode(damage(chance.choice(segments), chance))
        rows += records > 0
        errors += broken > 0
    print(rows, errors)


if __name__ == "__main__":
    *mode, seed, count = sys.argv[1:]
    modes = {"streams": open_streams, "batches": encode_batches}
    modes.get("".join(mode), main)(int(seed), int(count))
