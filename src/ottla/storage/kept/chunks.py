"""A file that is kept as chunks of itself, each compressed, then sealed, one after another.

No length is trusted: what a chunk expands to is known before, a tag is checked before anything is
made of the bytes, and a chunk that is not what it should be is lost by itself.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import zstandard

from ottla.batch.memory import allocate_from_pool
from ottla.errors import Rule, Violation
from ottla.extras import missing_extra
from ottla.format.arrays import Bytes
from ottla.storage.files import File, open_remaining
from ottla.storage.kept.envelope import SealedError, open_data_key
from ottla.storage.kept.source import LOST, KeptSource
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions

IV_BYTES: Final = 12
TAG_BYTES: Final = 16
SEAL_BYTES: Final = IV_BYTES + TAG_BYTES
MAX_CHUNK_BYTES: Final = 256 << 20  # of one that must be held whole
_HELD_BYTES: Final = 32 << 20  # of opened chunks, in a process
_PEEK_BYTES: Final = 16 << 10
_MAX_PEEK_BYTES: Final = 1 << 20  # of what is opened for a look at its end
_COUNTER_START: Final = 2  # GCM's counter of the first block of text (NIST SP 800-38D)
_MAX_WINDOW: Final = 1 << 27  # what zstd itself takes unasked


@dataclass(frozen=True, slots=True)
class Seal:
    """How chunks are encrypted: AES-256-GCM, with a key that is itself sealed."""

    key_id: str
    data_key: bytes
    aad: bytes


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """Bytes of stored chunks: all `each` but the `last`, or those of the `table` (int32)."""

    count: int
    each: int
    last: int
    table: bytes | None = None

    @property
    def total(self) -> int:
        if self.table is not None:
            return int(np.frombuffer(self.table, dtype=np.int32).sum(dtype=np.int64))
        return (self.count - 1) * self.each + self.last if self.count else 0


@dataclass(frozen=True, slots=True)
class Chunked:
    """`size` bytes that are stored in an object, from `origin` on, in chunks of `chunk_size`."""

    stored: Entry
    origin: int
    size: int
    chunk_size: int
    sizes: ChunkSizes
    compressed: bool = False
    seal: Seal | None = None

    @property
    def chunk_bytes(self) -> int:
        return self.chunk_size if self.compressed or self.seal is not None else 0

    @property
    def lies_in(self) -> Entry:
        return self.stored

    def open(self, entry: Entry, options: StorageOptions) -> File:
        stored = open_remaining(self.stored, options)
        return File(entry.path, self.size, _ChunkSource(entry.path, self, stored))


class _Opened(NamedTuple):
    """The bytes of a chunk, or why there are none."""

    data: Bytes
    problem: str | None


class _HeldChunks:
    """The chunks that were opened last: readers come back for the rest of one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._chunks: OrderedDict[tuple[Any, ...], _Opened] = OrderedDict()
        self._size = 0

    def get(self, key: tuple[Any, ...]) -> _Opened | None:
        with self._lock:
            found = self._chunks.get(key)
            if found is not None:
                self._chunks.move_to_end(key)
            return found

    def put(self, key: tuple[Any, ...], opened: _Opened) -> None:
        with self._lock:
            if key not in self._chunks:
                self._size += opened.data.size
            self._chunks[key] = opened
            while self._size > self._limit and len(self._chunks) > 1:
                _, dropped = self._chunks.popitem(last=False)
                self._size -= dropped.data.size


_held: Final = _HeldChunks(_HELD_BYTES)


class _LostError(Exception):
    """Why a chunk can not be had."""


