"""Copy records into a chunk: one resumable pass over the batches of a window, for every magic.

A batch is given whole or not at all: what is broken is taken back. A batch that can not fit into
an empty chunk is therefore walked once before its records are given piece by piece.
"""

import numpy as np

from ottla.format import attributes
from ottla.format.arrays import PADDING, Bytes, Int32s, Int64s
from ottla.format.attributes import LOG_APPEND_TIME
from ottla.format.layout import LENGTH_POSITION, LOG_OVERHEAD
from ottla.kernels._jit import called, i64, inlined, kernel
from ottla.kernels.bytes.ints import read_i32, read_i64, wrapping_add
from ottla.kernels.bytes.memory import copy_wide
from ottla.kernels.records.legacy import inner_crc, locate_fields, message_timestamp
from ottla.kernels.records.v2 import Located, check_records, locate_header, locate_record
from ottla.kernels.status import (
    BYTES_REMAIN,
    CHUNK_FULL,
    COUNT_NEGATIVE,
    CRC_MISMATCH,
    OK,
    RECORD_SIZE,
)
from ottla.kernels.tables import Batches, Payloads, RecordBuffers, Wanted

# Numba takes ten times as long to recognise an enum as to do the work.
KEYS = int(Wanted.KEYS)
VALUES = int(Wanted.VALUES)
HEADERS = int(Wanted.HEADERS)
INDEXES = int(Wanted.INDEXES)
INNER_CRCS = int(Wanted.INNER_CRCS)
CONTROL = int(Wanted.CONTROL)

# Where the pass is: the slots of the cursor.
ROW = 0  # the batch
INDEX = 1  # the record in it
AT = 2  # its byte
RECORDS = 3  # how full the chunk is: records and bytes
KEY = 4
VALUE = 5
HEADER = 6
HEADER_KEY = 7
HEADER_VALUE = 8
NOT_ASCII = 9  # some header key is not plain ASCII
NEEDED = 10  # bytes that the next record needs, when an empty chunk is too small
REJECTED = 11  # rows of the table of rejected records
BROKEN = 12  # batches found broken
CURSOR_SIZE = 13

# A rejected message: batch row, index, offset, status, stored and computed CRC.
REJECTED_FIELDS = 6


@inlined
def clear_bit(bits: Bytes, index: int) -> None:
    """Mark a value as null."""
    bits[index >> 3] &= np.uint8(0xFF ^ (1 << (index & 7)))


@inlined
def put_bytes(
    column: Bytes,
    bounds: Int32s,
    valid: Bytes,
    used: int,
    record: int,
    data: Bytes,
    at: int,
    size: int,
) -> int:
    """Append a key or a value; a negative size is null. Returns how full the column is."""
    if size > 0:
        copy_wide(column, used, data, at, size)
        used += size
    elif size < 0:
        clear_bit(valid, record)
    bounds[record + 1] = used
    return used


@inlined
def put_header(
    out: RecordBuffers,
    cursor: Int64s,
    keys: Bytes,
    key_at: int,
    key_size: int,
    values: Bytes,
    value_at: int,
    value_size: int,
) -> None:
    """Append a record header."""
    header = cursor[HEADER]
    copy_wide(out.header_key_bytes, cursor[HEADER_KEY], keys, key_at, key_size)
    for at in range(key_at, key_at + key_size):
        if keys[at] >= 0x80:
            cursor[NOT_ASCII] = 1
    cursor[HEADER_KEY] += key_size
    out.header_key_bounds[header + 1] = cursor[HEADER_KEY]
    if value_size > 0:
        copy_wide(out.header_value_bytes, cursor[HEADER_VALUE], values, value_at, value_size)
        cursor[HEADER_VALUE] += value_size
    elif value_size < 0:
        clear_bit(out.header_value_valid, header)
    out.header_value_bounds[header + 1] = cursor[HEADER_VALUE]
    cursor[HEADER] = header + 1


@inlined
def room(out: RecordBuffers, cursor: Int64s, wanted: int) -> int:
    """Bytes that any of the chunk's byte columns can still take."""
    least = i64(1) << i64(62)
    if wanted & KEYS:
        least = min(least, out.key_bytes.size - PADDING - cursor[KEY])
    if wanted & VALUES:
        least = min(least, out.value_bytes.size - PADDING - cursor[VALUE])
    if wanted & HEADERS:
        least = min(least, out.header_key_bytes.size - PADDING - cursor[HEADER_KEY])
        least = min(least, out.header_value_bytes.size - PADDING - cursor[HEADER_VALUE])
    return least


