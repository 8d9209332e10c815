"""The flags of `ottla restore`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_rewrite, add_where

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla restore demo-out/kafka-logs demo-out/restored --topic orders \\
      --to @2025-10-09T08:57:00Z --rename orders=orders-before

Stop the broker, move the partition directories of OUT into its log directory, start it."""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "restore",
        help=summary,
        description="Copy some records into OUT as partitions that a broker can mount.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_rewrite(parser)
    add_where(parser)
    parser.add_argument("--key", action="append", default=[], help="only records with this key")
    parser.add_argument("--key-pattern", metavar="REGEX", help="only records whose key matches")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="only records with this header; may be repeated, then all must be there",
    )
    parser.add_argument(
        "--rename", action="append", default=[], metavar="TOPIC=NEW", help="give a topic a new name"
    )
    parser.add_argument(
        "--topic-id",
        action="append",
        default=[],
        metavar="TOPIC=ID",
        help="the id of a topic of OUT; a renamed one has none otherwise, the others keep theirs",
    )
