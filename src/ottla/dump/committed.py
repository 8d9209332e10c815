"""Committed offsets beside the logs that they are about."""

from ottla.catalog.catalog import Catalog
from ottla.catalog.positions import find_log_end
from ottla.errors import Row


def with_lag(rows: list[Row], catalog: Catalog) -> list[Row]:
    """Add the log end of each partition whose log is here; of several replicas the furthest."""
    wanted = {(row["topic"], row["partition"]) for row in rows}
    ends: dict[tuple[str, int], int] = {}
    for partition in catalog.partitions:
        name = partition.name
        if name in wanted and partition.segments:
            end = find_log_end(partition, catalog.storage)
            ends[name] = max(end, ends.get(name, 0))
    return [row | _lag(row["offset"], ends.get((row["topic"], row["partition"]))) for row in rows]


def _lag(offset: int, end: int | None) -> Row:
    return {"logEndOffset": end, "lag": None if end is None else end - offset}