@inlined
def undo(saved: Int64s, cursor: Int64s, out: RecordBuffers, wanted: int) -> None:
    """Take back what was put since `saved`, with the record that was begun."""
    for record in range(saved[RECORDS], min(cursor[RECORDS] + 1, out.offset.size)):
        if wanted & KEYS:
            out.key_valid[record >> 3] |= np.uint8(1 << (record & 7))
        if wanted & VALUES:
            out.value_valid[record >> 3] |= np.uint8(1 << (record & 7))
    for header in range(saved[HEADER], cursor[HEADER]):
        out.header_value_valid[header >> 3] |= np.uint8(1 << (header & 7))
    for slot in range(RECORDS, NOT_ASCII):
        cursor[slot] = saved[slot]
    cursor[REJECTED] = saved[REJECTED]


@inlined
def lacks_header_room(found: Located, wanted: int, out: RecordBuffers, cursor: Int64s) -> bool:
    """Whether the headers of a record are asked for and more than the chunk can take."""
    return bool(
        wanted & HEADERS and cursor[HEADER] + found.header_count >= out.header_key_bounds.size
    )


@inlined
def put_fields(
    data: Bytes,
    found: Located,
    record: int,
    wanted: int,
    out: RecordBuffers,
    keys: int,
    values: int,
) -> tuple[int, int]:
    """Append key and value of a record; return how full their columns are."""
    if wanted & KEYS:
        keys = put_bytes(
            out.key_bytes,
            out.key_bounds,
            out.key_valid,
            keys,
            record,
            data,
            found.key_at,
            found.key_size,
        )
    if wanted & VALUES:
        values = put_bytes(
            out.value_bytes,
            out.value_bounds,
            out.value_valid,
            values,
            record,
            data,
            found.value_at,
            found.value_size,
        )
    return keys, values


@inlined
def put_headers(
    data: Bytes, found: Located, wanted: int, out: RecordBuffers, cursor: Int64s
) -> int:
    """Append the headers of a record, or only check them; OK or what is broken."""
    status = OK
    at = found.header_at
    for _ in range(found.header_count):
        status, key_at, key_size, value_at, value_size, at = locate_header(data, at, found.end)
        if status != OK:
            break
        if wanted & HEADERS:
            put_header(out, cursor, data, key_at, key_size, data, value_at, value_size)
    return RECORD_SIZE if status == OK and at != found.end else status


@inlined
def gather_v2(
    data: Bytes,
    row: int,
    batches: Batches,
    payloads: Payloads,
    wanted: int,
    out: RecordBuffers,
    cursor: Int64s,
    piecewise: bool,
) -> int:
    """Put the records of one batch from cursor[INDEX] on; OK, CHUNK_FULL or what is broken."""
    stop = payloads.stop[row]
    base_offset = batches.base_offset[row]
    base_timestamp = batches.base_timestamp[row]
    append_time = batches.attributes[row] & LOG_APPEND_TIME != 0
    max_timestamp = batches.max_timestamp[row]
    count = batches.count[row]
    index = cursor[INDEX]
    at = cursor[AT]
    record = cursor[RECORDS]
    keys = cursor[KEY]
    values = cursor[VALUE]
    status = OK
    while index < count:
        found = locate_record(data, at, stop)
        status = found.status
        if status != OK:
            break
        if piecewise:
            cursor[KEY] = keys
            cursor[VALUE] = values
            if (
                record >= out.offset.size
                or room(out, cursor, wanted) < found.end - at
                or lacks_header_room(found, wanted, out, cursor)
            ):
                cursor[NEEDED] = found.end - at
                status = CHUNK_FULL
                break
        out.offset[record] = wrapping_add(base_offset, found.offset_delta)
        out.timestamp[record] = (
            max_timestamp if append_time else wrapping_add(base_timestamp, found.timestamp_delta)
        )
        if wanted & INDEXES:
            out.index[record] = index
        keys, values = put_fields(data, found, record, wanted, out, keys, values)
        if found.header_count > 0:
            if lacks_header_room(found, wanted, out, cursor):
                status = CHUNK_FULL
                break
            status = put_headers(data, found, wanted, out, cursor)
            if status != OK:
                break
        if wanted & HEADERS:
            out.header_bounds[record + 1] = cursor[HEADER]
        record += 1
        index += 1
        at = found.end
    if status == OK and count > 0 and at != stop:
        status = BYTES_REMAIN
    cursor[RECORDS] = record
    cursor[KEY] = keys
    cursor[VALUE] = values
    cursor[INDEX] = index
    cursor[AT] = at
    return status


