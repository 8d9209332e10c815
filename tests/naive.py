"""A slow, obvious reader of log segments: `struct` and loops, with the verdicts of Kafka's classes.

It never imports ottla, so that the two can be compared; the corpus is its own judge. It does not
parse control records.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Any

from naive_codecs import CODECS, INT32_MAX, RefusedError, decompress

BATCH_V2 = struct.Struct(">qiibIHiqqqhii")

Line = dict[str, Any]


def decode(data: bytes, *, check_crcs: bool = True) -> list[Line]:
    """The lines of corpus/README, but with bytes for keys, values and header keys."""
    lines: list[Line] = []
    at = batches = 0
    while len(data) - at >= 12:
        length = struct.unpack_from(">i", data, at + 8)[0]
        size = 12 + length
        if length < 14:
            lines.append(_error(at, "framing", resync=None))
            break
        if len(data) - at < 17:
            break
        fits = size <= len(data) - at
        if data[at + 16] > 2:
            lines.append(_error(at, "framing", resync=at + size if fits else None))
        elif size > INT32_MAX:  # ByteBufferLogInputStream adds in 32 bits
            lines.append(_error(at, "framing", resync=None))
        elif fits:
            batches += 1
            read = _read_v2 if data[at + 16] == 2 else _read_legacy
            lines += read(data[at : at + size], at, check_crcs)
        if not fits:
            break
        at += size
    kinds = [line["type"] for line in lines]
    end: Line = {
        "type": "end",
        "position": at,
        "fileSize": len(data),
        "trailingBytes": len(data) - at,
    }
    counts = {"batches": batches, "records": kinds.count("record"), "errors": kinds.count("error")}
    return [*lines, end | counts]


def _read_v2(batch: bytes, position: int, check_crcs: bool) -> Iterator[Line]:
    if len(batch) < BATCH_V2.size:
        yield _error(position, "header")
        return
    fields = BATCH_V2.unpack_from(batch)
    base_offset, _, leader_epoch, _, crc, attributes, last_delta = fields[:7]
    base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count = fields[7:]
    valid = crc == crc32c(batch[21:])
    yield _batch(position, batch, crc, valid, attributes) | {
        "baseOffset": base_offset,
        "lastOffset": _wrap(base_offset + last_delta, 64),
        "timestampType": "LogAppendTime" if attributes & 8 else "CreateTime",
        "maxTimestamp": max_timestamp,
        "partitionLeaderEpoch": leader_epoch,
        "producerId": producer_id,
        "producerEpoch": producer_epoch,
        "baseSequence": base_sequence,
        "lastSequence": -1 if base_sequence == -1 else _increment(base_sequence, last_delta),
        "isTransactional": bool(attributes & 16),
        "isControl": bool(attributes & 32),
        "deleteHorizonMs": base_timestamp if attributes & 64 else None,
        "count": count,
        "lastOffsetDelta": last_delta,
        "baseTimestamp": base_timestamp,
    }
    if check_crcs and not valid:
        yield _error(position, "crc")
        return
    try:
        records = _records_v2(_open_v2(batch[61:], attributes & 7, count), count)
        for index, (timestamp_delta, offset_delta, key, value, headers) in enumerate(records):
            timestamp = _wrap(base_timestamp + timestamp_delta, 64)
            yield {
                "type": "record",
                "position": position,
                "index": index,
                "offset": _wrap(base_offset + offset_delta, 64),
                "timestamp": max_timestamp if attributes & 8 else timestamp,
                "sequence": -1 if base_sequence < 0 else _increment(base_sequence, offset_delta),
                "key": key,
                "value": value,
                "headers": headers,
            }
    except RefusedError:
        yield _error(position, "records")


def _open_v2(payload: bytes, codec: int, count: int) -> bytes:
    stream = decompress(payload, codec, magic=2)
    if count == 0:  # DefaultRecordBatch.streamingIterator opens the codec and reads nothing
        next(stream)
        return b""
    return b"".join(stream)


def _records_v2(data: bytes, count: int) -> Iterator[tuple[Any, ...]]:
    if count < 0:
        raise RefusedError("count")
    at = 0
    for index in range(count):
        length, start = _varint(data, at)
        timestamp_delta, at = _varint(data, start + 1, most=10)
        offset_delta, at = _varint(data, at)
        key, at = _field(data, at)
        value, at = _field(data, at)
        header_count, at = _varint(data, at)
        if header_count < 0:
            raise RefusedError("header count")
        headers = []
        for _ in range(header_count):
            header_key, at = _field(data, at)
            if header_key is None:
                raise RefusedError("header key")
            header_value, at = _field(data, at)
            headers.append((header_key, header_value))
        if at - start != length:
            raise RefusedError("record length")
        if index == count - 1 and at != len(data):
            raise RefusedError("bytes remain")  # the last record is lost with the exception
        yield timestamp_delta, offset_delta, key, value, headers


def _varint(data: bytes, at: int, most: int = 5) -> tuple[int, int]:
    raw = 0
    for index, byte in enumerate(data[at : at + most]):
        raw |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            raw %= 1 << (32 if most == 5 else 64)  # further bits fall off silently
            return (raw >> 1) ^ -(raw & 1), at + index + 1
    raise RefusedError("varint")


def _field(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    if size < 0:
        return None, at
    if size > len(data) - at:
        raise RefusedError("field")
    return data[at : at + size], at + size


def _read_legacy(batch: bytes, position: int, check_crcs: bool) -> Iterator[Line]:
    offset, _, crc, magic, attributes = struct.unpack_from(">qiIbB", batch)
    message = batch[12:]
    valid = crc == zlib.crc32(message[4:])
    timestamp = -1 if magic == 0 else struct.unpack_from(">q", message, 6)[0]
    log_append = magic == 1 and bool(attributes & 8)
    kind = "NoTimestampType" if magic == 0 else "LogAppendTime" if log_append else "CreateTime"
    wrapped = bool(attributes & 7)
    try:
        entries = _open_wrapper(message, offset) if wrapped else [(offset, message)]
        refused = False
    except RefusedError:
        entries, refused = [], True
    opens = not refused and not (wrapped and entries[0][1][5] & 7)
    base_offset = entries[0][0] if opens else None
    yield _batch(position, batch, crc, valid, attributes) | {
        "baseOffset": base_offset,
        "lastOffset": offset,
        "timestampType": kind,
        "maxTimestamp": timestamp,
    }
    if check_crcs and not valid:
        yield _error(position, "crc")
        return
    if refused:
        yield _error(position, "records")
    for index, (inner_offset, inner) in enumerate(entries):
        inner_crc, inner_magic, inner_attributes = struct.unpack_from(">IbB", inner)
        if wrapped and inner_attributes & 7:
            yield _error(position, "records")
            return
        try:
            if wrapped and check_crcs and inner_crc != zlib.crc32(inner[4:]):
                raise RefusedError("inner crc")
            inner_timestamp, key, value = _message(inner)
        except RefusedError:
            yield _error(position, "record")
            continue
        if inner_magic == 1 and log_append:
            inner_timestamp = timestamp
        yield {
            "type": "record",
            "position": position,
            "index": index,
            "offset": inner_offset,
            "timestamp": inner_timestamp,
            "sequence": -1,
            "key": key,
            "value": value,
            "headers": [],
        }


def _open_wrapper(message: bytes, wrapper_offset: int) -> list[tuple[int, bytes]]:
    magic, codec = message[4], message[5] & 7
    value = _message(message)[2]
    if value is None or codec == 4:
        raise RefusedError("wrapper")
    data = b"".join(decompress(value, codec, magic=magic))
    at = 0
    entries: list[tuple[int, bytes]] = []
    while len(data) - at >= 12:
        offset, size = struct.unpack_from(">qi", data, at)
        if size < 14:
            raise RefusedError("inner size")
        if size > len(data) - at - 12:
            break
        entries.append((offset, data[at + 12 : at + 12 + size]))
        at += 12 + size
    if not entries:
        raise RefusedError("no inner records")
    if magic == 0:
        return entries
    last = entries[-1][0]
    if wrapper_offset < last and wrapper_offset != 0:
        raise RefusedError("wrapper offset")
    base = wrapper_offset - last if wrapper_offset != 0 else 0
    return [(_wrap(base + offset, 64), inner) for offset, inner in entries]


def _message(message: bytes) -> tuple[int, bytes | None, bytes | None]:
    at, timestamp, fields = 6, -1, []
    try:
        if message[4] != 0:
            at, timestamp = 14, struct.unpack_from(">q", message, 6)[0]
        for _ in range(2):
            size = struct.unpack_from(">i", message, at)[0]
            at += 4
            if size > len(message) - at:
                raise RefusedError("field")
            fields.append(message[at : at + size] if size >= 0 else None)
            at += max(0, size)
    except struct.error:
        raise RefusedError("message") from None
    return timestamp, fields[0], fields[1]


def _batch(position: int, batch: bytes, crc: int, valid: bool, attributes: int) -> Line:
    """What every magic has, and Kafka's sentinels for what only magic 2 has."""
    codec = attributes & 7
    line = {"type": "batch", "position": position, "size": len(batch), "magic": batch[16]}
    line |= {"crc": crc, "crcValid": valid, "attributes": attributes, "codecId": codec}
    line |= {"codec": CODECS[codec] if codec < len(CODECS) else None}
    unknown = (
        "partitionLeaderEpoch",
        "producerId",
        "producerEpoch",
        "baseSequence",
        "lastSequence",
    )
    line |= dict.fromkeys(unknown, -1) | dict.fromkeys(("isTransactional", "isControl"), False)
    return line | dict.fromkeys(("deleteHorizonMs", "count"))


def _error(position: int, stage: str, **more: int | None) -> Line:
    return {"type": "error", "position": position, "stage": stage, **more}


def _wrap(value: int, bits: int) -> int:
    """Java's arithmetic: the low bits, signed."""
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _increment(sequence: int, increment: int) -> int:
    if sequence > _wrap(INT32_MAX - increment, 32):
        return _wrap(increment - (INT32_MAX - sequence) - 1, 32)
    return _wrap(sequence + increment, 32)


def _crc32c_table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [(crc >> 1) ^ (0x82F63B78 if crc & 1 else 0) for crc in table]
    return table


_CRC32C = _crc32c_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF
