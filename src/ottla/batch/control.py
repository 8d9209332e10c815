"""Control records: their key, and the value of each type, read and written.

Keys and end-transaction markers are plain structs. The values of KRaft records are in Kafka's
flexible encoding: lengths are unsigned varints one too large, and each struct ends with tagged
fields, which are skipped. Fields have the names and shapes that `ottla dump` prints.
"""

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ottla.batch.utf8 import java_utf8
from ottla.errors import OptionError
from ottla.format.attributes import ControlType

Fields = Mapping[str, Any]
T = TypeVar("T")

KEY: Final = struct.Struct(">hh")  # version, type
END_MARKER: Final = struct.Struct(">hi")  # version, coordinator epoch
CURRENT_VERSION: Final = 0  # ControlRecordUtils reads and writes every type at version 0
UUID_SIZE: Final = 16
MAX_STRING_SIZE: Final = 0x7FFF
NO_DIRECTORY: Final = "A" * 22  # Uuid.ZERO_UUID: version 0 of a leader change has no directories


class ControlRecordError(ValueError):
    """Kafka cannot read this control record."""


class ControlRecord(NamedTuple):
    """What a control record says; a type that Kafka does not know has no fields."""

    type_id: int
    key_version: int
    fields: Fields

    @property
    def type(self) -> ControlType:
        """The type, UNKNOWN for one that clients must ignore."""
        return _control_type(self.type_id)

    def as_json(self) -> dict[str, Any]:
        """The object that `ottla dump` prints."""
        named = {"type": self.type.name, "typeId": self.type_id, "keyVersion": self.key_version}
        return named | dict(self.fields)


