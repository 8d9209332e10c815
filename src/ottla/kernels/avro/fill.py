"""The pass over datums that writes the columns.

Alone it goes on as long as datums are sound and there is room: it checks what it reads. Behind the
first pass, which has found what is broken and how much room there must be, it comes to the end.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.format.arrays import Bytes, Int32s, Int64s
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.avro.layout import (
    BINARY,
    BOOLEAN,
    BYTES,
    CHECK,
    CONSTANT,
    COUNTER,
    DECIMAL_FIXED,
    DEFAULT,
    DEFAULT_END,
    END,
    FILL,
    FIXED,
    FLOAT32,
    FLOAT32_TO_64,
    FLOAT64,
    HEX,
    HIGH,
    INT32,
    INT64,
    INT_TO_FLOAT64,
    JUMP,
    KEEP,
    KEPT,
    LIST,
    LOW,
    MILLIS,
    MODE,
    NEXT,
    NEXT_ITEM,
    NOTHING,
    NULL,
    NULLABLE,
    SKIP,
    STRIDE,
    SYMBOL,
    TEXT,
    UNION,
    UUID_SIZE,
    VALID,
    VALUE,
)
from ottla.kernels.avro.reading import decimal_fits, is_ascii, is_utf8, read_number
from ottla.kernels.avro.skip import read_block, skip
from ottla.kernels.bytes.memory import copy_wide, load_u64, store_u64

_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


class ColumnMemory(NamedTuple):
    """The memory of all columns, as numbers of each width."""

    bytes: Bytes
    int32: Int32s
    int64: Int64s
    float32: npt.NDArray[np.float32]
    float64: npt.NDArray[np.float64]


@inlined
def put_uuid(out: Bytes, to: int, data: Bytes, at: int) -> None:
    """Sixteen bytes as the 36 characters of a UUID."""
    for index in range(16):
        if index == 4 or index == 6 or index == 8 or index == 10:
            out[to] = np.uint8(0x2D)
            to += 1
        out[to] = _DIGITS[data[at + index] >> 4]
        out[to + 1] = _DIGITS[data[at + index] & 15]
        to += 2


@inlined
def put_decimal(out: Bytes, to: int, data: Bytes, at: int, size: int, width: int) -> None:
    """A big-endian number, in `width` bytes, the least significant first."""
    fill = np.uint8(0xFF) if size > 0 and data[at] >= 0x80 else np.uint8(0)
    for index in range(width):
        out[to + index] = data[at + size - 1 - index] if index < size else fill


@kernel
def fill(
    payloads: Bytes,
    starts: Int64s,
    sizes: Int64s,
    code: Int64s,
    table: Int64s,
    constants: Bytes,
    counters: Int64s,
    room: Int64s,
    stack: Int64s,
    calls: Int64s,
    faults: Bytes,
    columns: ColumnMemory,
) -> int:
    """Write datums without a fault; `counters` begin at 0 and stay below `room`.

    Return how many rows were done: all of them, or those before one that is broken or has no room.
    """
    out = columns.bytes
    scratch = columns.int32.size - 1  # where bits become a number
    for number in range(starts.size):
        if sizes[number] < 0 or faults[number]:
            continue
        row = i64(number)
        data = payloads
        at = starts[number]
        end = at + sizes[number]
        kept_at = kept_end = i64(0)
        top = 0
        pc = i64(0)
        while True:
            mode = code[pc + MODE]
            if mode:
                if mode == NULLABLE:
                    value, at = read_number(data, at, end)
                    if at < 0:
                        return number
                    if value == code[pc + NULL]:
                        pc = code[pc + NEXT]
                        continue
                    if value != 1 - code[pc + NULL]:
                        return number
                out[code[pc + VALID] + row] = 1
            op = code[pc + FILL]
            place = code[pc + VALUE] + row
            if (op >= TEXT and op <= LIST) or (op >= INT32 and op <= INT_TO_FLOAT64):
                value, at = read_number(data, at, end)
                if at < 0:
                    return number
                if op >= INT32:
                    if value < code[pc + LOW] or value > code[pc + HIGH]:
                        return number
                    if op == INT64:
                        columns.int64[place] = value
                    elif op == INT32:
                        columns.int32[place] = value
                    elif op == MILLIS:
                        columns.int64[place] = value * 1000
                    elif op == INT_TO_FLOAT64:
                        columns.float64[place] = value
                    else:
                        columns.float32[place] = value
                elif op <= BINARY:  # TEXT too
                    counter = code[pc + COUNTER]
                    used = counters[counter]
                    if value < 0 or value > end - at or value > room[counter] - used:
                        return number
                    if code[pc + CHECK] == TEXT and not is_ascii(data, at, value):  # noqa: SIM102
                        if not is_utf8(data, at, value):
                            return number
                    copy_wide(out, code[pc + BYTES] + used, data, at, value)
                    at += value
                    counters[counter] = used + value
                    columns.int32[place + 1] = used + value
                elif op == UNION:
                    if value < 0 or value >= code[pc + HIGH]:
                        return number
                    pc = table[code[pc + LOW] + value]
                    if pc < 0:
                        return number
                    continue
                elif op == LIST:
                    counter = code[pc + COUNTER]
                    if value == 0:
                        columns.int32[place + 1] = counters[counter]
                        pc = code[pc + NEXT]
                        continue
                    value, at = read_block(data, at, end, value, code[pc + LOW])
                    if at < 0 or value > room[counter] - counters[counter]:
                        return number
                    if code[pc + STRIDE + FILL] == NEXT_ITEM:
                        counters[counter] += value
                        continue
                    stack[top] = pc
                    stack[top + 1] = value
                    stack[top + 2] = row
                    top += 3
                    row = counters[counter]
                    counters[counter] = row + 1
                    pc += STRIDE
                    continue
                elif op == SYMBOL:
                    if value < 0 or value >= code[pc + HIGH]:
                        return number
                    symbol = code[pc + LOW] + 2 * value
                    counter = code[pc + COUNTER]
                    used = counters[counter]
                    size = table[symbol + 1]
                    if table[symbol] < 0 or size > room[counter] - used:
                        return number
                    copy_wide(out, code[pc + BYTES] + used, constants, table[symbol], size)
                    counters[counter] = used + size
                    columns.int32[place + 1] = used + size
                else:  # DECIMAL
                    if value < 0 or value > end - at:
                        return number
                    width = code[pc + HIGH]
                    if not decimal_fits(data, at, value, constants, code[pc + BYTES], width):
                        return number
                    put_decimal(out, code[pc + VALUE] + row * width, data, at, value, width)
                    at += value
                pc += STRIDE
            elif op == FLOAT64:
                if end - at < 8:
                    return number
                columns.int64[place] = i64(load_u64(data, at))
                at += 8
                pc += STRIDE
            elif op == FLOAT32:
                if end - at < 4:
                    return number
                word = load_u64(data, at) & np.uint64(0xFFFFFFFF)
                columns.int32[place] = np.int32(i64(word) - ((i64(word) >> i64(31)) << i64(32)))
                at += 4
                pc += STRIDE
            elif op == BOOLEAN:
                if at >= end or data[at] > 1:
                    return number
                out[place] = data[at]
                at += 1
                pc += STRIDE
            elif op == NEXT_ITEM:
                stack[top - 2] -= 1
                pc = stack[top - 3]
                if stack[top - 2] > 0:
                    counter = code[pc + COUNTER]
                    row = counters[counter]
                    counters[counter] = row + 1
                    pc += STRIDE
                else:
                    row = stack[top - 1]
                    top -= 3
            elif op == END:
                if at != end:
                    return number
                break
            elif op == NOTHING:
                pc += STRIDE
            elif op == JUMP:
                pc = code[pc + NEXT]
            elif op == FIXED:
                size = code[pc + LOW]
                if size > end - at:
                    return number
                copy_wide(out, code[pc + VALUE] + row * size, data, at, size)
                at += size
                pc += STRIDE
            elif op == FLOAT32_TO_64:
                if end - at < 4:
                    return number
                word = load_u64(data, at) & np.uint64(0xFFFFFFFF)
                columns.int32[scratch] = np.int32(i64(word) - ((i64(word) >> i64(31)) << i64(32)))
                columns.float64[place] = columns.float32[scratch]
                at += 4
                pc += STRIDE
            elif op == DEFAULT:
                kept_at = at
                kept_end = end
                data = constants
                at = code[pc + LOW]
                end = code[pc + HIGH]
                pc += STRIDE
            elif op == DEFAULT_END:
                data = payloads
                at = kept_at
                end = kept_end
                pc += STRIDE
            elif op == SKIP:
                at = skip(data, at, end, code, code[pc + LOW], table, calls)
                if at < 0:
                    return number
                pc += STRIDE
            elif op == KEEP:
                counter = code[pc + COUNTER]
                used = counters[counter]
                after = skip(data, at, end, code, code[pc + LOW], table, calls)
                if after < 0 or KEPT + after - at > room[counter] - used:
                    return number
                store_u64(out, code[pc + BYTES] + used, np.uint64(code[pc + HIGH]))
                store_u64(out, code[pc + BYTES] + used + 8, np.uint64(number))
                used += KEPT
                copy_wide(out, code[pc + BYTES] + used, data, at, after - at)
                counters[counter] = used + after - at
                columns.int32[place + 1] = used + after - at
                at = after
                pc += STRIDE
            elif op == CONSTANT:
                counter = code[pc + COUNTER]
                used = counters[counter]
                if code[pc + HIGH] > room[counter] - used:
                    return number
                copy_wide(out, code[pc + BYTES] + used, constants, code[pc + LOW], code[pc + HIGH])
                counters[counter] = used + code[pc + HIGH]
                columns.int32[place + 1] = used + code[pc + HIGH]
                pc += STRIDE
            elif op == HEX:
                counter = code[pc + COUNTER]
                used = counters[counter]
                if end - at < 16 or room[counter] - used < UUID_SIZE:
                    return number
                put_uuid(out, code[pc + BYTES] + used, data, at)
                at += 16
                counters[counter] = used + UUID_SIZE
                columns.int32[place + 1] = used + UUID_SIZE
                pc += STRIDE
            elif op == DECIMAL_FIXED:
                size, width = code[pc + LOW], code[pc + HIGH]
                if size > end - at:
                    return number
                if not decimal_fits(data, at, size, constants, code[pc + BYTES], width):
                    return number
                put_decimal(out, code[pc + VALUE] + row * width, data, at, size, width)
                at += code[pc + LOW]
                pc += STRIDE
            else:  # FAIL
                return number
    return starts.size
