"""Which batches of a segment get index entries, and before which one a broker rolls."""

import numpy as np

from ottla.format.arrays import Int64s
from ottla.format.sentinels import INT32_MAX
from ottla.kernels._jit import kernel
from ottla.kernels.tables import Batches

# The state of a segment that is being written: slots of an array.
BASE_OFFSET = 0
SIZE = 1
SINCE_ENTRY = 2  # bytes since the last index entry
FIRST_TIMESTAMP = 3  # the first batch's greatest timestamp
MAX_TIMESTAMP = 4
MAX_TIMESTAMP_OFFSET = 5
ENTRIES = 6
TIME_ENTRIES = 7
LAST_TIME_ENTRY = 8  # its timestamp
STATE_SIZE = 9

# When to roll: slots of an array.
SEGMENT_BYTES = 0
SEGMENT_MS = 1
MAX_ENTRIES = 2
MAX_TIME_ENTRIES = 3
INDEX_INTERVAL = 4
LIMITS_SIZE = 5

# Why the kernel stopped.
DONE = 0
ROLL = 1


@kernel
def append_batches(
    batches: Batches,
    first: int,
    limits: Int64s,
    state: Int64s,
    entries: Int64s,
    time_entries: Int64s,
) -> tuple[int, int, int, int]:
    """Append rows from `first` on until a roll is due.

    Returns (next row, entries, time entries, why). Entries are pairs of offset and position,
    respectively timestamp and offset. As LogSegment.append and LogSegment.shouldRoll, for appends
    of one batch each; LogSegment.recover gives the same entries.
    """
    made = 0
    timed = 0
    for row in range(first, batches.position.size):
        size = batches.size[row]
        last_offset = batches.last_offset[row]
        timestamp = batches.max_timestamp[row]
        relative = last_offset - state[BASE_OFFSET]
        waited = timestamp - state[FIRST_TIMESTAMP] if state[FIRST_TIMESTAMP] >= 0 else 0
        if state[SIZE] > 0 and (
            state[SIZE] > limits[SEGMENT_BYTES] - size
            or waited > limits[SEGMENT_MS]
            or state[ENTRIES] >= limits[MAX_ENTRIES]
            or state[TIME_ENTRIES] >= limits[MAX_TIME_ENTRIES] - 1
            or relative < 0
            or relative > INT32_MAX
        ):
            return row, made, timed, ROLL
        if state[SIZE] == 0:
            state[FIRST_TIMESTAMP] = timestamp
        if timestamp > state[MAX_TIMESTAMP]:
            state[MAX_TIMESTAMP] = timestamp
            state[MAX_TIMESTAMP_OFFSET] = last_offset
        if state[SINCE_ENTRY] > limits[INDEX_INTERVAL]:
            entries[made, 0] = last_offset
            entries[made, 1] = state[SIZE]
            made += 1
            state[ENTRIES] += 1
            timed += append_time_entry(state, time_entries, timed)
            state[SINCE_ENTRY] = 0
        state[SINCE_ENTRY] += size
        state[SIZE] += size
    return batches.position.size, made, timed, DONE


@kernel
def append_time_entry(state: Int64s, time_entries: Int64s, row: int) -> int:
    """Write a time entry where the greatest timestamp grew (TimeIndex.maybeAppend); how many."""
    if state[MAX_TIMESTAMP] <= state[LAST_TIME_ENTRY]:
        return 0
    time_entries[row, 0] = state[MAX_TIMESTAMP]
    time_entries[row, 1] = state[MAX_TIMESTAMP_OFFSET]
    state[TIME_ENTRIES] += 1
    state[LAST_TIME_ENTRY] = state[MAX_TIMESTAMP]
    return 1


def new_state(base_offset: int) -> Int64s:
    """A segment without batches."""
    state = np.zeros(STATE_SIZE, dtype=np.int64)
    state[BASE_OFFSET] = base_offset
    state[FIRST_TIMESTAMP] = state[MAX_TIMESTAMP] = state[LAST_TIME_ENTRY] = -1
    return state
