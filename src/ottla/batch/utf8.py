"""Bytes to text exactly as Java's `new String(bytes, UTF_8)`, which never fails.

Python's "replace" agrees except for what looks like a surrogate: Java replaces its two or three
bytes by one mark, Python by one each.
"""

import codecs

_MARK = "\ufffd"
JAVA_ERRORS = "ottla-java-utf8"  # for `bytes.decode`


def java_utf8(data: bytes) -> str:
    """Decode, one replacement mark for each malformed piece as Java cuts them.

    >>> java_utf8(b"a\\xffb"), java_utf8(b"\\xed\\xa0\\x80")
    ('a\\ufffdb', '\\ufffd')
    """
    return data.decode("utf-8", JAVA_ERRORS)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _MARK, error.start + _malformed_size(error.object, error.start, error.end)


def _malformed_size(data: bytes, start: int, end: int) -> int:
    piece = data[start : start + 3]
    if len(piece) > 1 and piece[0] == 0xED and 0xA0 <= piece[1] <= 0xBF:
        return 3 if len(piece) == 3 and 0x80 <= piece[2] <= 0xBF else 2
    return end - start


codecs.register_error(JAVA_ERRORS, _replace)
