"""Bytes to text exactly as Java's `new String(bytes, UTF_8)`, which never fails.

Python's "replace" agrees except for what looks like a surrogate: Java replaces its two or three
bytes by one mark, Python by one each.
"""

_MARK = "\ufffd"


def java_utf8(data: bytes) -> str:
    """Decode, one replacement mark for each malformed piece as Java cuts them.

    >>> java_utf8(b"a\\xffb"), java_utf8(b"\\xed\\xa0\\x80")
    ('a\\ufffdb', '\\ufffd')
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _decode_broken(data)


def _decode_broken(data: bytes) -> str:
    pieces = []
    at = 0
    while at < len(data):
        try:
            pieces.append(data[at:].decode())
            break
        except UnicodeDecodeError as error:
            pieces.append(data[at : at + error.start].decode())
            at += error.start
            pieces.append(_MARK)
            at += _malformed_size(data[at : at + 3], error.end - error.start)
    return "".join(pieces)


def _malformed_size(start: bytes, size: int) -> int:
    if len(start) > 1 and start[0] == 0xED and 0xA0 <= start[1] <= 0xBF:
        return 3 if len(start) == 3 and 0x80 <= start[2] <= 0xBF else 2
    return size
