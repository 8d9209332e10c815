"""Examples in docstrings as code: what begins with `>>>` would be a quotation to Markdown."""

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^>>> (?:.*\n?)+?(?=\n\n|\Z)", re.MULTILINE)


class ShowExamples(Extension):
    """Fences around doctests, and around blocks that are indented."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Called for everything that has a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(
                lambda found: f"```pycon\n{found[0].rstrip()}\n```", obj.docstring.value
            )
