"""CRCs of spans that overlap, against those of each span by itself."""

import random
import zlib

import numpy as np
import pytest
from numba import njit

from naive import crc32c
from ottla.format.arrays import Bytes
from ottla.kernels.bytes import crc_spans
from ottla.kernels.bytes.crc_spans import CRC32, CRC32C, STEP, Noted, note_registers

SIZE = 20_000
LONGEST = 3000


@njit
def span_crc(
    which: int, data: Bytes, origin: int, start: int, stop: int, noted: Noted
) -> tuple[int, int]:
    return crc_spans.span_crc(which, data, origin, start, stop, noted)


@pytest.mark.parametrize("seed", range(5))
def test_a_span_has_the_crc_that_it_has_alone(seed: int) -> None:
    chooser = random.Random(seed)
    data = chooser.randbytes(SIZE)
    array = np.frombuffer(data + bytes(64), dtype=np.uint8)
    noted = note_registers(LONGEST)
    at = 0
    while at < SIZE - LONGEST:
        at += chooser.choice((0, 1, 5, 61, STEP, 300, 2 * LONGEST))
        stop = min(SIZE, at + chooser.choice((0, 1, STEP - 1, STEP, STEP + 1, 500, LONGEST)))
        if at >= stop:
            continue
        origin = max(0, at - STEP)  # what is before need not be held
        held = array[origin:]
        for which, crc in ((CRC32C, crc32c), (CRC32, zlib.crc32)):
            found, _ = span_crc(which, held, origin, at - origin, stop - origin, noted)
            assert found == crc(data[at:stop])


@pytest.mark.parametrize("which", [CRC32C, CRC32])
def test_the_bytes_of_long_spans_are_summed_once(which: int) -> None:
    data = np.zeros(SIZE + 64, dtype=np.uint8)
    noted = note_registers(SIZE)
    starts = range(0, SIZE // 2, 61)
    summed = sum(span_crc(which, data, 0, start, SIZE, noted)[1] for start in starts)
    assert summed <= SIZE + 2 * STEP * len(starts)