class _ChunkSource(KeptSource):
    def __init__(self, path: str, kept: Chunked, stored: File) -> None:
        self._path, self._kept, self._stored = path, kept, stored
        self._damages: dict[int, Violation] = {}
        self._lock = threading.Lock()
        table = kept.sizes.table
        self._ends = None
        if table is not None:
            sizes = np.frombuffer(table, dtype=np.int32)
            self._ends = np.cumsum(sizes, dtype=np.int64)
        entry = kept.stored
        self._key = (entry.path, entry.modified_ns, entry.size, kept.origin)

    @property
    def damages(self) -> list[Violation]:
        return list(self._damages.values())

    def close(self) -> None:
        self._stored.close()

    def read(self, target: Bytes, position: int) -> int:
        if self._kept.chunk_bytes == 0:
            return self._read_plain(target, position)
        number, at = divmod(position, self._kept.chunk_size)
        data = self._open_chunk(number)[at : at + target.size]
        target[: data.size] = data
        return data.size

    def _read_plain(self, target: Bytes, position: int) -> int:
        """Nothing was done to the bytes: any of them can be had. Those that are gone are lost."""
        got = self._stored.read_into(target, self._kept.origin + position, target.size)
        if got < target.size:
            target[got:] = LOST
            begin = position + got
            why = f"the object ends at byte {self._kept.origin + begin}"
            self._damages.setdefault(begin, self._lost(begin, self._kept.size - begin, why))
        return target.size

    def _open_chunk(self, number: int) -> Bytes:
        if number in self._damages:
            return self._nothing_of(number)
        key = (*self._key, number)
        with self._lock:
            opened = _held.get(key)
            if opened is None:
                opened = self._read_chunk(number)
                if opened.problem is None:  # another reader may have the key, or more luck
                    _held.put(key, opened)
        if opened.problem is not None and number not in self._damages:
            begin = number * self._kept.chunk_size
            self._damages[number] = self._lost(begin, opened.data.size, opened.problem)
        return opened.data

    def _lost(self, position: int, size: int, why: str) -> Violation:
        return Violation(Rule.REMOTE_CHUNK_OPENS, why, self._path, position, size=size)

    def _read_chunk(self, number: int) -> _Opened:
        size = self._original_size(number)
        try:
            return _Opened(self._unpack(number, size), None)
        except _LostError as problem:
            return _Opened(self._nothing_of(number), f"chunk {number}: {problem}")

    def _nothing_of(self, number: int) -> Bytes:
        """What stands for a chunk that is lost."""
        size = self._original_size(number)
        return np.broadcast_to(np.uint8(LOST), size) if size else np.empty(0, dtype=np.uint8)

    def _original_size(self, number: int) -> int:
        return max(0, min(self._kept.chunk_size, self._kept.size - number * self._kept.chunk_size))

    def _place(self, number: int) -> tuple[int, int]:
        """Where a stored chunk begins in its object, and its size."""
        sizes, origin = self._kept.sizes, self._kept.origin
        if self._ends is not None:
            begin = int(self._ends[number - 1]) if number else 0
            return origin + begin, int(self._ends[number]) - begin
        last = number == sizes.count - 1
        return origin + number * sizes.each, sizes.last if last else sizes.each

    def _unpack(self, number: int, size: int) -> Bytes:
        if size > MAX_CHUNK_BYTES:
            raise _LostError(f"{size} bytes: chunks are held whole, up to {MAX_CHUNK_BYTES} bytes")
        begin, stored = self._place(number)
        if stored > MAX_CHUNK_BYTES:
            raise _LostError(f"{stored} bytes are stored: up to {MAX_CHUNK_BYTES} are read")
        buffer = allocate_from_pool(stored)
        got = self._stored.read_into(buffer, begin, stored)
        if got < stored:
            raise _LostError(f"it ends at byte {begin + stored}, and the object at {begin + got}")
        if self._kept.seal is not None:
            buffer = self._unseal(buffer, self._kept.seal)
        if self._kept.compressed:
            return _expand(buffer, size)
        if buffer.size != size:
            raise _LostError(f"{buffer.size} bytes where {size} belong")
        return buffer

    def _unseal(self, buffer: Bytes, seal: Seal) -> Bytes:
        if buffer.size < SEAL_BYTES:
            raise _LostError(f"{buffer.size} bytes are too few for an IV and a tag")
        aes = _aes()
        text = allocate_from_pool(buffer.size - SEAL_BYTES)
        cipher = aes.new(_data_key(seal), aes.MODE_GCM, nonce=buffer[:IV_BYTES].tobytes())
        cipher.update(seal.aad)
        sealed, tag = buffer[IV_BYTES:-TAG_BYTES], buffer[-TAG_BYTES:]
        try:
            cipher.decrypt_and_verify(sealed.data, tag.tobytes(), output=text.data)
        except ValueError:
            why = "its tag is wrong: the bytes are not those that were encrypted"
            raise _LostError(why) from None
        return text

    def peek(self, target: Bytes, position: int) -> int:
        """A few bytes of a chunk from its beginning, with no look at the tag."""
        if self._kept.chunk_bytes == 0:
            return self.read(target, position)
        number, at = divmod(position, self._kept.chunk_size)
        wanted = min(target.size, self._original_size(number) - at)
        opened = _held.get((*self._key, number))
        if number in self._damages:
            head = self._nothing_of(number)
        elif opened is None:
            head = self._peek_chunk(number, at + wanted)
            if head.size < at + wanted:
                return self.read(target, position)
        else:
            head = opened.data
        target[:wanted] = head[at : at + wanted]
        return wanted

    def _peek_chunk(self, number: int, wanted: int) -> Bytes:
        nothing = np.empty(0, dtype=np.uint8)
        if wanted > _MAX_PEEK_BYTES:
            return nothing
        begin, stored = self._place(number)
        tail = 0 if self._kept.seal is None else TAG_BYTES
        room = min(stored - tail, wanted + _PEEK_BYTES)
        if room <= 0 or room > _PEEK_BYTES * 8:
            return nothing
        head = np.empty(room, dtype=np.uint8)
        head = head[: self._stored.read_into(head, begin, room)]
        if self._kept.seal is not None:
            if head.size <= IV_BYTES:
                return nothing
            aes = _aes()
            nonce = head[:IV_BYTES].tobytes()
            try:
                key = _data_key(self._kept.seal)
            except _LostError:
                return nothing
            cipher = aes.new(key, aes.MODE_CTR, nonce=nonce, initial_value=_COUNTER_START)
            text = np.empty(head.size - IV_BYTES, dtype=np.uint8)
            cipher.decrypt(head[IV_BYTES:].data, output=text.data)
            head = text
        if not self._kept.compressed:
            return head
        reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(head.data)
        try:
            return np.frombuffer(reader.read(wanted), dtype=np.uint8)
        except zstandard.ZstdError:
            return nothing


def _aes() -> Any:
    try:
        from Crypto.Cipher import AES
    except ImportError:
        raise missing_extra("tiered", "encrypted objects are opened by pycryptodome") from None
    return AES


def _data_key(seal: Seal) -> bytes:
    try:
        return open_data_key(seal.key_id, seal.data_key)
    except SealedError as error:
        raise _LostError(str(error)) from None


def _expand(packed: Bytes, size: int) -> Bytes:
    """What one frame holds, if that is exactly `size` bytes."""
    try:
        stated = zstandard.get_frame_parameters(packed.data).content_size
        if stated not in (size, zstandard.CONTENTSIZE_UNKNOWN):
            raise _LostError(f"its zstd frame states {stated} bytes where {size} belong")
        data = allocate_from_pool(size)
        expander = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        with expander.stream_reader(packed.data) as reader:
            got = reader.readinto(data.data) if size else 0
            more = reader.read(1)
    except zstandard.ZstdError as error:
        raise _LostError(f"it is no whole zstd frame of {size} bytes: {error}") from None
    if got != size or more:
        held = "more" if more else str(got)
        raise _LostError(f"its zstd frame holds {held} bytes where {size} belong")
    return data
