"""Step over what a reader does not want, or keeps as it is: types that call themselves, too.

Nothing here loops without taking a byte: types without bytes have no instructions, and a list of
them is passed by its count.
"""

from ottla.format.arrays import Bytes, Int64s
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.avro.layout import (
    BAD_BRANCH,
    BAD_COUNT,
    BAD_ENUM,
    BAD_LENGTH,
    BAD_UTF8,
    BOOLEAN,
    CALL,
    CHECK,
    COST,
    HIGH,
    JUMP,
    LIST,
    LOW,
    NEXT,
    NEXT_ITEM,
    OUT_OF_RANGE,
    RETURN,
    SIZED,
    STRIDE,
    SYMBOL,
    TEXT,
    TOO_DEEP,
    TRUNCATED,
    UNION,
    VARINT,
)
from ottla.kernels.avro.reading import is_ascii, is_utf8, read_number


@inlined
def read_block(data: Bytes, at: int, end: int, count: int, has_bytes: int) -> tuple[int, int]:
    """How many items follow, and where; a negative place is minus what is wrong.

    A negative count is followed by the size of its items, which says nothing new.
    """
    if count < 0:
        if count < -(i64(1) << i64(62)):
            return i64(0), i64(-BAD_COUNT)
        count = -count
        _, at = read_number(data, at, end)
    if at >= 0 and has_bytes and count > end - at:
        return i64(0), i64(-BAD_COUNT)
    return count, at


@kernel
def skip(
    data: Bytes, at: int, end: int, code: Int64s, pc: int, table: Int64s, stack: Int64s
) -> int:
    """Run the instructions from `pc` on; where the value ends, or minus what is wrong."""
    top = 0
    while True:
        check = code[pc + CHECK]
        if check >= VARINT:
            value, at = read_number(data, at, end)
            if at < 0:
                return at
            if check == VARINT:
                if value < code[pc + LOW] or value > code[pc + HIGH]:
                    return i64(-OUT_OF_RANGE)
            elif check == UNION:
                if value < 0 or value >= code[pc + HIGH]:
                    return i64(-BAD_BRANCH)
                pc = table[code[pc + LOW] + value]
                if pc < 0:
                    return i64(-BAD_BRANCH)
                continue
            elif check == SYMBOL:
                if value < 0 or value >= code[pc + HIGH]:
                    return i64(-BAD_ENUM)
                if table[code[pc + LOW] + 2 * value] < 0:
                    return i64(-BAD_ENUM)
            elif check == LIST:
                if value == 0:
                    pc = code[pc + NEXT]
                    continue
                count, at = read_block(data, at, end, value, code[pc + COST])
                if at < 0:
                    return at
                if code[pc + COST]:
                    if top + 2 > stack.size:
                        return i64(-TOO_DEEP)
                    stack[top] = pc
                    stack[top + 1] = count
                    top += 2
                    pc += STRIDE
                continue
            else:  # TEXT or BINARY
                if value < 0:
                    return i64(-BAD_LENGTH)
                if value > end - at:
                    return i64(-TRUNCATED)
                if check == TEXT and not is_ascii(data, at, value):  # noqa: SIM102
                    if not is_utf8(data, at, value):
                        return i64(-BAD_UTF8)
                at += value
            pc += STRIDE
        elif check == SIZED:
            if code[pc + LOW] > end - at:
                return i64(-TRUNCATED)
            at += code[pc + LOW]
            pc += STRIDE
        elif check == BOOLEAN:
            if at >= end:
                return i64(-TRUNCATED)
            if data[at] > 1:
                return i64(-OUT_OF_RANGE)
            at += 1
            pc += STRIDE
        elif check == NEXT_ITEM:
            stack[top - 1] -= 1
            pc = stack[top - 2]
            if stack[top - 1] > 0:
                pc += STRIDE
            else:
                top -= 2
        elif check == CALL:
            if top + 2 > stack.size:
                return i64(-TOO_DEEP)
            stack[top] = pc + STRIDE
            stack[top + 1] = 0
            top += 2
            pc = code[pc + LOW]
        elif check == RETURN:
            if top == 0:
                return at
            top -= 2
            pc = stack[top]
        elif check == JUMP:
            pc = code[pc + NEXT]
        else:  # FAIL
            return i64(-BAD_BRANCH)
