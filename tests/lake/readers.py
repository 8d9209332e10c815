"""Tables as others read them, and what logs hold in the same form."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import polars
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from jobs.topics import Written

FORMATS = ("delta", "iceberg")
Record = tuple[str, int, int, int, Any, Any, Any]


def load_iceberg(path: Path) -> Any:
    with SqlCatalog("ottla", uri=f"sqlite:///{path}/catalog.db") as catalog:
        return catalog.load_table("ottla.records")


def read_table(path: Path, form: str) -> pa.Table:
    """All rows, by the library of the format."""
    if form == "delta":
        return DeltaTable(path).to_pyarrow_table()
    return load_iceberg(path).scan().to_arrow()


def read_polars(path: Path, form: str) -> pa.Table:
    if form == "delta":
        return polars.scan_delta(str(path)).collect().to_arrow()
    # Its own planner is a package of its own, which is as young as this line.
    with mock.patch.dict(os.environ, {"POLARS_ICEBERG_PLANNER": "pyiceberg"}):
        return polars.scan_iceberg(load_iceberg(path)).collect().to_arrow()


READERS: dict[str, Callable[[Path, str], pa.Table]] = {
    "the library": read_table,
    "polars": read_polars,
}


def records_of(table: pa.Table) -> list[Record]:
    """Rows of either layout, in order; a row that is there twice is twice in here."""
    rows = table.to_pylist()
    return sorted(
        (_of_struct(row) if "kafka" in row else _of_columns(row, row) for row in rows),
        key=lambda row: row[:3],
    )


def _of_columns(where: dict[str, Any], row: dict[str, Any]) -> Record:
    headers = row["headers"] and [(each["key"], each["value"]) for each in row["headers"]]
    time = round(where["timestamp"].timestamp() * 1000)
    place = (where["topic"], where["partition"], where["offset"])
    return (*place, time, row["key"], row["value"], headers or None)


def _of_struct(row: dict[str, Any]) -> Record:
    return _of_columns(row["kafka"], row)


def written(topic: Iterable[Written], *, committed: bool = False) -> list[Record]:
    """What was put into logs."""
    return [
        (
            part.topic,
            part.partition,
            row.offset,
            row.timestamp,
            row.key,
            row.value,
            [(key.decode(), value) for key, value in row.headers] or None,
        )
        for part in topic
        for row in (part.committed() if committed else part.rows)
    ]


def orphans(path: Path, form: str) -> set[str]:
    """The data files that lie below a table and that no state of it has."""
    there = {str(file) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts}
    return there - files_of(path, form)


def files_of(path: Path, form: str) -> set[str]:
    """The data files of the table as it is now."""
    if form == "delta":
        return set(DeltaTable(path).file_uris())
    table = load_iceberg(path)
    if table.current_snapshot() is None:
        return set()
    paths = table.inspect.all_data_files()["file_path"].to_pylist()
    return {each.removeprefix("file://") for each in paths}
