"""Put the rows of a report and all that shows them into one file."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

# What each place of the template holds; the libraries come under the licences beside them.
_PLACES: Final = {
    "/*STYLE*/": ("page.css",),
    "/*LIBRARIES*/": ("vendor/d3.min.js", "vendor/plot.umd.min.js"),
    "/*PAGE*/": ("format.js", "table.js", "plots.js", "page.js"),
}
_ROWS: Final = "/*ROWS*/"


def render_page(rows: Sequence[dict[str, Any]]) -> str:
    """The page; what topics are called can not leave the script that holds it."""
    text = _read("template.html")
    for place, names in _PLACES.items():
        text = text.replace(place, "\n".join(map(_read, names)))
    data = json.dumps(rows, ensure_ascii=False, separators=(",", ":"), default=int)
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return text.replace(_ROWS, data)


def _read(name: str) -> str:
    return files("ottla.html").joinpath(name).read_text(encoding="utf-8")
