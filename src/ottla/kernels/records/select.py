"""Choose records of a chunk by their key or value, or by a header, and copy chosen ones."""

from ottla.format.arrays import PADDING, Bools, Bytes, Int32s, Int64s
from ottla.kernels._jit import inlined, kernel
from ottla.kernels.records.gather import (
    HEADER,
    HEADER_KEY,
    HEADER_VALUE,
    HEADERS,
    INDEXES,
    KEY,
    KEYS,
    RECORDS,
    VALUE,
    VALUES,
    put_bytes,
    put_header,
)
from ottla.kernels.tables import RecordBuffers
from ottla.kernels.text.render_tables import is_valid


@inlined
def is_same(data: Bytes, start: int, stop: int, wanted: Bytes) -> bool:
    """Whether these bytes are the wanted ones."""
    if stop - start != wanted.size:
        return False
    differences = 0
    for index in range(wanted.size):
        differences += data[start + index] != wanted[index]
    return differences == 0


@kernel
def mark_bytes(bounds: Int32s, data: Bytes, valid: Bytes, wanted: Bytes, marked: Bools) -> None:
    """Mark the records whose key or value is this."""
    for record in range(marked.size):
        if is_same(data, bounds[record], bounds[record + 1], wanted) and is_valid(valid, record):
            marked[record] = True


@kernel
def mark_header(
    buffers: RecordBuffers, key: Bytes, value: Bytes, any_value: bool, marked: Bools
) -> None:
    """Mark the records that have a header of this key and value, or of this key."""
    keys = buffers.header_key_bounds
    values = buffers.header_value_bounds
    for record in range(marked.size):
        for header in range(buffers.header_bounds[record], buffers.header_bounds[record + 1]):
            if is_same(buffers.header_key_bytes, keys[header], keys[header + 1], key) and (
                any_value
                or (
                    is_valid(buffers.header_value_valid, header)
                    and is_same(
                        buffers.header_value_bytes, values[header], values[header + 1], value
                    )
                )
            ):
                marked[record] = True


@inlined
def lacks_room(used: int, size: int, column: Bytes) -> bool:
    """Whether a column of bytes cannot take so many more."""
    return used + size > column.size - PADDING


@inlined
def fits(source: RecordBuffers, row: int, wanted: int, out: RecordBuffers, cursor: Int64s) -> bool:
    """Whether the chunk has room for a record of another one."""
    if cursor[RECORDS] >= out.offset.size:
        return False
    if wanted & KEYS:
        size = source.key_bounds[row + 1] - source.key_bounds[row]
        if lacks_room(cursor[KEY], size, out.key_bytes):
            return False
    if wanted & VALUES:
        size = source.value_bounds[row + 1] - source.value_bounds[row]
        if lacks_room(cursor[VALUE], size, out.value_bytes):
            return False
    if wanted & HEADERS:
        first, last = source.header_bounds[row], source.header_bounds[row + 1]
        keys, values = source.header_key_bounds, source.header_value_bounds
        if (
            cursor[HEADER] + last - first >= out.header_key_bounds.size
            or lacks_room(cursor[HEADER_KEY], keys[last] - keys[first], out.header_key_bytes)
            or lacks_room(
                cursor[HEADER_VALUE], values[last] - values[first], out.header_value_bytes
            )
        ):
            return False
    return True


@inlined
def copy_bytes(
    column: Bytes,
    bounds: Int32s,
    valid: Bytes,
    used: int,
    record: int,
    source: Bytes,
    source_bounds: Int32s,
    source_valid: Bytes,
    row: int,
) -> int:
    """Append the key or value that a row of another chunk has."""
    at = source_bounds[row]
    size = source_bounds[row + 1] - at if is_valid(source_valid, row) else -1
    return put_bytes(column, bounds, valid, used, record, source, at, size)


@kernel
def append_rows(
    source: RecordBuffers, rows: Int64s, wanted: int, out: RecordBuffers, cursor: Int64s
) -> int:
    """Append some records of a chunk to another one; return how many, fewer when it is full."""
    for index in range(rows.size):
        row = rows[index]
        if not fits(source, row, wanted, out, cursor):
            return index
        record = cursor[RECORDS]
        out.offset[record] = source.offset[row]
        out.timestamp[record] = source.timestamp[row]
        if wanted & INDEXES:
            out.index[record] = source.index[row]
        if wanted & KEYS:
            cursor[KEY] = copy_bytes(
                out.key_bytes,
                out.key_bounds,
                out.key_valid,
                cursor[KEY],
                record,
                source.key_bytes,
                source.key_bounds,
                source.key_valid,
                row,
            )
        if wanted & VALUES:
            cursor[VALUE] = copy_bytes(
                out.value_bytes,
                out.value_bounds,
                out.value_valid,
                cursor[VALUE],
                record,
                source.value_bytes,
                source.value_bounds,
                source.value_valid,
                row,
            )
        if wanted & HEADERS:
            for header in range(source.header_bounds[row], source.header_bounds[row + 1]):
                key_at = source.header_key_bounds[header]
                value_at = source.header_value_bounds[header]
                value_size = source.header_value_bounds[header + 1] - value_at
                put_header(
                    out,
                    cursor,
                    source.header_key_bytes,
                    key_at,
                    source.header_key_bounds[header + 1] - key_at,
                    source.header_value_bytes,
                    value_at,
                    value_size if is_valid(source.header_value_valid, header) else -1,
                )
            out.header_bounds[record + 1] = cursor[HEADER]
        cursor[RECORDS] = record + 1
    return rows.size
