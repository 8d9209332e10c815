"""`ottla finish`: what killed jobs left beside an output is published, discarded or given up."""

import argparse
from typing import Final

from ottla.cli.advice import describe
from ottla.cli.flags import FLAGS
from ottla.cli.output import Format, flush, json_line, tell, write, write_line
from ottla.errors import Row, WordedError
from ottla.jobs.finish import finish_journals, give_up_journal

_TEXTS: Final = {
    "published": "published {job}: {files} files, {bytes} bytes",
    "discarded": "discarded {job}, which was never committed: {files} files, {bytes} bytes",
    "held": "left {job} alone: a process works on it",
    "given up": "gave up {job}: {files} files, {bytes} bytes are lost",
}


def run(arguments: argparse.Namespace) -> int:
    """Say what became of each journal; 2 if one was refused."""
    if arguments.discard is not None:
        row, lost = give_up_journal(arguments.out, arguments.discard)
        rows = [*lost, row]
        tell(
            f"ottla: what {arguments.discard} had published already stays in {arguments.out}, which"
            " may hold a part of what was meant: check it with `ottla verify`"
        )
    else:
        rows = finish_journals(arguments.out)
    for row in rows:
        if not arguments.quiet or "why" in row or row["type"] == "lost":
            _print(row, arguments.format)
    flush()
    if not rows and not arguments.quiet:
        tell(f"ottla: nothing to finish in {arguments.out}")
    return 2 if any("why" in row for row in rows) else 0


def _print(row: Row, style: Format) -> None:
    if "why" in row:
        row = row | {"why": _why(row["why"])}
        tell(f"ottla: {row['why']}")
    if style is Format.JSONL:
        write(json_line(row))
    elif row["type"] == "lost":
        write_line(f"lost {row['file']}: {row['bytes']} bytes")
    elif row["action"] in _TEXTS:
        write_line(_TEXTS[row["action"]].format(**row))


def _why(error: WordedError | OSError) -> str:
    return describe(error) if isinstance(error, OSError) else str(error.worded(FLAGS))
