"""Checksums against published check values, zlib and the naive table of `naive.py`."""

import zlib

import numpy as np
import pytest
from numba import njit

from naive import crc32c as naive_crc32c
from ottla.format.arrays import Bytes
from ottla.kernels.bytes import crc
from ottla.kernels.bytes.crc import crc32c, crc32c_by_tables
from ottla.region import padded

# The last sizes reach the three interleaved streams of 256 and of 2048 bytes.
SIZES = [0, 1, 7, 8, 9, 61, 767, 768, 769, 6143, 6144, 6145, 7000, 20000]
RANDOM = np.random.default_rng(7).bytes(20003)


@njit
def crc32(data: Bytes, start: int, stop: int) -> int:
    return crc.crc32(data, start, stop)


def test_the_check_values_of_the_published_polynomials() -> None:
    digits = padded(b"123456789")
    assert crc32c(digits, 0, 9) == 0xE3069283
    assert crc32c_by_tables(digits, 0, 9) == 0xE3069283
    assert crc32(digits, 0, 9) == 0xCBF43926


@pytest.mark.parametrize("size", SIZES)
def test_crc32_is_that_of_zlib(size: int) -> None:
    assert crc32(padded(RANDOM), 3, 3 + size) == zlib.crc32(RANDOM[3 : 3 + size])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", [crc32c, crc32c_by_tables])
def test_crc32c_is_that_of_the_naive_table(function: object, size: int) -> None:
    assert function(padded(RANDOM), 3, 3 + size) == naive_crc32c(RANDOM[3 : 3 + size])  # type: ignore[operator]
