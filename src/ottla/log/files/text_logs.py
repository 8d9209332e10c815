"""Text logs that are taken for segments: the broker's own `server.log` is the usual one."""

from typing import Final

import numpy as np

from ottla.errors import OptionError
from ottla.storage.files import Entry, File, Path, open_file
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions

_HEAD: Final = 4096
# Colours of a terminal too. A batch has zeros in its first eight bytes, up to offset 2^56.
_NOT_IN_TEXT: Final = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))


def is_text(head: bytes) -> bool:
    r"""Whether bytes are lines of text.

    >>> is_text(b"[2024-04-24 10:00:00] INFO started\n"), is_text(b"\0\0\0\0\0\0\0\0")
    (True, False)
    """
    return b"\n" in head and head.translate(None, delete=_NOT_IN_TEXT) == head


def is_text_log(source: Path | Entry, options: StorageOptions = DEFAULT_OPTIONS) -> bool:
    """Whether a file begins with text where a segment has a batch."""
    with open_file(source, options) as file:
        return is_text(_head(file))


def refuse_text(file: File) -> None:
    """Refuse a file that no broker wrote as a segment, before all of it is called damage."""
    if is_text(_head(file)):
        raise OptionError(
            f"{file.path}: a text log, not a segment of Kafka: segments are named like"
            " 00000000000000000000.log and lie in folders such as orders-0 of a broker's log.dirs"
        )


def _head(file: File) -> bytes:
    buffer = np.empty(min(file.size, _HEAD), dtype=np.uint8)
    return buffer[: file.read_into(buffer, 0, buffer.size)].tobytes()
