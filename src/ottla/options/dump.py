"""What is asked of a dump."""

from enum import StrEnum


class Encoding(StrEnum):
    """How keys, values and the values of headers are shown."""

    UTF8 = "utf8"
    BASE64 = "base64"
    HEX = "hex"
