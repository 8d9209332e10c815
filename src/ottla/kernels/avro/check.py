"""The first pass over datums: check each and count what it brings to every column.

What a broken datum has counted is taken back. Memory and time are bounded by `budget`: the bytes
that all columns may take, and the items without bytes that may be walked.
"""

from ottla.format.arrays import Bytes, Int64s
from ottla.kernels._jit import i64, kernel
from ottla.kernels.avro.layout import (
    BAD_BRANCH,
    BAD_ENUM,
    BAD_LENGTH,
    BAD_UTF8,
    BOOLEAN,
    BYTES,
    CHECK,
    CONSTANT,
    COST,
    COUNTER,
    DECIMAL,
    DECIMAL_FIXED,
    DEFAULT,
    DEFAULT_END,
    END,
    HEX,
    HIGH,
    JUMP,
    KEEP,
    KEPT,
    LOW,
    MODE,
    NEXT,
    NEXT_ITEM,
    NOTHING,
    NULL,
    NULLABLE,
    OUT_OF_RANGE,
    SIZED,
    SKIP,
    STRIDE,
    SYMBOL,
    TEXT,
    TOO_LARGE,
    TRAILING,
    TRUNCATED,
    UNION,
    UUID_SIZE,
    VARINT,
)
from ottla.kernels.avro.reading import decimal_fits, is_ascii, is_utf8, read_number
from ottla.kernels.avro.skip import read_block, skip


@kernel
def check(
    payloads: Bytes,
    starts: Int64s,
    sizes: Int64s,
    code: Int64s,
    table: Int64s,
    constants: Bytes,
    counters: Int64s,
    saved: Int64s,
    stack: Int64s,
    calls: Int64s,
    faults: Bytes,
    cost: int,
    budget: int,
) -> int:
    """Set the fault of each datum that has one; return what the others cost, and `cost`."""
    work = budget
    for row in range(starts.size):
        if sizes[row] < 0 or faults[row]:
            continue
        for counter in range(counters.size):
            saved[counter] = counters[counter]
        before = cost
        data = payloads
        at = starts[row]
        end = at + sizes[row]
        kept_at = kept_end = i64(0)
        top = 0
        pc = i64(0)
        fault = 0
        while True:
            if code[pc + MODE] == NULLABLE:
                value, at = read_number(data, at, end)
                if at < 0:
                    fault = -at
                    break
                if value == code[pc + NULL]:
                    pc = code[pc + NEXT]
                    continue
                if value != 1 - code[pc + NULL]:
                    fault = BAD_BRANCH
                    break
            op = code[pc + CHECK]
            if op >= VARINT:
                value, at = read_number(data, at, end)
                if at < 0:
                    fault = -at
                    break
                if op == VARINT:
                    if value < code[pc + LOW] or value > code[pc + HIGH]:
                        fault = OUT_OF_RANGE
                        break
                elif op <= DECIMAL:  # TEXT, BINARY
                    if value < 0:
                        fault = BAD_LENGTH
                        break
                    if value > end - at:
                        fault = TRUNCATED
                        break
                    if op == TEXT:
                        if not is_ascii(data, at, value):  # noqa: SIM102
                            if not is_utf8(data, at, value):
                                fault = BAD_UTF8
                                break
                    elif op == DECIMAL:
                        if not decimal_fits(
                            data, at, value, constants, code[pc + BYTES], code[pc + HIGH]
                        ):
                            fault = OUT_OF_RANGE
                            break
                        at += value
                        pc += STRIDE
                        continue
                    at += value
                    counters[code[pc + COUNTER]] += value
                    cost += value
                elif op == SYMBOL:
                    if value < 0 or value >= code[pc + HIGH]:
                        fault = BAD_ENUM
                        break
                    place = code[pc + LOW] + 2 * value
                    if table[place] < 0:
                        fault = BAD_ENUM
                        break
                    counters[code[pc + COUNTER]] += table[place + 1]
                    cost += table[place + 1]
                elif op == UNION:
                    if value < 0 or value >= code[pc + HIGH]:
                        fault = BAD_BRANCH
                        break
                    pc = table[code[pc + LOW] + value]
                    if pc < 0:
                        fault = BAD_BRANCH
                        break
                    continue
                else:  # LIST
                    if value == 0:
                        pc = code[pc + NEXT]
                        continue
                    value, at = read_block(data, at, end, value, code[pc + LOW])
                    if at < 0:
                        fault = -at
                        break
                    if value > budget - cost or (value > work and not code[pc + LOW]):
                        fault = TOO_LARGE
                        break
                    if not code[pc + LOW]:
                        work -= value
                    cost += value * code[pc + COST]
                    if cost > budget:
                        fault = TOO_LARGE
                        break
                    counters[code[pc + COUNTER]] += value
                    if code[pc + STRIDE + CHECK] != NEXT_ITEM:
                        stack[top] = pc
                        stack[top + 1] = value
                        top += 2
                        pc += STRIDE
                    continue
                pc += STRIDE
            elif op == SIZED:
                if code[pc + LOW] > end - at:
                    fault = TRUNCATED
                    break
                at += code[pc + LOW]
                pc += STRIDE
            elif op == BOOLEAN:
                if at >= end:
                    fault = TRUNCATED
                    break
                if data[at] > 1:
                    fault = OUT_OF_RANGE
                    break
                at += 1
                pc += STRIDE
            elif op == NOTHING:
                pc += STRIDE
            elif op == NEXT_ITEM:
                stack[top - 1] -= 1
                pc = stack[top - 2]
                if stack[top - 1] > 0:
                    pc += STRIDE
                else:
                    top -= 2
            elif op == END:
                if at != end:
                    fault = TRAILING
                elif cost > budget:
                    fault = TOO_LARGE
                break
            elif op == JUMP:
                pc = code[pc + NEXT]
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
            elif op == SKIP or op == KEEP:
                start = at
                at = skip(data, at, end, code, code[pc + LOW], table, calls)
                if at < 0:
                    fault = -at
                    break
                if op == KEEP:
                    counters[code[pc + COUNTER]] += KEPT + at - start
                    cost += KEPT + at - start
                pc += STRIDE
            elif op == CONSTANT:
                counters[code[pc + COUNTER]] += code[pc + HIGH]
                cost += code[pc + HIGH]
                pc += STRIDE
            elif op == HEX:
                if end - at < 16:
                    fault = TRUNCATED
                    break
                at += 16
                counters[code[pc + COUNTER]] += UUID_SIZE
                cost += UUID_SIZE
                pc += STRIDE
            elif op == DECIMAL_FIXED:
                if code[pc + LOW] > end - at:
                    fault = TRUNCATED
                    break
                if not decimal_fits(
                    data, at, code[pc + LOW], constants, code[pc + BYTES], code[pc + HIGH]
                ):
                    fault = OUT_OF_RANGE
                    break
                at += code[pc + LOW]
                pc += STRIDE
            else:  # FAIL
                fault = BAD_BRANCH
                break
        if fault:
            faults[row] = fault
            for counter in range(counters.size):
                counters[counter] = saved[counter]
            cost = before
    return cost
