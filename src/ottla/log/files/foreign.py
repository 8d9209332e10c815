"""Files that are no segments: packed ones, what lies beside a segment, and text."""

import posixpath
import shlex
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from ottla.errors import OptionError, Term
from ottla.format.names import (
    CLEAN_SHUTDOWN,
    LOG_DIRECTORY_FILES,
    META_PROPERTIES,
    PARTITION_FILES,
    PARTITION_METADATA,
    Kind,
    parse_file_name,
)
from ottla.storage.files import File, open_file
from ottla.storage.listing import Entry
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage.paths import Path


class Packing(NamedTuple):
    """How files are packed: the ends of their names, their first bytes, and what unpacks them."""

    what: str
    suffixes: tuple[str, ...]
    magic: bytes
    command: str
    at: int = 0  # where the magic stands


# Archives come first: one that is compressed as a whole is unpacked at once. Read as an offset,
# every magic is above 2^57, which no log has reached.
PACKINGS: Final = (
    Packing("a tar archive", (".tar",), b"ustar", "tar -xf", 257),
    Packing("a packed tar archive", (".tgz", ".tar.gz"), b"", "tar -xzf"),
    Packing("a packed tar archive", (".tar.zst", ".tzst"), b"", "tar -I zstd -xf"),
    Packing("a packed tar archive", (".tar.xz", ".txz"), b"", "tar -xJf"),
    Packing("a packed tar archive", (".tar.bz2", ".tbz2"), b"", "tar -xjf"),
    Packing("a packed tar archive", (".tar.lz4",), b"", "tar -I lz4 -xf"),
    Packing("a zip archive", (".zip",), b"PK\x03\x04", "unzip"),
    Packing("compressed by gzip", (".gz",), b"\x1f\x8b\x08", "gzip -dk"),
    Packing("compressed by zstd", (".zst",), b"\x28\xb5\x2f\xfd", "zstd -dk"),
    Packing("compressed by lz4", (".lz4",), b"\x04\x22\x4d\x18", "lz4 -dk"),
    Packing("compressed by xz", (".xz",), b"\xfd7zXZ\x00", "xz -dk"),
    Packing("compressed by bzip2", (".bz2",), b"BZh", "bzip2 -dk"),
)
_HEAD: Final = 4096
# Colours of a terminal too. A batch has zeros in its first eight bytes, up to offset 2^56.
_NOT_IN_TEXT: Final = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))
_SIDE_FILES: Final = {
    Kind.OFFSET_INDEX: "an offset index",
    Kind.TIME_INDEX: "a time index",
    Kind.TRANSACTION_INDEX: "a transaction index",
    Kind.PRODUCER_SNAPSHOT: "a producer snapshot",
}
_OF_KAFKA: Final = LOG_DIRECTORY_FILES | PARTITION_FILES
_CHECKPOINTS: Final = _OF_KAFKA - {CLEAN_SHUTDOWN, META_PROPERTIES, PARTITION_METADATA}


def require_segment(file: File) -> None:
    """Refuse a file that no broker wrote as a segment, before all of it is called damage."""
    head, name = _head(file), posixpath.basename(file.path)
    packing, what = find_packing(file.path, head), side_file(name)
    if packing is not None:
        raise OptionError(say_packed(file.path, packing))
    if what is not None:
        raise OptionError(
            f"{file.path}: {what}, not a segment: name the .log file beside it, or their folder, or"
            " print it with ",
            Term.DUMP,
        )
    if name in _OF_KAFKA:
        raise OptionError(
            f"{file.path}: Kafka keeps it beside segments, and it is none itself: name the"
            " directory that it lies in"
        )
    if is_text(head):
        raise OptionError(
            f"{file.path}: text, not a segment of Kafka: segments are named like"
            " 00000000000000000000.log and lie in folders such as orders-0 of a broker's log.dirs"
        )


def side_file(name: str) -> str | None:
    """What a file beside segments is that can be printed, by its name.

    >>> side_file("00000000000000000042.timeindex"), side_file("00000000000000000042.log")
    ('a time index', None)
    """
    if name in _CHECKPOINTS:
        return "a checkpoint"
    if name == PARTITION_METADATA:
        return "the id of a topic"
    parsed = parse_file_name(name)
    return _SIDE_FILES.get(parsed.kind) if parsed is not None else None


def is_text(head: bytes) -> bool:
    r"""Whether bytes are lines of text.

    >>> is_text(b"[2024-04-24 10:00:00] INFO started\n"), is_text(b"\0\0\0\0\0\0\0\0")
    (True, False)
    """
    return b"\n" in head and head.translate(None, delete=_NOT_IN_TEXT) == head


def is_text_log(source: Path | Entry, options: StorageOptions = DEFAULT_OPTIONS) -> bool:
    """Whether a file begins with text where a segment has a batch, and is none of Kafka's own."""
    with open_file(source, options) as file:
        return posixpath.basename(file.path) not in _OF_KAFKA and is_text(_head(file))


def _head(file: File) -> bytes:
    buffer = np.empty(min(file.size, _HEAD), dtype=np.uint8)
    return buffer[: file.read_ready(buffer, 0, buffer.size)].tobytes()


def refuse_packed_segments(paths: Iterable[str]) -> None:
    """Refuse files of a partition that are segments but for how they are packed."""
    for path in paths:
        packing = find_packing(path)
        if packing is not None and _unpacked_kind(path, packing) is Kind.LOG:
            raise OptionError(say_packed(path, packing))


def _unpacked_kind(path: str, packing: Packing) -> Kind | None:
    name = posixpath.basename(path)
    for suffix in packing.suffixes:
        parsed = parse_file_name(name.removesuffix(suffix))
        if parsed is not None:
            return parsed.kind
    return None


def find_packing(path: str, head: bytes = b"") -> Packing | None:
    """How a file is packed.

    >>> find_packing("orders-0.tgz").command, find_packing("0.log"), find_packing("-", b"BZh9").what
    ('tar -xzf', None, 'compressed by bzip2')
    """
    for packing in PACKINGS:
        named = path.lower().endswith(packing.suffixes)
        marked = packing.magic and head[packing.at :].startswith(packing.magic)
        if named or marked:
            return packing
    return None


def say_packed(path: str, packing: Packing) -> str:
    """What a packed file is, and how it is unpacked."""
    told = f"{path} is {packing.what}, and only what is unpacked is read"
    if path == "-":
        return f"{told}: unpack it before the pipe"
    return f"{told}: `{packing.command} {shlex.quote(path)}`"
