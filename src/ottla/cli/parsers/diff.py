"""The flags of `ottla diff`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_quiet, add_selection
from ottla.cli.output import add_bytes, add_format

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla restore demo-out/kafka-logs demo-out/older --topic orders --to 9000
  ottla diff demo-out/kafka-logs demo-out/older

Each PATH is a log directory, or a partition: of each partition that is in several, the replica of
the highest leader epoch and then the longest is compared with the others."""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "diff",
        help=summary,
        description="Compare replicas of the same partitions, from batch headers.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_selection(parser)
    add_quiet(parser, "print nothing; the exit code is 1 where replicas differ")
    add_bytes(parser)
    add_format(parser)
