"""What is said on stderr while people wait, unless they asked for quiet."""

import sys
import time

_MOMENT = 1.0  # seconds that need no explanation
_OFTEN = 10.0  # seconds in which nobody wants to read the same again


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


class StoreTrouble:
    """Says that an object store is waited for, and why, every few seconds at most."""

    def __init__(self) -> None:
        self.quiet = False
        self._told_at: float | None = None

    def tell(self, waited: float, what: str, why: str) -> None:
        """Called before a request is sent again, `waited` seconds after it was sent first."""
        now = time.monotonic()
        if waited < _MOMENT or self.quiet:
            return
        if self._told_at is not None and now - self._told_at < _OFTEN:
            return
        self._told_at = now
        line = " ".join(f"ottla: waiting for a store: {what}: {why}".split())
        sys.stderr.write(f"{line if line.isprintable() else ascii(line)}\n")
        sys.stderr.flush()


STORE_TROUBLE = StoreTrouble()
