"""Whole commands in this process, those of jobs too: small work needs no Spark."""

import contextlib
import io
from typing import NamedTuple

from ottla.cli import main


class Ran(NamedTuple):
    status: int
    out: str
    err: str


def run(*words: object) -> Ran:
    """What a command returns and prints; `main` raises SystemExit for flags it does not know."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(word) for word in words])
        except SystemExit as stop:
            status = int(stop.code or 0)
        out.flush()
        err.flush()
    return Ran(status, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "surrogateescape")
