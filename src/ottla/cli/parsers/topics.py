"""The flags of `ottla topics`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_links, add_quiet, add_topics
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
    add_topics(parser)
    add_links(parser)
    add_quiet(parser)
    add_format(parser)
