"""Records of the internal topics as JSON-able values, in the shape kafka-dump-log's decoders print.

Coordinator topics begin their key with an int16 that selects the record type, and their value with
an int16 that is its version. Metadata topics have no keys; three varints frame their values.
"""

from base64 import b64encode
from functools import cache, lru_cache
from typing import Final, NamedTuple

from ottla.batch.control import (
    ControlRecord,
    ControlRecordError,
    read_any_control,
    read_control_key,
)
from ottla.format.attributes import ControlType
from ottla.internal.blobs import decode_blobs
from ottla.internal.interpreter import struct_reader
from ottla.internal.notation import read_table
from ottla.internal.primitives import Json, MalformedError, Reader, read_uvarint

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
CLUSTER_METADATA: Final = "__cluster_metadata"
REMOTE_LOG_METADATA: Final = "__remote_log_metadata"

COORDINATOR_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
# As brokers make them: GroupCoordinatorService.groupMetadataTopicConfigs and
# TransactionCoordinator.transactionStateTopicConfigs.
COMPACTED_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
METADATA_TOPICS: Final = frozenset({CLUSTER_METADATA, REMOTE_LOG_METADATA})
INTERNAL_TOPICS: Final = COORDINATOR_TOPICS | METADATA_TOPICS

FRAME_VERSION: Final = 1  # AbstractApiMessageSerde; 0 was the preview of 2.8
MAX_FRAME_NUMBER: Final = 2**15 - 1


class DecodedRecord(NamedTuple):
    """A record of an internal topic.

    `key` is `{"type", "data"}`, `value` is `{"version", "data"}`, with `type` too where there is no
    key. A type or version that is not known has `raw` (base64) in place of `data`, and is no error.
    With an `error`, the part that is broken has `raw`. Parts are shared: change nothing.
    """

    key: dict[str, Json] | None
    value: dict[str, Json] | None
    tombstone: bool
    error: str | None


def decode_record(topic: str, key: bytes | None, value: bytes | None) -> DecodedRecord:
    """Decode a data record of one of INTERNAL_TOPICS."""
    if topic in METADATA_TOPICS:
        return _decode_framed(topic.strip("_"), key, value)
    return _decode_coordinator(topic.strip("_"), key, value)


def decode_control_record(key: bytes | None, value: bytes | None) -> DecodedRecord:
    """Decode a control record of any topic."""
    try:
        key_version, number = read_control_key(key)
    except ControlRecordError as problem:
        return DecodedRecord(_raw(key), _raw(value), False, str(problem))
    names = {kind.value: kind.name for kind in ControlType}
    shown_key = {"type": names.get(number, str(number)), "version": key_version}
    try:
        record = read_any_control(key, value)
    except ControlRecordError as problem:
        return DecodedRecord(shown_key, _raw(value), False, f"{shown_key['type']}: {problem}")
    if value is None or len(value) < 2:  # of a type that is not known
        return DecodedRecord(shown_key, _raw(value), False, "the version of the value is missing")
    return DecodedRecord(
        shown_key, {"version": _int16(value, 0), **_body(record, value)}, False, None
    )


def _body(record: ControlRecord, value: bytes) -> dict[str, Json]:
    if record.type is ControlType.UNKNOWN:
        return _raw(value)
    rest = value[record.size :]
    return {"data": dict(record.fields)} | ({"trailing": _base64(rest)} if rest else {})


def why_unusable(decoded: DecodedRecord) -> str | None:
    """Why a record cannot be taken into account, if it should be.

    Coordinators pass over types they do not know; an unknown version of a known type, or any
    unknown metadata record, leaves a state that is not the cluster's.
    """
    if decoded.error is not None:
        return decoded.error
    if decoded.value is None or "raw" not in decoded.value or "raw" in (decoded.key or {}):
        return None
    kind = (decoded.key or decoded.value)["type"]
    return f"version {decoded.value['version']} of record type {kind} is not known"


