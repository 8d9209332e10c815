"""Records from Python objects: for the few that a program makes itself, such as control records."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.kernels.tables import RecordBuffers
from ottla.region import Bytes


class NewRecord(NamedTuple):
    """One record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


def pack_rows(rows: Sequence[NewRecord]) -> RecordBuffers:
    """Rows as columns, in Arrow's layout.

    >>> pack_rows([NewRecord(7, -1, None, b"abc")]).value_bounds.tolist()
    [0, 3]
    """
    headers = [header for row in rows for header in row.headers]
    key_bounds, key_bytes, key_valid = _pack([row.key for row in rows])
    value_bounds, value_bytes, value_valid = _pack([row.value for row in rows])
    header_key_bounds, header_key_bytes, _ = _pack([key for key, _ in headers])
    header_value_bounds, header_value_bytes, header_value_valid = _pack(
        [value for _, value in headers]
    )
    return RecordBuffers(
        offset=np.array([row.offset for row in rows], dtype=np.int64),
        timestamp=np.array([row.timestamp for row in rows], dtype=np.int64),
        index=np.arange(len(rows), dtype=np.int64),
        key_bounds=key_bounds,
        key_bytes=key_bytes,
        key_valid=key_valid,
        value_bounds=value_bounds,
        value_bytes=value_bytes,
        value_valid=value_valid,
        header_bounds=_bounds([len(row.headers) for row in rows]),
        header_key_bounds=header_key_bounds,
        header_key_bytes=header_key_bytes,
        header_value_bounds=header_value_bounds,
        header_value_bytes=header_value_bytes,
        header_value_valid=header_value_valid,
    )


def frozen(records: RecordBuffers) -> RecordBuffers:
    """The same records, read-only: kernels are compiled anew for arrays that may be written."""
    views: list[Any] = [column.view() for column in records]
    for view in views:
        view.flags.writeable = False
    return RecordBuffers(*views)


def _pack(values: Sequence[bytes | None]) -> tuple[npt.NDArray[np.int32], Bytes, Bytes]:
    """Bounds, bytes and validity bits."""
    present = np.array([value is not None for value in values], dtype=np.bool_)
    data = np.frombuffer(b"".join(value or b"" for value in values), dtype=np.uint8)
    bounds = _bounds([len(value or b"") for value in values])
    return bounds, data, np.packbits(present, bitorder="little")


def _bounds(sizes: Sequence[int]) -> npt.NDArray[np.int32]:
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int32)
