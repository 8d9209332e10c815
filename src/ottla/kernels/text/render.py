"""The lines of a dump: one resumable pass over batches and the records of a chunk.

Each style has a kernel of its own (`render_json`, `render_text`), so that nobody waits for the
other one to compile; which line comes next is the same for all of them, and is said here. What
only Python can word (control records, decoded internal records, errors) comes in as finished bytes,
with the place where it belongs.
"""

from typing import NamedTuple

import numpy as np

from ottla.format.arrays import PADDING, Bools, Bytes, Int64s
from ottla.kernels._jit import inlined
from ottla.kernels.text.characters import ESCAPED_ROOM, put_bytes
from ottla.kernels.text.render_tables import HEADER_ROOM, LINE_ROOM, RecordColumns

# What comes next.
FINISHED = 0
FULL = 1  # the output has no room for the line
BATCH = 2  # the line of the cursor's batch
LINE = 3  # that of its record

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
def record_room(records: RecordColumns, record: int, data_room: int) -> np.int64:
    """Bytes that the line of a record takes at most, `data_room` for a byte of keys and values."""
    buffers = records.buffers
    first = buffers.header_bounds[record]
    after = buffers.header_bounds[record + 1]
    names = np.int64(buffers.header_key_bounds[after]) - buffers.header_key_bounds[first]
    shown = records.payloads
    data = np.int64(shown.header_value_bounds[after]) - shown.header_value_bounds[first]
    data += shown.key_bounds[record + 1] - shown.key_bounds[record]
    data += shown.value_bounds[record + 1] - shown.value_bounds[record]
    data *= 1 if records.verbatim else data_room
    tail = records.tail_bounds[record + 1] - records.tail_bounds[record]
    around = LINE_ROOM + np.int64(after - first) * HEADER_ROOM
    room: np.int64 = around + names * ESCAPED_ROOM + data + tail
    return room


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
def next_line(
    out: Bytes, cursor: Int64s, records: RecordColumns, plan: Plan, data_room: int
) -> int:
    """Go on to the next line that a style must put, with inserts on the way."""
    while cursor[ROW] < plan.batch_shown.size:
        row = cursor[ROW]
        if cursor[BEGUN] == 0 and plan.batch_shown[row]:
            return BATCH if has_room(out, cursor, LINE_ROOM + plan.ending.size) else FULL
        cursor[BEGUN] = 1
        while cursor[DONE] < plan.record_counts[row]:
            record = cursor[RECORD]
            if not put_inserts(out, cursor, plan, record):
                return FULL
            if plan.record_shown[record]:
                room = record_room(records, record, data_room) + plan.ending.size
                return LINE if has_room(out, cursor, room) else FULL
            cursor[RECORD] += 1
            cursor[DONE] += 1
        if not put_inserts(out, cursor, plan, cursor[RECORD]):
            return FULL
        cursor[ROW] += 1
        cursor[BEGUN] = 0
        cursor[DONE] = 0
    return FINISHED


@inlined
def close_line(out: Bytes, cursor: Int64s, at: int, plan: Plan, line: int) -> None:
    """End the line of a batch or record, and count it as done."""
    cursor[AT] = put_bytes(out, at, plan.ending, 0, plan.ending.size - PADDING)
    if line == BATCH:
        cursor[BEGUN] = 1
    else:
        cursor[RECORD] += 1
        cursor[DONE] += 1


@inlined
def begin(cursor: Int64s) -> None:
    """Start with an empty output."""
    cursor[AT] = 0
    cursor[NEEDED] = 0
