"""Bytes that are made to cost a search much: what looks like batches and is not, and the reverse.

Each function gives about `size` bytes of one segment.
"""

import random
import struct
from collections.abc import Callable

import builders
from builders import Row

Shape = Callable[[int], bytes]

WHOLE = builders.batch([Row(7, 1, None, b"whole")])


def v2_front(size: int, offset: int = 0) -> bytes:
    """The fixed part of a batch that claims `size` bytes, with a CRC that can not match."""
    front = struct.pack(">qiibI", offset, size - 12, 0, 2, 0xDEAD)
    return front + struct.pack(">Hiqqqhii", 0, 5, 1, 1, -1, -1, -1, 0)


def v1_front(size: int, offset: int = 0) -> bytes:
    """The same of a message without a key, up to its value."""
    front = struct.pack(">qiIbBq", offset, size - 12, 0xDEAD, 1, 0, 5)
    return front + struct.pack(">ii", -1, size - 34)


def fronts(size: int, front: Callable[[int], bytes], reach: int) -> bytes:
    """Fixed parts one after another; each claims a `reach`th of all, or what is left."""
    step = len(front(100))
    return b"".join(
        front(min(size // reach, size - at)) for at in range(0, size - 2 * step, step)
    ).ljust(size, b"\xff")


def v2_fronts(size: int) -> bytes:
    return fronts(size, v2_front, 2)


def v2_fronts_to_the_end(size: int) -> bytes:
    return fronts(size, v2_front, 1)


def v1_fronts(size: int) -> bytes:
    return fronts(size, v1_front, 2)


def mixed_fronts(size: int) -> bytes:
    """Claims of all lengths, in both formats."""
    chooser = random.Random(size)
    data = bytearray()
    while len(data) < size - 200:
        front = chooser.choice((v2_front, v1_front))
        data += front(chooser.randrange(100, size - len(data)))
    return bytes(data)


def broken_holder(size: int) -> bytes:
    """A broken batch full of whole ones that do not lead to its end, and a whole one behind it."""
    inner = WHOLE * ((size - 200) // len(WHOLE)) + b"x"
    return v2_front(61 + len(inner)) + inner + WHOLE


def nested_holders(size: int) -> bytes:
    """Broken batches in each other that end in different places.

    Each holds a whole batch that leads to its end, and before that one that does not: its frames
    are the same long tail for all.
    """
    unit = 2 * len(WHOLE) + 122
    depth = size // 2 // unit
    tail = v2_front(61) * (size // 2 // 61) + b"x"
    inside = depth * unit
    levels = []
    for level in range(depth):
        at = level * unit
        fence = inside + len(tail) + 61 * (depth - level)
        into_tail = v2_front(inside - (at + 61 + len(WHOLE)))
        levels.append(v2_front(fence - at) + WHOLE + into_tail + WHOLE)
    return b"".join(levels) + tail + v2_front(61) * (depth + 2) + WHOLE


def values_without_end(size: int) -> bytes:
    """Whole batches behind a length that reaches far, with many frames that lead nowhere."""
    run = struct.pack(">i", size // 2) + WHOLE + v2_front(61) * 200 + b"x"
    return run * (size // len(run))


def one_value(size: int) -> bytes:
    """One whole batch behind a length that reaches to the end, along frames that all make sense."""
    frames = WHOLE + v2_front(61) * (size // 61)
    return b"garbage" + struct.pack(">i", len(frames) + 50) + frames + b"x" * 99


SHAPES = [
    v2_fronts,
    v2_fronts_to_the_end,
    v1_fronts,
    mixed_fronts,
    broken_holder,
    nested_holders,
    values_without_end,
    one_value,
]
