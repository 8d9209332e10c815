"""The files that a commit adds to a table, and what their footers say of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ottla.publish.checked import StagedFile
from ottla.region import Bytes
from ottla.storage.files import File, open_file
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import join

_LIKELY: Final = 64 << 10  # what one request fetches anyway; few footers are larger
_END: Final = 8  # the size of the footer in 4 bytes, and PAR1


class MeasuredFile(NamedTuple):
    """A file at its place below the table; `bounds` are the least and the greatest value of some
    columns, by the names of these: times in microseconds.
    """

    target: str
    size: int
    rows: int
    bounds: Mapping[str, tuple[int, int]]


def measure_files(
    location: str,
    files: Iterable[StagedFile],
    columns: Mapping[str, str],
    storage: StorageOptions,
) -> Iterator[MeasuredFile]:
    """Files with their statistics; `columns` are the paths in Parquet by their names."""
    for file in files:
        footer = _read_footer(join(location, file.target), storage)
        bounds = {name: found for name, path in columns.items() if (found := _bounds(footer, path))}
        yield MeasuredFile(file.target, file.size, footer.num_rows, bounds)


def _read_footer(path: str, storage: StorageOptions) -> Any:
    with open_file(path, storage) as file:  # Arrow would send no request again
        tail = _read_tail(file, _LIKELY)
        size = int.from_bytes(tail[-_END:-4].tobytes(), "little") + _END
        if size > tail.size:
            tail = _read_tail(file, size)
    return pq.read_metadata(pa.BufferReader(tail))


def _read_tail(file: File, size: int) -> Bytes:
    tail = np.empty(min(size, file.size), dtype=np.uint8)
    file.fill(tail, file.size - tail.size, tail.size)
    return tail


def _bounds(footer: Any, path: str) -> tuple[int, int] | None:
    """Over all row groups; None where a file has no such column."""
    least, greatest = [], []
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema == path and column.is_stats_set:
                least.append(column.statistics.min_raw)
                greatest.append(column.statistics.max_raw)
    return (min(least), max(greatest)) if least else None
