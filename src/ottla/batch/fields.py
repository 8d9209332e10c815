"""Every field of one batch with its bytes, for people: slow, and never stopped by damage.

What a batch means is decided by `batch.decode`; here it is only taken apart, up to the first byte
that no field can hold.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from ottla.format.layout import BATCH_V2, LOG_OVERHEAD, MAGIC_POSITION, MESSAGE_V0, MESSAGE_V1
from ottla.kernels.bytes.varint import MAX_VARINT_SIZE, MAX_VARLONG_SIZE

# Kafka's names (DefaultRecordBatch, LegacyRecord) where they are not those of our layouts.
_NAMES: Final = {
    (2, "length"): "batchLength",
    (2, "count"): "recordsCount",
    (1, "length"): "size",
    (0, "length"): "size",
    (1, "key_length"): "keySize",
    (0, "key_length"): "keySize",
}
_LAYOUTS: Final = {0: MESSAGE_V0, 1: MESSAGE_V1, 2: BATCH_V2}


class Field(NamedTuple):
    """A field: where it is, its bytes, and its value; `name` is None for bytes of no field."""

    at: int
    data: bytes
    name: str | None
    value: int | bytes


class _DoesNotFitError(Exception):
    """The next field needs bytes that are not there."""


class _FieldReader:
    """Takes fields of `data` from `at` to `end` one after another, and keeps them."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.fields: list[Field] = []

    def _keep(self, size: int, name: str | None, value: int | bytes) -> None:
        self.fields.append(Field(self.at, self.data[self.at : self.at + size], name, value))
        self.at += size

    def integer(self, name: str, kind: np.dtype[Any]) -> int:
        if self.at + kind.itemsize > self.end:
            raise _DoesNotFitError
        value = int(np.frombuffer(self.data, kind, 1, self.at)[0])
        self._keep(kind.itemsize, name, value)
        return value

    def varint(self, name: str, most: int = MAX_VARINT_SIZE) -> int:
        raw = 0
        for index, byte in enumerate(self.data[self.at : min(self.at + most, self.end)]):
            raw |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                raw &= (1 << (32 if most == MAX_VARINT_SIZE else 64)) - 1
                value = (raw >> 1) ^ -(raw & 1)
                self._keep(index + 1, name, value)
                return value
        raise _DoesNotFitError

    def taken(self, name: str, size: int) -> None:
        """Keep a field of this size; one below 0 is null, and not there."""
        if size > self.end - self.at:
            raise _DoesNotFitError
        if size >= 0:
            self._keep(size, name, self.data[self.at : self.at + size])

    def rest(self) -> None:
        """Keep what no field holds."""
        if self.at < self.end:
            self._keep(self.end - self.at, None, self.data[self.at : self.end])


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _read_layout(reader: _FieldReader, magic: int) -> None:
    layout = _LAYOUTS[magic]
    for name in layout.names or ():
        reader.integer(_NAMES.get((magic, name), _camel(name)), layout[name])


def _read_message(reader: _FieldReader, magic: int) -> None:
    _read_layout(reader, magic)
    key_size = reader.fields[-1].value
    assert isinstance(key_size, int)
    reader.taken("key", key_size)
    value_size = reader.integer("valueSize", np.dtype(">i4"))
    reader.taken("value", value_size)


def _read_record(reader: _FieldReader) -> None:
    reader.integer("attributes", np.dtype("i1"))
    reader.varint("timestampDelta", MAX_VARLONG_SIZE)
    reader.varint("offsetDelta")
    reader.taken("key", reader.varint("keyLength"))
    reader.taken("value", reader.varint("valueLength"))
    for _ in range(reader.varint("headersCount")):
        reader.taken("headerKey", reader.varint("headerKeyLength"))
        reader.taken("headerValue", reader.varint("headerValueLength"))


def batch_fields(data: bytes) -> list[Field]:
    """The fields of a batch up to its records, or of a whole v0 or v1 message."""
    reader = _FieldReader(data, 0, len(data))
    magic = data[MAGIC_POSITION] if len(data) > MAGIC_POSITION else 2
    try:
        if magic >= 2:
            _read_layout(reader, 2)
            return reader.fields
        _read_message(reader, magic)
    except _DoesNotFitError:
        pass
    reader.rest()
    return reader.fields


def record_fields(payload: bytes, at: int, count: int) -> Iterator[list[Field]]:
    """The fields of each v2 record from `at` on, then what remains."""
    for _ in range(count):
        reader = _FieldReader(payload, at, len(payload))
        try:
            size = reader.varint("length")
            if 0 <= size <= reader.end - reader.at:
                reader.end = reader.at + size
                _read_record(reader)
        except _DoesNotFitError:
            pass
        reader.rest()
        if not reader.fields:
            return
        yield reader.fields
        at = reader.at
    if at < len(payload):
        reader = _FieldReader(payload, at, len(payload))
        reader.rest()
        yield reader.fields


def message_fields(payload: bytes) -> Iterator[list[Field]]:
    """The fields of each message inside a wrapper, then what remains."""
    at = 0
    while at < len(payload):
        size = int.from_bytes(payload[at + 8 : at + LOG_OVERHEAD], "big", signed=True)
        end = at + LOG_OVERHEAD + size
        is_whole = at + MAGIC_POSITION < end <= len(payload)
        reader = _FieldReader(payload, at, end if is_whole else len(payload))
        try:
            if is_whole:
                _read_message(reader, min(payload[at + MAGIC_POSITION], 1))
        except _DoesNotFitError:
            pass
        reader.rest()
        yield reader.fields
        at = reader.at
