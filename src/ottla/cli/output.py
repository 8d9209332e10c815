"""What commands have in common about output: its format, its bytes. Data goes to stdout only."""

import argparse
import json
import sys
from enum import StrEnum
from typing import Any


class Format(StrEnum):
    """How data is printed."""

    TEXT = "text"
    JSONL = "jsonl"


def default_format() -> Format:
    """Text for people, JSON lines for programs."""
    return Format.TEXT if sys.stdout.isatty() else Format.JSONL


def add_format(parser: argparse.ArgumentParser) -> None:
    """The flag `--format`, with the same meaning everywhere."""
    parser.add_argument(
        "--format",
        choices=[*Format],
        type=Format,
        default=default_format(),
        help="default: text on a terminal, jsonl otherwise",
    )


def json_text(value: Any) -> str:
    """Compact JSON; characters stay themselves."""
    # Interpreted kernels (NUMBA_DISABLE_JIT) give NumPy's integers, which JSON does not know.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=int)


def json_line(value: Any) -> bytes:
    """One line of JSON; what is not Unicode in a file's name is escaped."""
    return (json_text(value) + "\n").encode("utf-8", "backslashreplace")


def write(data: bytes | memoryview) -> None:
    """Put bytes on stdout."""
    sys.stdout.buffer.write(data)


def flush() -> None:
    """Let go of what is still held, while a closed pipe can still be reported."""
    sys.stdout.buffer.flush()
