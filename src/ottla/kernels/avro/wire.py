"""What stands before the payload of a key or value: whose format, and which schema."""

from typing import Final

from ottla.format.arrays import Bytes, Int64s
from ottla.kernels._jit import i64, kernel
from ottla.kernels.avro.reading import read_number
from ottla.kernels.bytes.ints import read_i64, read_u32
from ottla.kernels.bytes.memory import copy_wide, load_u64

# Formats, and what becomes of a row.
ABSENT: Final = 0  # null
UNFRAMED: Final = 1  # not in this format
PREFIX_4: Final = 2  # Confluent, Apicurio 3
PREFIX_8: Final = 3  # Apicurio 2
PROTOBUF: Final = 4  # Confluent, with the path of a message
GLUE: Final = 5
GLUE_ZLIB: Final = 6
SINGLE_OBJECT: Final = 7

MAX_INDEXES: Final = 64  # messages nested in messages


@kernel
def skip_indexes(data: Bytes, at: int, end: int) -> int:
    """Where the path of a message ends, or -1: a count, then so many numbers of messages."""
    count, at = read_number(data, at, end)
    if at < 0 or count < 0 or count > MAX_INDEXES:
        return -1
    for _ in range(count):
        index, at = read_number(data, at, end)
        if at < 0 or index < 0:
            return -1
    return at


@kernel
def split_wire(
    data: Bytes,
    starts: Int64s,
    sizes: Int64s,
    wire: int,
    kinds: Bytes,
    ids: Int64s,
    low: Int64s,
    payload_starts: Int64s,
    payload_sizes: Int64s,
) -> None:
    """Fill a row for each value: its kind, its id and its payload.

    Of an id of 16 bytes, `low` has the last 8; of Protobuf, where the path of the message begins.
    A value that is not in this format is a payload as a whole.
    """
    for row in range(starts.size):
        at = starts[row]
        size = sizes[row]
        end = at + size
        payload_starts[row] = at
        payload_sizes[row] = size
        if size < 0:
            kinds[row] = ABSENT
            continue
        kinds[row] = UNFRAMED
        skipped = 0
        if wire == PREFIX_4 or wire == PROTOBUF:
            if size < 5 or data[at] != 0:
                continue
            skipped = 5
            if wire == PROTOBUF:
                after = skip_indexes(data, at + 5, end)
                if after < 0:
                    continue
                skipped = after - at
                low[row] = at + 5
            ids[row] = read_u32(data, at + 1)
        elif wire == PREFIX_8:
            if size < 9 or data[at] != 0:
                continue
            skipped = 9
            ids[row] = read_i64(data, at + 1)
        elif wire == GLUE:
            if size < 18 or data[at] != 3 or (data[at + 1] != 0 and data[at + 1] != 5):
                continue
            skipped = 18
            ids[row] = read_i64(data, at + 2)
            low[row] = read_i64(data, at + 10)
        else:
            if size < 10 or data[at] != 0xC3 or data[at + 1] != 1:
                continue
            skipped = 10
            ids[row] = i64(load_u64(data, at + 2))
        kinds[row] = GLUE_ZLIB if wire == GLUE and data[at + 1] == 5 else wire
        payload_starts[row] = at + skipped
        payload_sizes[row] = size - skipped


@kernel
def gather_spans(data: Bytes, starts: Int64s, sizes: Int64s, out: Bytes, bounds: Int64s) -> None:
    """Copy spans one behind another; negative sizes are nothing."""
    used = i64(0)
    for row in range(starts.size):
        if sizes[row] > 0:
            copy_wide(out, used, data, starts[row], sizes[row])
            used += sizes[row]
        bounds[row + 1] = used
