"""The flags of `ottla topics`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_links
from ottla.cli.output import add_format

_EXAMPLE: Final = """example:
  ottla topics kafka-logs
  ottla topics kafka-logs --format jsonl"""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "topics",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a log directory, the partition __cluster_metadata-0, or a .checkpoint",
    )
    parser.add_argument("--topic", action="append", help="only this topic; may be repeated")
    add_links(parser)
    parser.add_argument("--quiet", action="store_true", help="do not print what is wrong")
    add_format(parser)
