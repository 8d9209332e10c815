"""Decode damaged segments from and into memory that ends at a page nobody may touch.

Run as `python guard_pages.py SEED COUNT`: a kernel that reads or writes past its padding kills the
process. Prints how many inputs gave rows and how many gave errors. `python guard_pages.py streams
SEED COUNT` does so with compressed streams, and prints how many a kernel opened and how many not.
"""

import ctypes
import mmap
import random
import sys
from functools import partial

import numpy as np

import builders
from builders import Row
from ottla.batch.decode import Chunk, Decoder
from ottla.batch.select import Selected
from ottla.codec import gzip as gzip_codec
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.frames import gzip, snappy
from ottla.kernels.records.scan import scan
from ottla.kernels.tables import Wanted, allocate_batches, take_batches
from ottla.region import PADDING, Bytes, Region

PAGE = mmap.PAGESIZE
PROT_NONE = 0
EVERYTHING = Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS | Wanted.INDEXES | Wanted.CONTROL
_workspace = gzip_codec._inflaters.workspace
_inflate = () if _workspace is None else (gzip_codec.RESET, gzip_codec.INFLATE, _workspace.address)
# Those that need little more room than what comes out, and how much that is.
OPENERS = {2: (snappy.open_frames, 0)}
if _inflate:
    OPENERS[1] = partial(gzip.open_frames, *_inflate), gzip.SLACK
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
        found, stopped, _, _ = scan(source, at, len(data), 0, table)
        batches = take_batches(table, slice(0, found))
        compute_crcs(source, 0, batches)
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
    kernel, slack = OPENERS[codec]
    out = guarded(size + slack + PADDING)
    row, at, _ = kernel(source, columns, 0, 1 << 20, out, 0, found)
    assert row == 0 or at == found[1, 0] <= size
    return bool(row)


def open_streams(seed: int, count: int) -> None:
    chance = random.Random(seed)
    pieces = [b"a", b"abc", b"0123456789", chance.randbytes(70), bytes(40), chance.randbytes(9)]
    opened = 0
    for _ in range(count):
        content = b"".join(chance.choices(pieces, k=chance.randrange(12)))
        codec = chance.choice([*OPENERS])
        stream = builders.compress(content, codec, magic=2)
        if chance.random() < 0.7:
            stream = damage(stream, chance)
        size = max(0, len(content) + chance.choice((0, 0, 0, -1, 1, 40)))
        opened += open_stream(codec, stream, size)
    print(opened, count - opened)


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
    (open_streams if mode else main)(int(seed), int(count))
