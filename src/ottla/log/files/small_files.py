"""Read the files beside a log whole, as a broker does; one that no broker wrote is not held.

A broker writes indexes of up to `segment.index.bytes` (10 MiB unless told otherwise), of which all
but the entries are zeros, and keeps snapshots and checkpoints in its memory: LIMIT has room for 4
million entries of an index, one for every 512 bytes of the largest segment, or 700,000 producers.
"""

from typing import Final

import numpy as np

from ottla.errors import CorruptLogError, Rule, Violation
from ottla.format.sentinels import INT32_MAX
from ottla.storage.files import File, open_current
from ottla.storage.listing import Entry
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage.paths import Path

LIMIT: Final = 32 << 20
_ENTRY_MULTIPLE: Final = 24  # of the 8 bytes of an offset entry and the 12 of a time entry
_WINDOW: Final = _ENTRY_MULTIPLE << 15


def read_small(
    source: Path | Entry, options: StorageOptions = DEFAULT_OPTIONS, limit: int | None = None
) -> bytes:
    """The whole of a snapshot, a checkpoint or a file of names; more than `limit` is damage."""
    most = LIMIT if limit is None else limit
    with open_current(source, options) as file:
        if file.size > most:
            raise _too_large(file, most)
        return file.read()


def read_preallocated(source: Path | Entry, options: StorageOptions = DEFAULT_OPTIONS) -> bytes:
    """The whole of an index; of a large one all but the zeros at its end, whole entries of them.

    A broker maps what `segment.index.bytes` says, a number of 32 bits.
    """
    with open_current(source, options) as file:
        if file.size > INT32_MAX:
            raise _too_large(file, INT32_MAX)
        return file.read() if file.size <= LIMIT else _without_zeros(file)


def _without_zeros(file: File) -> bytes:
    held, zeros = bytearray(), 0
    window = np.empty(_WINDOW, dtype=np.uint8)
    for position in range(0, file.size, _WINDOW):
        data = window[: file.read_into(window, position, _WINDOW)]
        if not data.any():
            zeros += data.size
            continue
        if len(held) + zeros + data.size > LIMIT:
            raise _too_large(file, LIMIT)
        held += bytes(zeros) + data.tobytes()
        zeros = 0
    return bytes(held) + bytes(zeros % _ENTRY_MULTIPLE)


def _too_large(file: File, most: int) -> CorruptLogError:
    return CorruptLogError(
        Violation(
            Rule.SIDE_FILE_SIZE,
            "larger than any that is written: not read",
            file.path,
            position=0,
            size=file.size,
            found=str(file.size),
            expected=f"at most {most}",
        )
    )
