"""One batch as lines: one for each field, with the colours of its parts."""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.batch.fields import Field, batch_fields, message_fields, record_fields
from ottla.dump.meanings import (
    say_batch_field,
    say_control,
    say_crc,
    say_message_field,
    say_record_field,
    values_of,
)
from ottla.dump.one_batch import OpenedBatch
from ottla.format.attributes import CODEC_MASK, CODEC_NAMES, CONTROL
from ottla.format.layout import BATCH_OVERHEAD, BATCH_V2, MAGIC_POSITION, position_of

_ROW_BYTES = 16
_CRC_V2_FROM = position_of("attributes", BATCH_V2)


class Cell(NamedTuple):
    """Characters of one colour."""

    text: str
    colour: str = ""


Line = list[Cell]


def batch_lines(path: str, opened: OpenedBatch, max_bytes: int) -> Iterator[Line]:
    """All there is to say about a batch."""
    yield [Cell(title(path, opened), "bold")]
    yield [Cell(f"{'position':>10}   {'bytes':<{3 * _ROW_BYTES}} {'field':<22} value", "dim")]
    fields = batch_fields(opened.data)
    batch = values_of(fields)
    is_v2 = batch.get("magic", 2) >= 2
    covered_from = _CRC_V2_FROM if is_v2 else MAGIC_POSITION

    def say(field: Field) -> str:
        if field.name == "crc" and opened.row is not None and isinstance(field.value, int):
            return say_crc(field.value, int(opened.row.computed_crc[0]), covers(opened, is_v2))
        return say_batch_field(field, batch)

    for field in fields:
        covered = field.at >= covered_from and opened.row is not None
        yield from field_lines(field, say(field), opened.position, covered, max_bytes)
    if opened.row is not None and len(opened.data) >= BATCH_OVERHEAD and is_v2:
        yield from record_lines(opened, batch, max_bytes)
    elif opened.payload is not None:
        yield from message_lines(opened, opened.payload, max_bytes)
    for violation in opened.violations:
        yield [Cell(f"! {violation.rule.severity}: {violation}", "bold red")]


def title(path: str, opened: OpenedBatch) -> str:
    """What is shown."""
    size = len(opened.data)
    if opened.row is None:
        return f"{path} @ {opened.position}: no whole batch; its first {size} bytes would be"
    kind = "batch" if opened.row.magic[0] == 2 else "message"
    last = opened.position + size - 1
    magic = int(opened.row.magic[0])
    return f"{path} @ {opened.position}: a {kind} of magic {magic}, {size} bytes, to {last}"


def covers(opened: OpenedBatch, is_v2: bool) -> str:
    """Which bytes the CRC of a batch or message is of."""
    name, first = ("CRC-32C", _CRC_V2_FROM) if is_v2 else ("CRC-32", MAGIC_POSITION)
    last = opened.position + len(opened.data) - 1
    return f"{name} of bytes {opened.position + first} to {last}"


def record_lines(opened: OpenedBatch, batch: dict[str, int], max_bytes: int) -> Iterator[Line]:
    """The records of a v2 batch, decompressed if they are compressed."""
    codec = batch["attributes"] & CODEC_MASK
    payload, start, base, covered = opened.data, BATCH_OVERHEAD, opened.position, True
    if codec:
        compressed = opened.data[BATCH_OVERHEAD:]
        words = f"{len(compressed)} bytes of {CODEC_NAMES.get(codec, 'an unknown codec')}"
        field = Field(BATCH_OVERHEAD, compressed, "records", compressed)
        yield from field_lines(field, words, opened.position, True, max_bytes)
        if opened.payload is None:
            return
        payload, start, base, covered = opened.payload, 0, 0, False
        yield [Cell(f"decompressed: {len(payload)} bytes", "bold")]
    for index, fields in enumerate(record_fields(payload, start, batch["recordsCount"])):
        is_record = fields[0].name is not None
        words = ""
        if is_record and batch["attributes"] & CONTROL:
            words = f": {say_control(fields)}"
        yield [Cell(f"record {index}{words}" if is_record else "no record", "bold")]
        for field in fields:
            yield from field_lines(field, say_record_field(field, batch), base, covered, max_bytes)


def message_lines(opened: OpenedBatch, payload: bytes, max_bytes: int) -> Iterator[Line]:
    """The messages of a wrapper."""
    yield [Cell(f"decompressed: {len(payload)} bytes", "bold")]
    for index, fields in enumerate(message_fields(payload)):
        is_message = fields[0].name is not None
        yield [Cell(f"message {index}" if is_message else "no message", "bold")]
        start, end = fields[0].at, fields[-1].at + len(fields[-1].data)
        message = values_of(fields)
        for field in fields:
            words = say_message_field(field, message, payload[start:end], opened.shift)
            covered = is_message and field.at >= start + MAGIC_POSITION
            yield from field_lines(field, words, 0, covered, max_bytes)


def field_lines(
    field: Field, words: str, base: int, covered: bool, max_bytes: int
) -> Iterator[Line]:
    """One field: its first bytes with name and value, then the rest of its bytes."""
    shown = field.data[:max_bytes]
    rows = [shown[at : at + _ROW_BYTES] for at in range(0, len(shown), _ROW_BYTES)] or [b""]
    mark = "|" if covered else " "
    for index, row in enumerate(rows):
        position = base + field.at + index * _ROW_BYTES
        line = [
            Cell(f"{position:>10} ", "cyan"),
            Cell(mark + " ", "green"),
            Cell(f"{row.hex(' '):<{3 * _ROW_BYTES}} ", "green" if covered else ""),
        ]
        if index == 0:
            unread = field.name is None
            name = "(no field)" if unread else str(field.name)
            line += [Cell(f"{name:<22} ", "red" if unread else "yellow"), Cell(words)]
        yield line
    if len(shown) < len(field.data):
        yield [Cell(f"{'':>11}{mark} ... {len(field.data) - len(shown)} more bytes", "dim")]
