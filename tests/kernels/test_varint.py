"""Varints against bytes worked out by hand from the zigzag definition (kafka ByteUtilsTest)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from builders import varint
from ottla.format.arrays import Bytes
from ottla.kernels.bytes import varint as inlined
from ottla.kernels.status import RECORD_TRUNCATED, VARINT_TOO_LONG
from ottla.region import padded

VARINTS = [
    pytest.param(0, b"\x00", id="zero"),
    pytest.param(-1, b"\x01", id="minus-one"),
    pytest.param(1, b"\x02", id="one"),
    pytest.param(63, b"\x7e", id="largest-of-one-byte"),
    pytest.param(-64, b"\x7f", id="smallest-of-one-byte"),
    pytest.param(64, b"\x80\x01", id="two-bytes"),
    pytest.param(-65, b"\x81\x01", id="two-bytes-negative"),
    pytest.param(8191, b"\xfe\x7f", id="largest-of-two-bytes"),
    pytest.param(8192, b"\x80\x80\x01", id="three-bytes"),
    pytest.param(-(2**31), b"\xff\xff\xff\xff\x0f", id="int-min"),
    pytest.param(2**31 - 1, b"\xfe\xff\xff\xff\x0f", id="int-max"),
]
VARLONGS = [
    *VARINTS,
    pytest.param(2**62 - 1, b"\xfe" + b"\xff" * 7 + b"\x7f", id="largest-of-nine-bytes"),
    pytest.param(2**63 - 1, b"\xfe" + b"\xff" * 8 + b"\x01", id="long-max"),
    pytest.param(-(2**63), b"\xff" * 9 + b"\x01", id="long-min"),
]


@njit
def read_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    return inlined.read_varint(data, at, end)


@njit
def read_varlong(data: Bytes, at: int, end: int) -> tuple[int, int]:
    return inlined.read_varlong(data, at, end)


@pytest.mark.parametrize(("value", "data"), VARINTS)
def test_a_varint_is_read(value: int, data: bytes) -> None:
    assert read_varint(padded(data), 0, len(data)) == (value, len(data))


@pytest.mark.parametrize(("value", "data"), VARLONGS)
def test_a_varlong_is_read(value: int, data: bytes) -> None:
    assert read_varlong(padded(data), 0, len(data)) == (value, len(data))


@pytest.mark.parametrize(("value", "data"), VARLONGS)
def test_every_proper_prefix_is_truncated(value: int, data: bytes) -> None:
    for size in range(len(data)):
        assert read_varlong(padded(data), 0, size)[1] == -RECORD_TRUNCATED


def test_a_varint_of_six_bytes_is_too_long() -> None:
    assert read_varint(padded(b"\xff" * 5 + b"\x01"), 0, 6)[1] == -VARINT_TOO_LONG


def test_a_varlong_of_eleven_bytes_is_too_long() -> None:
    assert read_varlong(padded(b"\xff" * 10 + b"\x01"), 0, 11)[1] == -VARINT_TOO_LONG


def test_an_encoding_longer_than_needed_is_accepted() -> None:
    assert read_varint(padded(b"\x82\x80\x00"), 0, 3) == (1, 3)


def test_bits_beyond_the_width_are_dropped() -> None:
    assert read_varint(padded(b"\x80\x80\x80\x80\x70"), 0, 5) == (0, 5)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varlong_is_what_the_naive_writer_wrote(value: int) -> None:
    data = varint(value)
    assert read_varlong(padded(data), 0, len(data)) == (value, len(data))
