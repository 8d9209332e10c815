"""What is said on stderr while people wait, unless they asked for quiet."""

import sys
import time

_MOMENT = 1.0  # seconds that need no explanation


class Compiling:
    """Says once that kernels compile, as soon as that has taken more than a moment."""

    def __init__(self) -> None:
        self.quiet = False
        self._begun: float | None = None
        self._told = False

    def go_on(self) -> None:
        """Called whenever a function begins or ends to compile."""
        now = time.monotonic()
        if self._begun is None:
            self._begun = now
        if now - self._begun < _MOMENT or self._told or self.quiet:
            return
        self._told = True
        sys.stderr.write("ottla: compiling kernels for this machine, once\n")
        sys.stderr.flush()


COMPILING = Compiling()