def _decode_coordinator(table: str, key: bytes | None, value: bytes | None) -> DecodedRecord:
    if key is None or len(key) < 2:
        return DecodedRecord(
            _raw(key), _raw(value), value is None, "key: the record type is missing"
        )
    number, decoded_key, error = _decode_key(table, key)
    if value is None:
        return DecodedRecord(decoded_key, None, True, error)
    if len(value) < 2:
        return DecodedRecord(
            decoded_key, _raw(value), False, error or "value: the version is missing"
        )
    version = _int16(value, 0)
    body, value_error = _decode_body(table, "value", number, version, value, 2)
    return DecodedRecord(
        decoded_key, {"version": str(version), **body}, False, error or value_error
    )


@lru_cache(maxsize=1 << 14)  # a compacted topic writes the same keys again and again
def _decode_key(table: str, key: bytes) -> tuple[int, dict[str, Json], str | None]:
    number = _int16(key, 0)
    body, error = _decode_body(table, "key", number, 0, key, 2)
    return number, {"type": str(number), **body}, error


def _decode_framed(table: str, key: bytes | None, value: bytes | None) -> DecodedRecord:
    shown_key = None if key is None else _raw(key)
    if value is None:
        return DecodedRecord(shown_key, None, False, "value: null where a frame belongs")
    try:
        number, version, at = _read_frame(value)
    except MalformedError as problem:
        return DecodedRecord(shown_key, _raw(value), False, f"frame: {problem}")
    body, error = _decode_body(table, "record", number, version, value, at)
    if error is None and "trailing" in body:  # MetadataRecordSerde calls this garbage
        body, error = _raw(value), f"record {number} v{version}: bytes remain after the body"
    decoded = {"type": record_type_name(table, number), "version": version, **body}
    return DecodedRecord(shown_key, decoded, False, error)


def _read_frame(value: bytes) -> tuple[int, int, int]:
    """The api key, the version, and where the body begins."""
    if len(value) >= 3 and value[0] == FRAME_VERSION and value[1] < 0x80 and value[2] < 0x80:
        return value[1], value[2], 3
    frame, at = read_uvarint(value, 0)
    if frame != FRAME_VERSION:
        raise MalformedError(f"version {frame}, only {FRAME_VERSION} is known")
    number, at = read_uvarint(value, at)
    version, at = read_uvarint(value, at)
    if max(number, version) > MAX_FRAME_NUMBER:
        raise MalformedError(f"api key {number} or version {version} is above {MAX_FRAME_NUMBER}")
    return number, version, at


def _decode_body(
    table: str, kind: str, number: int, version: int, data: bytes, at: int
) -> tuple[dict[str, Json], str | None]:
    """The body as `data`, or all the bytes as `raw` with the reason if it is broken."""
    readers = _readers(table, kind, number, version)
    if not readers:
        return _raw(data), None
    first_problem = None
    for name, read in readers:
        try:
            values, end = read(data, at)
        except MalformedError as problem:
            first_problem = first_problem or f"{name} v{version}: {problem}"
            continue
        if end == len(data):
            return {"data": decode_blobs(name, values)}, None
        first_problem = first_problem or f"{name} v{version}: bytes remain at {end}"
        if len(readers) == 1:  # Coordinators never look at what follows the body.
            return {"data": decode_blobs(name, values), "trailing": _base64(data[end:])}, None
    return _raw(data), first_problem


@cache
def _readers(table: str, kind: str, number: int, version: int) -> tuple[tuple[str, Reader], ...]:
    """The layouts this version may have, the newest first.

    Some layouts changed between releases without a new version number. The one that takes the bytes
    exactly is the one they were written with.
    """
    return tuple(
        (schema.name, struct_reader(schema.fields, version, flexible=version in schema.flexible))
        for schema in read_table(table).get((kind, number), ())
        if version in schema.versions
    )


@cache
def record_type_name(table: str, number: int) -> str:
    """The name MetadataRecordType gives a record.

    >>> record_type_name("cluster_metadata", 20), record_type_name("cluster_metadata", 99)
    ('NO_OP_RECORD', '99')
    """
    schemas = read_table(table).get(("record", number))
    if not schemas:
        return str(number)
    name = schemas[0].name
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name)[1:]


def _int16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big", signed=True)


def _raw(data: bytes | None) -> dict[str, Json]:
    return {"raw": None if data is None else _base64(data)}


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")