@called
def gather_legacy(
    data: Bytes,
    row: int,
    batches: Batches,
    payloads: Payloads,
    wanted: int,
    out: RecordBuffers,
    cursor: Int64s,
    rejected: Int64s,
) -> int:
    """Put the messages of a wrapper, or the one of a plain batch, from cursor[INDEX] on.

    Kafka reads a message's fields only when asked for them: a broken one does not hurt others.
    """
    stop = payloads.stop[row]
    wrapped = payloads.in_arena[row] != 0
    while cursor[AT] + LOG_OVERHEAD <= stop:
        at = cursor[AT]
        end = at + LOG_OVERHEAD + read_i32(data, at + LENGTH_POSITION)
        if end > stop:
            break
        record = cursor[RECORDS]
        if (
            record >= out.offset.size
            or room(out, cursor, wanted) < end - at
            or cursor[REJECTED] >= rejected.shape[0]
        ):
            cursor[NEEDED] = end - at
            return CHUNK_FULL
        offset = wrapping_add(payloads.shift[row], read_i64(data, at))
        cursor[AT] = end
        cursor[INDEX] += 1
        stored = computed = i64(0)
        status, key_at, key_size, value_at, value_size = locate_fields(data, at, end)
        if wrapped and wanted & INNER_CRCS:
            stored, computed = inner_crc(data, at, end)
            if stored != computed:
                status = CRC_MISMATCH
        if status != OK:
            line = cursor[REJECTED]
            rejected[line, 0] = row
            rejected[line, 1] = cursor[INDEX] - 1
            rejected[line, 2] = offset
            rejected[line, 3] = status
            rejected[line, 4] = stored
            rejected[line, 5] = computed
            cursor[REJECTED] += 1
            continue
        out.offset[record] = offset
        out.timestamp[record] = message_timestamp(data, at, batches, row, wrapped)
        if wanted & INDEXES:
            out.index[record] = cursor[INDEX] - 1
        if wanted & KEYS:
            cursor[KEY] = put_bytes(
                out.key_bytes,
                out.key_bounds,
                out.key_valid,
                cursor[KEY],
                record,
                data,
                key_at,
                key_size,
            )
        if wanted & VALUES:
            cursor[VALUE] = put_bytes(
                out.value_bytes,
                out.value_bounds,
                out.value_valid,
                cursor[VALUE],
                record,
                data,
                value_at,
                value_size,
            )
        if wanted & HEADERS:
            out.header_bounds[record + 1] = cursor[HEADER]
        cursor[RECORDS] = record + 1
    return OK


@kernel
def gather(
    window: Bytes,
    arena: Bytes,
    batches: Batches,
    payloads: Payloads,
    wanted: int,
    out: RecordBuffers,
    cursor: Int64s,
    rejected: Int64s,
    saved: Int64s,
) -> int:
    """Fill the chunk from cursor[ROW] on: OK when all is done, CHUNK_FULL to be called again."""
    while cursor[ROW] < batches.position.size:
        row = cursor[ROW]
        if payloads.status[row] != OK:
            cursor[ROW] += 1
            continue
        data = arena if payloads.in_arena[row] else window
        status = OK
        resumed = cursor[INDEX] > 0
        for slot in range(CURSOR_SIZE):
            saved[slot] = cursor[slot]
        if not resumed:
            cursor[AT] = payloads.start[row]
        if batches.magic[row] == 2:
            count = batches.count[row]
            piecewise = resumed
            # Consumers iterate control batches as well, and only then leave their records out.
            hidden = batches.attributes[row] & attributes.CONTROL != 0 and not wanted & CONTROL
            if count < 0:
                status = COUNT_NEGATIVE
            elif hidden and count > 0:
                status, cursor[INDEX], cursor[AT] = check_records(
                    data, payloads.start[row], payloads.stop[row], count
                )
            elif not resumed and (
                cursor[RECORDS] + count > out.offset.size
                or payloads.stop[row] - payloads.start[row] > room(out, cursor, wanted)
            ):
                if cursor[RECORDS] > 0:
                    return CHUNK_FULL
                status, cursor[INDEX], cursor[AT] = check_records(
                    data, payloads.start[row], payloads.stop[row], count
                )
                if status == OK:
                    cursor[INDEX] = 0
                    cursor[AT] = payloads.start[row]
                piecewise = True
            if status == OK and not hidden:
                status = gather_v2(data, row, batches, payloads, wanted, out, cursor, piecewise)
        else:
            status = gather_legacy(data, row, batches, payloads, wanted, out, cursor, rejected)
        if status == CHUNK_FULL:
            if batches.magic[row] == 2 and not piecewise:
                undo(saved, cursor, out, wanted)
                cursor[INDEX] = 0
                if saved[RECORDS] > 0:
                    return CHUNK_FULL
                cursor[NEEDED] = payloads.stop[row] - payloads.start[row]
                return CHUNK_FULL
            payloads.rows[row] += cursor[RECORDS] - saved[RECORDS]
            return CHUNK_FULL
        if status != OK:
            cursor[BROKEN] += 1
            payloads.status[row] = status
            payloads.failed_index[row] = cursor[INDEX]
            payloads.failed_at[row] = cursor[AT]
            undo(saved, cursor, out, wanted)
        payloads.rows[row] += cursor[RECORDS] - saved[RECORDS]
        cursor[INDEX] = 0
        cursor[ROW] += 1
    return OK
