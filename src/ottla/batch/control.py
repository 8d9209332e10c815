"""Control records: their key, and the value of each type, read and written by one description.

Keys and end-transaction markers are plain structs. The values of KRaft records are in Kafka's
flexible encoding: lengths are unsigned varints one too large, and each struct ends with tagged
fields, which are skipped. Fields have the names and shapes of Kafka's own JSON.
"""

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
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
_REMEMBERED_BYTES: Final = 64
MAX_STRING_SIZE: Final = 0x7FFF
NO_DIRECTORY: Final = "A" * 22  # Uuid.ZERO_UUID: version 0 of a leader change has no directories


class ControlField(NamedTuple):
    """A field of a message: a number, text or id, or one or many structs with fields of their own.

    `kind` is a code of the module struct, or one of the words below; `since` a version.
    """

    name: str
    kind: str
    fields: tuple["ControlField", ...] = ()
    since: int = 0


_INT16, _UINT16, _INT32, _INT64 = ">h", ">H", ">i", ">q"
_STRING, _UUID, _STRUCT, _ARRAY = "string", "uuid", "struct", "array"

_VERSION: Final = ControlField("version", _INT16)
_LEADER_VOTER: Final = (
    ControlField("voterId", _INT32),
    ControlField("voterDirectoryId", _UUID, since=1),
)
_ENDPOINT: Final = (
    ControlField("name", _STRING),
    ControlField("host", _STRING),
    ControlField("port", _UINT16),
)
_FEATURE: Final = (
    ControlField("minSupportedVersion", _INT16),
    ControlField("maxSupportedVersion", _INT16),
)
_VOTER: Final = (
    ControlField("voterId", _INT32),
    ControlField("voterDirectoryId", _UUID),
    ControlField("endpoints", _ARRAY, _ENDPOINT),
    ControlField("kRaftVersionFeature", _STRUCT, _FEATURE),
)
_MESSAGES: Final[dict[int, tuple[ControlField, ...]]] = {
    ControlType.LEADER_CHANGE: (
        _VERSION,
        ControlField("leaderId", _INT32),
        ControlField("voters", _ARRAY, _LEADER_VOTER),
        ControlField("grantingVoters", _ARRAY, _LEADER_VOTER),
    ),
    ControlType.SNAPSHOT_HEADER: (_VERSION, ControlField("lastContainedLogTimestamp", _INT64)),
    ControlType.SNAPSHOT_FOOTER: (_VERSION,),
    ControlType.KRAFT_VERSION: (_VERSION, ControlField("kRaftVersion", _INT16)),
    ControlType.KRAFT_VOTERS: (_VERSION, ControlField("voters", _ARRAY, _VOTER)),
}
_MARKERS: Final = (ControlType.ABORT, ControlType.COMMIT)
_VALUE_VERSION: Final = struct.Struct(_INT16)  # of every message, its first field
# Defined by KAFKA-16915 and, as of 4.3, written and read by no broker (KAFKA-17206).
_NEWEST_VERSIONS: Final[dict[int, int]] = {ControlType.LEADER_CHANGE: 1}


class ControlRecordError(ValueError):
    """Kafka cannot read this control record."""


class ControlRecord(NamedTuple):
    """What a control record says; a type that Kafka does not know has no fields.

    `size` is how many bytes of the value were read: Kafka ignores those behind them.
    """

    type_id: int
    key_version: int
    fields: Fields
    size: int

    @property
    def type(self) -> ControlType:
        """The type, UNKNOWN for one that clients must ignore."""
        return _control_type(self.type_id)

    def as_json(self) -> dict[str, Any]:
        """The object that a dump in JSON lines has: small structs are lists of their values."""
        named = {"type": self.type.name, "typeId": self.type_id, "keyVersion": self.key_version}
        fields = dict(self.fields)
        if self.type is ControlType.LEADER_CHANGE:
            for name in ("voters", "grantingVoters"):
                fields[name] = [_short_leader_voter(voter) for voter in fields[name]]
        if self.type is ControlType.KRAFT_VOTERS:
            fields["voters"] = [_short_voter(voter) for voter in fields["voters"]]
        return named | fields


def _short_leader_voter(voter: Fields) -> list[int | str]:
    return [voter["voterId"], voter.get("voterDirectoryId", NO_DIRECTORY)]


def _short_voter(voter: Fields) -> Fields:
    return {
        "voterId": voter["voterId"],
        "directoryId": voter["voterDirectoryId"],
        "endpoints": [[*endpoint.values()] for endpoint in voter["endpoints"]],
        "kRaftVersionFeature": [*voter["kRaftVersionFeature"].values()],
    }


def read_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Read key and value as ControlRecordUtils does: as version 0, whatever they say."""
    return _read(key, value, {})


def read_any_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Read key and value by the version that they say, if Kafka has defined it."""
    return _read(key, value, _NEWEST_VERSIONS)


def _read(key: bytes | None, value: bytes | None, newest: Mapping[int, int]) -> ControlRecord:
    key_version, type_id = read_control_key(key)
    control_type = _control_type(type_id)
    if control_type is ControlType.UNKNOWN:
        return ControlRecord(type_id, key_version, {}, 0)
    if value is None:
        raise ControlRecordError(f"a {control_type.name} record has no value")
    reader = _ValueReader(value)
    if control_type in _MARKERS:
        return ControlRecord(type_id, key_version, _read_end_marker(reader), reader.at)
    (version,) = _VALUE_VERSION.unpack(_ValueReader(value).take(_VALUE_VERSION.size))
    known = 0 <= version <= newest.get(control_type, CURRENT_VERSION)
    layout = version if known else CURRENT_VERSION
    fields = _read_struct(reader, _MESSAGES[control_type], layout)
    return ControlRecord(type_id, key_version, fields, reader.at)


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


def is_end_marker(key: bytes | None) -> bool:
    """Whether a control record ends a transaction: nothing of it was chosen by a user."""
    return _control_type(read_control_key(key)[1]) in _MARKERS


def write_control(control_type: ControlType, fields: Fields) -> tuple[bytes, bytes]:
    """Return key and value; the inverse of `read_control` for the types that Kafka knows."""
    if control_type is ControlType.UNKNOWN:
        raise OptionError("a control record of unknown type cannot be written")
    key = KEY.pack(CURRENT_VERSION, control_type)
    if control_type in _MARKERS:
        return key, END_MARKER.pack(CURRENT_VERSION, fields["coordinatorEpoch"])
    versioned = {"version": CURRENT_VERSION} | dict(fields)
    return key, _write_struct(versioned, _MESSAGES[control_type])


def _control_type(type_id: int) -> ControlType:
    known = type_id in _MESSAGES or type_id in _MARKERS
    return ControlType(type_id) if known else ControlType.UNKNOWN


class _ValueReader:
    """A position in a value, which every read moves."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise ControlRecordError(f"{size} bytes wanted, {len(self.data) - self.at} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                # ByteUtils reads an int: bits past 32 are lost, and the highest is a sign.
                return ((value + 2**31) & 0xFFFFFFFF) - 2**31
        raise ControlRecordError("a varint has more than 5 bytes")

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


def _read_end_marker(reader: _ValueReader) -> Fields:
    version, coordinator_epoch = END_MARKER.unpack(reader.take(END_MARKER.size))
    if version < 0:
        raise ControlRecordError(f"the version of an end-transaction marker is {version}")
    return {"coordinatorEpoch": coordinator_epoch}


def _read_struct(reader: _ValueReader, fields: Sequence[ControlField], version: int) -> Fields:
    values = {
        field.name: _read_field(reader, field, version)
        for field in fields
        if field.since <= version
    }
    reader.tags()
    return values


def _read_field(reader: _ValueReader, field: ControlField, version: int) -> Any:
    if field.kind == _STRUCT:
        return _read_struct(reader, field.fields, version)
    if field.kind == _ARRAY:
        count = reader.varint() - 1
        if not 0 <= count <= len(reader.data) - reader.at:
            raise ControlRecordError(f"an array has {count} elements")
        return [_read_struct(reader, field.fields, version) for _ in range(count)]
    if field.kind == _UUID:
        return base64.urlsafe_b64encode(reader.take(UUID_SIZE)).rstrip(b"=").decode("ascii")
    if field.kind == _STRING:
        size = reader.varint() - 1
        if not 0 <= size <= MAX_STRING_SIZE:
            raise ControlRecordError(f"a string has a size of {size}")
        return java_utf8(reader.take(size))
    return struct.unpack(field.kind, reader.take(struct.calcsize(field.kind)))[0]


def _write_struct(values: Fields, fields: Sequence[ControlField]) -> bytes:
    parts = [
        _write_field(values[field.name], field)
        for field in fields
        if field.since <= CURRENT_VERSION
    ]
    return b"".join(parts) + write_uvarint(0)  # no tagged fields


def _write_field(value: Any, field: ControlField) -> bytes:
    if field.kind == _STRUCT:
        return _write_struct(value, field.fields)
    if field.kind == _ARRAY:
        parts = [_write_struct(item, field.fields) for item in value]
        return write_uvarint(len(parts) + 1) + b"".join(parts)
    if field.kind == _UUID:
        return base64.urlsafe_b64decode(f"{value}==")
    if field.kind == _STRING:
        data = str(value).encode("utf-8")
        return write_uvarint(len(data) + 1) + data
    return struct.pack(field.kind, value)


def write_uvarint(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def cached(
    function: Callable[[bytes | None, bytes | None], T],
) -> Callable[[bytes | None, bytes | None], T]:
    """Remember what is made of key and value: markers are the same few again and again.

    Longer ones are not kept: a file may hold any number of them.
    """
    remembered = lru_cache(maxsize=4096)(function)

    def recall(key: bytes | None, value: bytes | None) -> T:
        short = len(key or b"") + len(value or b"") <= _REMEMBERED_BYTES
        return remembered(key, value) if short else function(key, value)

    return recall
