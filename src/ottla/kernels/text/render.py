"""The lines of a dump: one resumable pass over batches and the records of a chunk.

What only Python can word (control records, decoded internal records, errors) comes in as finished
bytes, with the place where it belongs.
"""

from typing import NamedTuple

import numpy as np

from ottla.format.arrays import PADDING, Bools, Bytes, Int64s
from ottla.kernels._jit import inlined, kernel
from ottla.kernels.text.characters import BASE64_ROOM, ESCAPED_ROOM, put_bytes
from ottla.kernels.text.render_json import put_batch_json, put_record_json
from ottla.kernels.text.render_tables import (
    HEADER_ROOM,
    LINE_ROOM,
    BatchColumns,
    RecordColumns,
)
from ottla.kernels.text.render_text import put_batch_text, put_record_text

# How a line looks.
JSON = 0
TEXT = 1

# Where the pass is: the slots of the cursor.
ROW = 0  # the batch
BEGUN = 1  # whether its own line is done
DONE = 2  # how many of its records are done
RECORD = 3  # the record of the chunk
INSERT = 4
AT = 5  # how full the output is
NEEDED = 6  # what the next line needs, when the output is too full for it
CURSOR_SIZE = 7


class Plan(NamedTuple):
    """What to print: which batches, how many records of each, which of those, and what between.

    An insert is a finished line; it comes after the batch line of its row and before its record of
    the chunk. Inserts are in that order. `ending` closes every line that is not an insert.
    """

    batch_shown: Bools
    record_counts: Int64s
    record_shown: Bools
    insert_rows: Int64s
    insert_records: Int64s
    insert_bounds: Int64s
    inserts: Bytes
    ending: Bytes


@inlined
def record_room(records: RecordColumns, record: int, style: int) -> np.int64:
    """Bytes that the line of a record takes at most."""
    buffers = records.buffers
    first = buffers.header_bounds[record]
    after = buffers.header_bounds[record + 1]
    names = np.int64(buffers.header_key_bounds[after]) - buffers.header_key_bounds[first]
    data = np.int64(buffers.header_value_bounds[after]) - buffers.header_value_bounds[first]
    data += buffers.key_bounds[record + 1] - buffers.key_bounds[record]
    data += buffers.value_bounds[record + 1] - buffers.value_bounds[record]
    data *= BASE64_ROOM if style == JSON else ESCAPED_ROOM
    tail = records.tail_bounds[record + 1] - records.tail_bounds[record]
    around = LINE_ROOM + np.int64(after - first) * HEADER_ROOM
    room: np.int64 = around + names * ESCAPED_ROOM + data + tail
    return room


@inlined
def put_ending(out: Bytes, at: int, plan: Plan) -> int:
    """Close a line."""
    return put_bytes(out, at, plan.ending, 0, plan.ending.size - PADDING)


@inlined
def put_inserts(out: Bytes, cursor: Int64s, plan: Plan, record: int) -> bool:
    """Append what comes before a record of this row; return False when the output is too full."""
    while (
        cursor[INSERT] < plan.insert_rows.size
        and plan.insert_rows[cursor[INSERT]] == cursor[ROW]
        and plan.insert_records[cursor[INSERT]] <= record
    ):
        start = plan.insert_bounds[cursor[INSERT]]
        stop = plan.insert_bounds[cursor[INSERT] + 1]
        if not has_room(out, cursor, stop - start + LINE_ROOM):
            return False
        cursor[AT] = put_bytes(out, cursor[AT], plan.inserts, start, stop)
        cursor[INSERT] += 1
    return True


@inlined
def has_room(out: Bytes, cursor: Int64s, size: int | np.int64) -> bool:
    """Whether a line of this size fits; else note what it needs."""
    if cursor[AT] + size <= out.size:
        return True
    cursor[NEEDED] = size
    return False


@inlined
def put_records(
    out: Bytes,
    cursor: Int64s,
    batches: BatchColumns,
    records: RecordColumns,
    plan: Plan,
    style: int,
) -> bool:
    """Append the records of the cursor's row; return False when the output is too full."""
    row = cursor[ROW]
    while cursor[DONE] < plan.record_counts[row]:
        record = cursor[RECORD]
        if not put_inserts(out, cursor, plan, record):
            return False
        if plan.record_shown[record]:
            if not has_room(out, cursor, record_room(records, record, style) + plan.ending.size):
                return False
            if style == JSON:
                at = put_record_json(out, cursor[AT], batches, row, records, record)
            else:
                at = put_record_text(out, cursor[AT], batches, row, records, record)
            cursor[AT] = put_ending(out, at, plan)
        cursor[RECORD] += 1
        cursor[DONE] += 1
    return True


@kernel
def render(
    out: Bytes,
    cursor: Int64s,
    batches: BatchColumns,
    records: RecordColumns,
    plan: Plan,
    style: int,
) -> bool:
    """Fill the output from the cursor on; return whether all is done."""
    cursor[AT] = 0
    cursor[NEEDED] = 0
    while cursor[ROW] < plan.batch_shown.size:
        row = cursor[ROW]
        if cursor[BEGUN] == 0 and plan.batch_shown[row]:
            if not has_room(out, cursor, LINE_ROOM + plan.ending.size):
                return False
            if style == JSON:
                at = put_batch_json(out, cursor[AT], batches, row)
            else:
                at = put_batch_text(out, cursor[AT], batches, row)
            cursor[AT] = put_ending(out, at, plan)
        cursor[BEGUN] = 1
        if not put_records(out, cursor, batches, records, plan, style):
            return False
        if not put_inserts(out, cursor, plan, cursor[RECORD]):
            return False
        cursor[ROW] += 1
        cursor[BEGUN] = 0
        cursor[DONE] = 0
    return True
