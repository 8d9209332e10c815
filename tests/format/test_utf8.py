"""Keys that are not UTF-8 read as Java reads them; the texts are what JDK 17 answered."""

import pytest

from ottla.batch.utf8 import java_utf8

CASES = [
    pytest.param(b"caf\xc3\xa9", "café", id="valid"),
    pytest.param(b"\xff", "\ufffd", id="never-a-byte"),
    pytest.param(b"\xc3", "\ufffd", id="cut-after-one-of-two"),
    pytest.param(b"\xc3A", "\ufffdA", id="second-byte-wrong"),
    pytest.param(b"\xe2\x82", "\ufffd", id="cut-after-two-of-three"),
    pytest.param(b"\xe2\x82A", "\ufffdA", id="third-byte-wrong"),
    pytest.param(b"\xed\xa0\x80", "\ufffd", id="surrogate-is-one-mark"),
    pytest.param(b"\xed\xa0A", "\ufffdA", id="half-a-surrogate"),
    pytest.param(b"\xed\xa0\xed\xa0", "\ufffd\ufffd", id="two-half-surrogates"),
    pytest.param(b"\xf0\x9f\x98\x80", "\U0001f600", id="four-bytes"),
    pytest.param(b"\xf0\x9f\x98", "\ufffd", id="cut-after-three-of-four"),
    pytest.param(b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd", id="beyond-unicode"),
    pytest.param(b"\xc0\x80", "\ufffd\ufffd", id="overlong"),
]


@pytest.mark.parametrize(("data", "text"), CASES)
def test_malformed_bytes_become_marks_as_in_java(data: bytes, text: str) -> None:
    assert java_utf8(data) == text
