"""Characters are those that Python itself would write."""

import base64
import json
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from ottla.kernels.bytes.memory import WIDE
from ottla.kernels.text import characters
from ottla.kernels.text.characters import ESCAPED_ROOM
from ottla.region import Bytes, padded

Put = Callable[[Bytes, int, Bytes, int, int], int]


@njit
def put_int(out: Bytes, at: int, value: np.int64) -> int:
    return characters.put_int(out, at, value)


@njit
def put_base64(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    return characters.put_base64(out, at, data, start, stop)


@njit
def put_json_text(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    return characters.put_json_text(out, at, data, start, stop)


@njit
def put_readable(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    return characters.put_readable(out, at, data, start, stop)


INT64 = st.integers(-(2**63), 2**63 - 1)


def written(put: Put, data: bytes, before: int) -> bytes:
    """What is put after `before` other bytes, from a source that has other bytes around it."""
    out = np.zeros(before + ESCAPED_ROOM * len(data) + WIDE, dtype=np.uint8)
    source = padded(b"\xff\xff\xff" + data + b"\xff\xff\xff")
    end = put(out, before, source, 3, 3 + len(data))
    assert not out[:before].any()
    return out[before:end].tobytes()


@given(INT64 | st.integers(0, 64).map(lambda power: min(2**power, 2**63 - 1)))
def test_a_number_is_decimal(value: int) -> None:
    out = np.zeros(20 + WIDE, dtype=np.uint8)
    end = put_int(out, 0, np.int64(value))
    assert out[:end].tobytes() == str(value).encode()


@pytest.mark.parametrize("digits", range(1, 19))
@pytest.mark.parametrize("near", [-1, 0, 1])
def test_a_number_has_as_many_digits_as_it_needs(digits: int, near: int) -> None:
    out = np.zeros(20 + WIDE, dtype=np.uint8)
    for value in (10**digits + near, -(10**digits) - near):
        end = put_int(out, 0, np.int64(value))
        assert out[:end].tobytes() == str(value).encode()


@given(st.binary(max_size=60), st.integers(0, 9))
def test_bytes_are_padded_base64(data: bytes, before: int) -> None:
    assert written(put_base64, data, before) == base64.b64encode(data)


@given(st.text(max_size=30), st.integers(0, 9))
def test_text_is_escaped_as_in_json(text: str, before: int) -> None:
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    expected = re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", plain)
    assert written(put_json_text, text.encode(), before) == expected.encode()


def readable(data: bytes) -> str:
    """Printable characters of valid UTF-8, one at a time; every other byte as an escape."""
    out = ""
    while data:
        for size in range(1, 5):
            try:
                character = data[:size].decode()
            except UnicodeDecodeError:
                continue
            if len(character) == 1 and not 0x7F <= ord(character) < 0xA0 and character >= " ":
                break
        else:
            size, character = 1, {9: r"\t", 10: r"\n", 13: r"\r"}.get(data[0], f"\\x{data[0]:02x}")
        out += character
        data = data[size:]
    return out


@given(
    st.one_of(
        st.binary(max_size=30),
        st.text(max_size=20).map(str.encode),
        st.lists(
            st.sampled_from([b"plain text" * 4, b"\x1b", b"\x7f", b"\xc2\x9b", b"\xe6\x9d"])
        ).map(b"".join),
    ),
    st.integers(0, 9),
)
def test_bytes_are_readable_text_on_one_line(data: bytes, before: int) -> None:
    assert written(put_readable, data, before).decode() == readable(data)
