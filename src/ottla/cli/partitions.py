"""How rows name partitions to people: the marks of directories, and which log directory it is."""

import posixpath
from collections.abc import Callable, Iterable, Sequence

from ottla.errors import Row
from ottla.format.names import DirectoryState, parse_directory_name
from ottla.log.files.partition import Partition


def name_of(row: Row) -> str:
    """The name of a row's partition, with the mark of its directory; its path if it has none.

    >>> name_of({"topic": "a", "partition": 1, "path": "logs/a-1.0f-future"})
    'a-1 (future)'
    """
    if row["topic"] is None:
        return str(row.get("path") or "-")
    return f"{row['topic']}-{row['partition']}{_state(row).mark}"


def _state(row: Row) -> DirectoryState:
    return parse_directory_name(posixpath.basename(row.get("path", "")))[1]


def directories_of(rows: Iterable[Row]) -> Callable[[Row], str]:
    """What says where a row's partition lies: nothing, unless one is in two log directories."""
    homes: dict[tuple[str, int], str] = {}
    for row in rows:
        if row["topic"] is not None and "path" in row:
            home = _log_directory(row)
            if homes.setdefault((row["topic"], row["partition"]), home) != home:
                return _log_directory
    return _nothing


def titles_of(partitions: Sequence[Partition]) -> dict[str, str]:
    """What partitions are called where there is no column for directories, by their paths."""
    rows = [
        {"topic": each.name.topic, "partition": each.name.partition, "path": each.path}
        for each in partitions
    ]
    directory = directories_of(rows)
    places = [directory(row) if row["topic"] is not None else "" for row in rows]
    return {
        each.path: f"{each.title} in {place}" if place else each.title
        for each, place in zip(partitions, places, strict=True)
    }


def _log_directory(row: Row) -> str:
    return posixpath.dirname(row["path"]) or "."


def _nothing(_: Row) -> str:
    return ""
