"""What the value of a field means, in words."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ottla.batch.control import ControlRecordError, read_control
from ottla.batch.fields import Field
from ottla.dump.values import date_text, json_text
from ottla.format.attributes import (
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TIMESTAMP_TYPE_NAMES,
    TRANSACTIONAL,
)
from ottla.format.layout import LOG_OVERHEAD, MAGIC_POSITION
from ottla.format.sentinels import NO_TIMESTAMP

Values = Mapping[str, int]

_FLAGS: Final = {
    TRANSACTIONAL: "transactional",
    CONTROL: "control",
    DELETE_HORIZON: "delete horizon",
}


def values_of(fields: Sequence[Field]) -> dict[str, int]:
    """The numbers among fields, by name."""
    return {
        field.name: field.value for field in fields if field.name and isinstance(field.value, int)
    }


def say_time(timestamp: int) -> str:
    """
    >>> say_time(1714000000000), say_time(-1)
    ('2024-04-24T23:06:40.000Z', 'none')
    """
    if timestamp == NO_TIMESTAMP:
        return "none"
    return date_text(timestamp) or "no date"


def say_data(data: bytes) -> str:
    """
    >>> say_data(b"hello"), say_data(bytes(3))
    ('"hello"', '3 bytes')
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    return json_text(text) if text.isprintable() else f"{len(data)} bytes"


def _say_attributes(value: int, batch: Values) -> str:
    codec = CODEC_NAMES.get(value & CODEC_MASK, "unknown codec")
    if batch["magic"] == 0:
        return codec
    kind = TIMESTAMP_TYPE_NAMES[int(value & LOG_APPEND_TIME != 0)]
    flags = [name for mask, name in _FLAGS.items() if value & mask and batch["magic"] == 2]
    return ", ".join([codec, kind, *flags])


def _say_base_timestamp(value: int, batch: Values) -> str:
    is_horizon = batch.get("attributes", 0) & DELETE_HORIZON
    return f"{say_time(value)}, the delete horizon" if is_horizon else say_time(value)


def _say_none(value: int, batch: Values) -> str:  # noqa: ARG001
    return "none" if value == -1 else ""


def _say_null(value: int, batch: Values) -> str:  # noqa: ARG001
    return "null" if value < 0 else ""


_OF_BATCH: Final[dict[str, Callable[[int, Values], str]]] = {
    "batchLength": lambda value, _: f"the batch has {value + LOG_OVERHEAD} bytes",
    "size": lambda value, _: f"{value + LOG_OVERHEAD} bytes with what is above",
    "attributes": _say_attributes,
    "lastOffsetDelta": lambda value, batch: f"offset {batch['baseOffset'] + value}",
    "baseTimestamp": _say_base_timestamp,
    "maxTimestamp": lambda value, _: say_time(value),
    "timestamp": lambda value, _: say_time(value),
    "partitionLeaderEpoch": _say_none,
    "producerId": _say_none,
    "producerEpoch": _say_none,
    "baseSequence": _say_none,
    "keySize": _say_null,
    "valueSize": _say_null,
}


def say_batch_field(field: Field, batch: Values) -> str:
    """What a field of a batch or message says; its CRC apart."""
    if isinstance(field.value, bytes):
        return say_data(field.value)
    words = _OF_BATCH[field.name](field.value, batch) if field.name in _OF_BATCH else ""
    return f"{field.value} ({words})" if words else str(field.value)


def say_crc(stored: int, computed: int, covers: str) -> str:
    """A CRC with what it covers and whether it is right."""
    verdict = "valid" if stored == computed else f"wrong: they have {computed:#010x}"
    return f"{stored:#010x} ({covers}, {verdict})"


def say_message_field(field: Field, message: Values, whole: bytes, shift: int) -> str:
    """What a field of a message inside a wrapper says."""
    if field.name == "crc" and isinstance(field.value, int):
        return say_crc(field.value, zlib.crc32(whole[MAGIC_POSITION:]), "CRC-32 of this message")
    if field.name == "offset" and shift and isinstance(field.value, int):
        return f"{field.value} (offset {field.value + shift})"
    return say_batch_field(field, message)


def say_record_field(field: Field, batch: Values) -> str:
    """What a field of a record of this batch says."""
    value = field.value
    if isinstance(value, bytes):
        return say_data(value)
    if field.name == "timestampDelta":
        if batch["attributes"] & LOG_APPEND_TIME:
            return f"{value} (not used: the time is the batch's maxTimestamp)"
        timestamp = batch["baseTimestamp"] + value
        return f"{value} ({timestamp}, {say_time(timestamp)})"
    if field.name == "offsetDelta":
        return f"{value} (offset {batch['baseOffset'] + value})"
    if field.name in ("keyLength", "valueLength", "headerValueLength") and value < 0:
        return f"{value} (null)"
    return str(value)


def say_control(fields: Sequence[Field]) -> str:
    """What a control record says as a whole."""
    data = {field.name: field.value for field in fields if isinstance(field.value, bytes)}
    try:
        return json_text(read_control(data.get("key"), data.get("value")).as_json())
    except ControlRecordError as error:
        return f"unreadable: {error}"
