"""The files that a commit adds to a table, and what their footers say of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from ottla.publish.checked import StagedFile
from ottla.storage.object_store import StorageOptions, connect
from ottla.storage.paths import is_remote, join, local_path


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
    if not is_remote(path):
        return pq.read_metadata(local_path(path))
    system, key = connect(path, storage)
    return pq.read_metadata(key, filesystem=system)


def _bounds(footer: Any, path: str) -> tuple[int, int] | None:
    """Over all row groups; None where a file has no such column."""
    least, greatest = [], []
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema == path and column.is_stats_set:
                least.append(column.statistics.min_raw)
                greatest.append(column.statistics.max_raw)
    return (min(least), max(greatest)) if least else None