def read_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Read key and value as ControlRecordUtils does; bytes left over are ignored."""
    version, type_id = read_control_key(key)
    control_type = _control_type(type_id)
    if control_type is ControlType.UNKNOWN:
        return ControlRecord(type_id, version, {})
    if value is None:
        raise ControlRecordError(f"a {control_type.name} record has no value")
    return ControlRecord(type_id, version, _READERS[control_type](_Reader(value)))


def read_control_key(key: bytes | None) -> tuple[int, int]:
    """Return version and type id; a newer version is read as version 0."""
    if key is None:
        raise ControlRecordError("a control record has no key")
    if len(key) < KEY.size:
        raise ControlRecordError(f"the key of a control record has {len(key)} bytes of {KEY.size}")
    version, type_id = KEY.unpack_from(key)
    if version < 0:
        raise ControlRecordError(f"the version of a control record's key is {version}")
    return version, type_id


def write_control(control_type: ControlType, fields: Fields) -> tuple[bytes, bytes]:
    """Return key and value; the inverse of `read_control` for the types that Kafka knows."""
    if control_type is ControlType.UNKNOWN:
        raise OptionError("a control record of unknown type cannot be written")
    writer = _Writer()
    _WRITERS[control_type](writer, fields)
    return KEY.pack(CURRENT_VERSION, control_type), bytes(writer.data)


def _control_type(type_id: int) -> ControlType:
    return ControlType(type_id) if type_id in _READERS else ControlType.UNKNOWN


class _Reader:
    """A position in a value, which every read moves."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise ControlRecordError(f"{size} bytes wanted, {len(self.data) - self.at} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def signed(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.unsigned(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                # ByteUtils reads an int: bits past 32 are lost, and the highest is a sign.
                return ((value + 2**31) & 0xFFFFFFFF) - 2**31
        raise ControlRecordError("a varint has more than 5 bytes")

    def string(self) -> str:
        size = self.varint() - 1
        if not 0 <= size <= MAX_STRING_SIZE:
            raise ControlRecordError(f"a string has a size of {size}")
        return java_utf8(self.take(size))

    def uuid(self) -> str:
        return base64.urlsafe_b64encode(self.take(UUID_SIZE)).rstrip(b"=").decode("ascii")

    def array(self, read: Callable[["_Reader"], T]) -> list[T]:
        count = self.varint() - 1
        if not 0 <= count <= len(self.data) - self.at:
            raise ControlRecordError(f"an array has {count} elements")
        return [read(self) for _ in range(count)]

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


class _Writer:
    """Bytes, and a way to add each kind of field."""

    def __init__(self) -> None:
        self.data = bytearray()

    def integer(self, value: int, size: int) -> None:
        self.data += value.to_bytes(size, "big", signed=True)

    def varint(self, value: int) -> None:
        while value >= 0x80:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def string(self, text: str) -> None:
        data = text.encode("utf-8")
        self.varint(len(data) + 1)
        self.data += data

    def uuid(self, text: str) -> None:
        self.data += base64.urlsafe_b64decode(text + "==")

    def array(self, items: Sequence[T], write: Callable[["_Writer", T], None]) -> None:
        self.varint(len(items) + 1)
        for item in items:
            write(self, item)

    def tags(self) -> None:
        self.varint(0)


def _read_end_marker(reader: _Reader) -> Fields:
    version, coordinator_epoch = END_MARKER.unpack(reader.take(END_MARKER.size))
    if version < 0:
        raise ControlRecordError(f"the version of an end-transaction marker is {version}")
    return {"coordinatorEpoch": coordinator_epoch}


def _write_end_marker(writer: _Writer, fields: Fields) -> None:
    writer.data += END_MARKER.pack(CURRENT_VERSION, fields["coordinatorEpoch"])


def _read_leader_change(reader: _Reader) -> Fields:
    fields = {
        "version": reader.signed(2),
        "leaderId": reader.signed(4),
        "voters": reader.array(_read_leader_voter),
        "grantingVoters": reader.array(_read_leader_voter),
    }
    reader.tags()
    return fields


def _write_leader_change(writer: _Writer, fields: Fields) -> None:
    writer.integer(fields.get("version", CURRENT_VERSION), 2)
    writer.integer(fields["leaderId"], 4)
    writer.array(fields["voters"], _write_leader_voter)
    writer.array(fields["grantingVoters"], _write_leader_voter)
    writer.tags()


def _read_leader_voter(reader: _Reader) -> list[int | str]:
    voter = reader.signed(4)
    reader.tags()
    return [voter, NO_DIRECTORY]


def _write_leader_voter(writer: _Writer, voter: Sequence[Any]) -> None:
    writer.integer(voter[0], 4)
    writer.tags()


def _read_snapshot_header(reader: _Reader) -> Fields:
    fields = {"version": reader.signed(2), "lastContainedLogTimestamp": reader.signed(8)}
    reader.tags()
    return fields


def _write_snapshot_header(writer: _Writer, fields: Fields) -> None:
    writer.integer(fields.get("version", CURRENT_VERSION), 2)
    writer.integer(fields["lastContainedLogTimestamp"], 8)
    writer.tags()


def _read_snapshot_footer(reader: _Reader) -> Fields:
    fields = {"version": reader.signed(2)}
    reader.tags()
    return fields


def _write_snapshot_footer(writer: _Writer, fields: Fields) -> None:
    writer.integer(fields.get("version", CURRENT_VERSION), 2)
    writer.tags()


def _read_kraft_version(reader: _Reader) -> Fields:
    fields = {"version": reader.signed(2), "kRaftVersion": reader.signed(2)}
    reader.tags()
    return fields


def _write_kraft_version(writer: _Writer, fields: Fields) -> None:
    writer.integer(fields.get("version", CURRENT_VERSION), 2)
    writer.integer(fields["kRaftVersion"], 2)
    writer.tags()


def _read_kraft_voters(reader: _Reader) -> Fields:
    fields = {"version": reader.signed(2), "voters": reader.array(_read_voter)}
    reader.tags()
    return fields


def _write_kraft_voters(writer: _Writer, fields: Fields) -> None:
    writer.integer(fields.get("version", CURRENT_VERSION), 2)
    writer.array(fields["voters"], _write_voter)
    writer.tags()


def _read_voter(reader: _Reader) -> Fields:
    voter = {
        "voterId": reader.signed(4),
        "directoryId": reader.uuid(),
        "endpoints": reader.array(_read_endpoint),
        "kRaftVersionFeature": [reader.signed(2), reader.signed(2)],
    }
    reader.tags()  # of the feature
    reader.tags()
    return voter


def _write_voter(writer: _Writer, voter: Fields) -> None:
    writer.integer(voter["voterId"], 4)
    writer.uuid(voter["directoryId"])
    writer.array(voter["endpoints"], _write_endpoint)
    for version in voter["kRaftVersionFeature"]:
        writer.integer(version, 2)
    writer.tags()  # of the feature
    writer.tags()


def _read_endpoint(reader: _Reader) -> list[int | str]:
    endpoint: list[int | str] = [reader.string(), reader.string(), reader.unsigned(2)]
    reader.tags()
    return endpoint


def _write_endpoint(writer: _Writer, endpoint: Sequence[Any]) -> None:
    name, host, port = endpoint
    writer.string(name)
    writer.string(host)
    writer.data += port.to_bytes(2, "big")
    writer.tags()


_READERS: Final[dict[int, Callable[[_Reader], Fields]]] = {
    ControlType.ABORT: _read_end_marker,
    ControlType.COMMIT: _read_end_marker,
    ControlType.LEADER_CHANGE: _read_leader_change,
    ControlType.SNAPSHOT_HEADER: _read_snapshot_header,
    ControlType.SNAPSHOT_FOOTER: _read_snapshot_footer,
    ControlType.KRAFT_VERSION: _read_kraft_version,
    ControlType.KRAFT_VOTERS: _read_kraft_voters,
}
_WRITERS: Final[dict[int, Callable[[_Writer, Fields], None]]] = {
    ControlType.ABORT: _write_end_marker,
    ControlType.COMMIT: _write_end_marker,
    ControlType.LEADER_CHANGE: _write_leader_change,
    ControlType.SNAPSHOT_HEADER: _write_snapshot_header,
    ControlType.SNAPSHOT_FOOTER: _write_snapshot_footer,
    ControlType.KRAFT_VERSION: _write_kraft_version,
    ControlType.KRAFT_VOTERS: _write_kraft_voters,
}
