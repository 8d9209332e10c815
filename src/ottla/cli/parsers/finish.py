"""The flags of `ottla finish`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_quiet
from ottla.cli.output import add_format

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
        "--discard", metavar="JOB", help="give up this journal, which cannot be finished"
    )
    add_quiet(parser, "print only what was refused, and what is lost")
    add_format(parser)
