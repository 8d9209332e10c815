"""The types that every layout is made of: numbers, sizes, strings, bytes and ids.

Readers take bytes and a position and give a JSON-able value and the position after it.
"""

import math
from binascii import b2a_base64
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from ottla.batch.utf8 import java_utf8

Json = Any  # str, int, float, bool, None, list[Json] or dict[str, Json]
Reader = Callable[[bytes, int], tuple[Json, int]]

FIXED: Final = {
    kind: Struct(f">{code}")
    for kind, code in {
        "bool": "?",
        "int8": "b",
        "int16": "h",
        "int32": "i",
        "int64": "q",
        "uint16": "H",
        "uint32": "I",
    }.items()
}
UUID_SIZE: Final = 16
URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
FLOAT64: Final = Struct(">d")
MAX_UVARINT_SIZE: Final = 5
MAX_STRING_SIZE: Final = 2**15 - 1


class MalformedError(Exception):
    """The bytes are not what the schema says; the text says where."""


def scalar_reader(kind: str) -> Reader:
    if kind == "uuid":
        return _read_uuid
    if kind == "float64":
        return _read_float64
    unpack, size = FIXED[kind].unpack_from, FIXED[kind].size

    def read(data: bytes, at: int) -> tuple[Json, int]:
        stop = at + size
        if stop > len(data):
            raise cut(kind, data, at, size)
        return unpack(data, at)[0], stop

    return read


def sized_reader(kind: str, flexible: bool, nullable: bool) -> Reader:
    """Read a string or bytes: a size, then as many bytes."""
    read_size = compact_size if flexible else SIZES[kind]
    limit = MAX_STRING_SIZE if kind == "string" else None
    text = java_utf8 if kind == "string" else bytes_text

    def read(data: bytes, at: int) -> tuple[Json, int]:
        size, start = read_size(data, at)
        if size < 0:
            check_null_allowed(kind, nullable, at)
            return None, start
        stop = start + size
        if stop > len(data):
            raise cut(kind, data, start, size)
        if limit is not None and size > limit:
            raise MalformedError(f"{kind} of {size} bytes at {at}, at most {limit} are allowed")
        return text(data[start:stop]), stop

    return read


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits."""
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = shift = 0
    for byte in data[at : at + MAX_UVARINT_SIZE]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at + shift // 7
    if shift == 7 * MAX_UVARINT_SIZE:
        raise MalformedError(f"varint longer than {MAX_UVARINT_SIZE} bytes at {at}")
    raise cut("varint", data, at, shift // 7 + 1)


def compact_size(data: bytes, at: int) -> tuple[int, int]:
    """A size or count of the flexible encoding: one more than it is, 0 for null."""
    if at < len(data) and data[at] < 0x80:  # nearly always; a call less
        return data[at] - 1, at + 1
    size, at = read_uvarint(data, at)
    return size - 1, at


def _read_uuid(data: bytes, at: int) -> tuple[Json, int]:
    stop = at + UUID_SIZE
    if stop > len(data):
        raise cut("uuid", data, at, UUID_SIZE)
    return uuid_text(data[at:stop]), stop


def _read_float64(data: bytes, at: int) -> tuple[Json, int]:
    stop = at + FLOAT64.size
    if stop > len(data):
        raise cut("float64", data, at, FLOAT64.size)
    value: float = FLOAT64.unpack_from(data, at)[0]
    if math.isfinite(value):
        return value, stop
    # JSON has no word for these; Jackson writes them as text.
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity", stop


@lru_cache(maxsize=4096)  # the same few ids, over and over
def uuid_text(data: bytes) -> str:
    return b2a_base64(data)[:22].translate(URL_SAFE).decode("ascii")


def bytes_text(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def check_null_allowed(kind: str, nullable: bool, at: int) -> None:
    # Any negative length is null to the generated readers, not only the -1 that is written.
    if not nullable:
        raise MalformedError(f"{kind} at {at} is null and must not be")


def cut(what: str, data: bytes, at: int, size: int) -> MalformedError:
    return MalformedError(f"{what} needs {size} bytes at {at}, {max(0, len(data) - at)} are left")


SIZES: Final[dict[str, Reader]] = {
    "string": scalar_reader("int16"),
    "bytes": scalar_reader("int32"),
    "array": scalar_reader("int32"),
}
