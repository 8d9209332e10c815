"""Figures to a Markdown table, on the terminal and in benchmarks/README.md."""

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

README = Path(__file__).parent / "README.md"


def markdown(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up in plain text too.

    >>> print(markdown(["file", "ratio"], [["none", "2.0"]]))
    | file | ratio |
    |------|-------|
    | none | 2.0   |
    """
    widths = [max(len(row[i]) for row in [heading, *rows]) for i in range(len(heading))]
    lines = [_line(heading, widths), "|" + "|".join("-" * (width + 2) for width in widths) + "|"]
    return "\n".join(lines + [_line(row, widths) for row in rows])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "| " + " | ".join(padded) + " |"


def ratio(ours: float, theirs: float, target: float | None) -> tuple[str, str]:
    """The ratio and its target; a missed one is marked.

    >>> ratio(30.0, 10.0, 2.0), ratio(10.0, 10.0, 2.0), ratio(10.0, 10.0, None)
    (('3.00', '2.0'), ('1.00 (!)', '2.0'), ('1.00', ''))
    """
    found = ours / theirs
    if target is None:
        return f"{found:.2f}", ""
    return f"{found:.2f}" + ("" if found >= target else " (!)"), str(target)


def millions(rate: float) -> str:
    """
    >>> millions(12_340_000.0)
    '12.3'
    """
    return f"{rate / 1e6:.1f}" if rate >= 1e6 else f"{rate / 1e6:.2f}"


def publish(name: str, text: str) -> None:
    """Put a table in its place in the README, with the machine and the commit behind it."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    measured = f"{begin}\n{_machine()}, commit {_commit()}.\n\n{text}\n{end}"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    written, places = pattern.subn(lambda _: measured, README.read_text())
    assert places == 1, f"{README} has no place for {name}"
    README.write_text(written)


def _machine() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = re.search(r"model name\s*: (.*)", info.read_text())
        cpu = named.group(1) if named else cpu
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    version = java.stderr.splitlines()[0]
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}, {version}"


def _commit() -> str:
    described = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(described, capture_output=True, text=True, check=True).stdout.strip()
