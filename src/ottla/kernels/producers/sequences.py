"""Sequences count up to 2147483647 and then from 0.

Java computes them in ints, and a damaged delta overflows on the way: so must we.
"""

from ottla.format.arrays import Int64s
from ottla.format.sentinels import MAX_SEQUENCE, NO_SEQUENCE
from ottla.kernels._jit import i64, inlined, kernel


@inlined
def as_int32(value: int) -> int:
    """What Java's int arithmetic leaves of a sum."""
    low = value & i64(0xFFFFFFFF)
    return low - ((low & i64(0x80000000)) << i64(1))


@inlined
def add_sequence(base: int, increment: int) -> int:
    """DefaultRecordBatch.incrementSequence: after 2147483647 comes 0."""
    if base > as_int32(MAX_SEQUENCE - increment):
        return as_int32(increment - as_int32(MAX_SEQUENCE - base) - 1)
    return as_int32(base + increment)


@inlined
def record_sequence(base: int, delta: int) -> int:
    """That of a record so many offsets after the first of its batch, if that has one."""
    return add_sequence(base, delta) if base >= 0 else i64(NO_SEQUENCE)


@inlined
def subtract_sequence(last: int, decrement: int) -> int:
    """DefaultRecordBatch.decrementSequence: before 0 comes 2147483647."""
    if last < decrement:
        return as_int32(MAX_SEQUENCE - as_int32(decrement - last) + 1)
    return as_int32(last - decrement)


@kernel
def add_sequences(base: Int64s, increment: Int64s, sequences: Int64s) -> None:
    """Fill `sequences` with those after `base`, row by row."""
    for row in range(sequences.size):
        sequences[row] = add_sequence(base[row], increment[row])
