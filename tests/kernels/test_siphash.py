"""The kernel's SipHash is the authors'."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernels.text.encodings import DIGEST_ROOM, digest_text
from ottla.region import padded
from siphash import siphash_24

# Of the bytes 0, 1, 2, ... by the key 00 01 .. 0f: the table of the reference implementation, and
# at 15 bytes the example of the paper's appendix.
KNOWN = {
    0: 0x726FDB47DD0E0E31,
    1: 0x74F839C593DC67FD,
    2: 0x0D6C8009D9A94F5A,
    8: 0x93F5F5799A932462,
    15: 0xA129CA6149BE45E5,
}
KEY = bytes(range(16))


def hashed(key: bytes, data: bytes) -> int:
    """What the kernel shows for a value that other bytes stand around."""
    out = np.zeros(DIGEST_ROOM + 64, dtype=np.uint8)
    bounds = np.zeros(2, dtype=np.int32)
    around = padded(b"\xff" * 3 + data + b"\xff" * 9)
    words = np.frombuffer(key, dtype=np.uint64).copy()
    digest_text(words, out, bounds, around, np.array([3, 3 + len(data)], dtype=np.int32), 1)
    shown = out[: bounds[1]].tobytes().decode()
    size, _, _, digits = shown.strip("()").split()
    assert int(size) == len(data)
    return int(digits, 16)


@pytest.mark.parametrize("size", KNOWN)
def test_the_hash_is_that_of_the_authors(size: int) -> None:
    data = bytes(range(size))
    first, second = (int.from_bytes(KEY[at : at + 8], "little") for at in (0, 8))
    assert hashed(KEY, data) == siphash_24(first, second, data) == KNOWN[size]


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=300))
def test_the_hash_is_that_of_the_paper(key: bytes, data: bytes) -> None:
    first, second = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    assert hashed(key, data) == siphash_24(first, second, data)
