"""Run a command in this process and keep what it printed."""

import contextlib
import io
import sys
from typing import Any, NamedTuple

from corpus import read_lines
from ottla.cli import main


class Ran(NamedTuple):
    status: int
    out: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return read_lines(self.out.encode())

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] == kind]


def run_json(command: str, *arguments: object) -> Ran:
    """Run a command for its JSON lines."""
    return run(command, "--json", *arguments)


def run(*arguments: object) -> Ran:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out):
        status = main([str(argument) for argument in arguments])
        sys.stdout.flush()
    return Ran(status, out.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
