"""`ottla finish`: what killed jobs left beside an output is published, discarded or given up."""

import argparse
from typing import Any, Final

from ottla.cli.advice import describe
from ottla.cli.flags import FLAGS
from ottla.cli.output import Format, add_format, flush, json_line, tell, write, write_line
from ottla.errors import Row, WordedError
from ottla.jobs.finish import finish_journals, give_up_journal

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla finish demo-out/kafka-logs

A job stages in OUT.ottla/JOB, decides by writing commit.json there, and then moves its files to
OUT. One that was killed after it decided is published: OUT is then as if nothing had happened. One
that was killed before is discarded; the same command would have gone on with it. What a process
works on is left alone, and so is every quarantine.

Only journals are touched that belong to you, that nobody else can write to, and that name files
inside of OUT. If one of yours is refused: look into it, then either make it yours alone (chmod -R
go-w OUT.ottla) or give it up (--discard JOB), which deletes what it staged and says what that was.
Journals of others are for them to finish, or for you to remove."""

_TEXTS: Final = {
    "published": "published {job}: {files} files, {bytes} bytes",
    "discarded": "discarded {job}, which was never committed: {files} files, {bytes} bytes",
    "held": "left {job} alone: a process works on it",
    "given up": "gave up {job}: {files} files, {bytes} bytes are lost",
}


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "finish",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", metavar="OUT", help="where jobs wrote; OUT.ottla has their journals")
    parser.add_argument(
        "--discard", metavar="JOB", help="give up this journal, which can not be finished"
    )
    add_format(parser)
    parser.set_defaults(run=run)


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
        _print(row, arguments.format)
    flush()
    if not rows:
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
