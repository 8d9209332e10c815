"""Put the rows of a report and all that shows them into one file."""

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any, Final

from ottla.format.magic import CURRENT_MAGIC

# What each place of the template holds.
_PLACES: Final = {
    "/*STYLE*/": ("page.css",),
    "/*PAGE*/": ("format.js", "table.js", "plots.js", "page.js"),
}
_ROWS: Final = "/*ROWS*/"
_COLOURS: Final = 8  # of the timeline

_Row = dict[str, Any]


def render_page(rows: Sequence[_Row]) -> str:
    """The page. What it shows is packed, so that hundreds of partitions stay small and quick.

    So packed, nothing that topics are called can leave the script that holds it.
    """
    text = _read("template.html")
    for place, names in _PLACES.items():
        text = text.replace(place, "\n".join(map(_read, names)))
    data = json.dumps(pack_rows(rows), ensure_ascii=False, separators=(",", ":"), default=int)
    packed = zlib.compress(data.encode("utf-8", "backslashreplace"), 9)
    return text.replace(_ROWS, base64.b64encode(packed).decode())


def _read(name: str) -> str:
    return files("ottla.html").joinpath(name).read_text(encoding="utf-8")


def pack_rows(rows: Sequence[_Row]) -> dict[str, _Row]:
    """Rows by type, as columns; what is the same in all of them is there once.

    >>> pack_rows([{"type": "a", "x": 1, "y": 2}, {"type": "a", "x": 3, "y": 2}])
    {'a': {'count': 2, 'same': {'type': 'a', 'y': 2}, 'columns': {'x': [1, 3]}}}
    """
    types: dict[str, list[_Row]] = {}
    for row in rows:
        types.setdefault(row["type"], []).append(row)
    if "timeline" in types:
        types["timeline"] = list(_join_small_topics(types["timeline"]))
    if "whatIf" in types:
        types["whatIf"] = [_without_repetition(row) for row in types["whatIf"]]
    return {kind: _pack(its) for kind, its in types.items()}


def _pack(rows: Sequence[_Row]) -> _Row:
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    same = {name for name, values in columns.items() if all(each == values[0] for each in values)}
    return {
        "count": len(rows),
        "same": {name: columns[name][0] for name in columns if name in same},
        "columns": {name: values for name, values in columns.items() if name not in same},
    }


def _without_repetition(tried: _Row) -> _Row:
    """Commands are most of what is tried: the page adds the flag of a size to that of none itself,
    and has none for old formats.
    """
    if tried["magic"] == CURRENT_MAGIC and tried["batchBytes"] is None:
        return tried
    return tried | {"command": None}


def _join_small_topics(timeline: Sequence[_Row]) -> Iterator[_Row]:
    """No more topics than people can tell apart by colour: the smallest are one."""
    sizes: Counter[str] = Counter()
    for row in timeline:
        sizes[row["topic"]] += row["bytes"]
    named = {topic for topic, _ in sizes.most_common(_COLOURS - (len(sizes) > _COLOURS))}
    others = {"topic": f"{len(sizes) - len(named)} other topics"}
    rest: Counter[tuple[int, int]] = Counter()
    for row in timeline:
        if row["topic"] in named:
            yield row
        else:
            rest[row["from"], row["to"]] += row["bytes"]
    for (start, stop), size in sorted(rest.items()):
        yield {"type": "timeline", **others, "from": start, "to": stop, "bytes": size}
