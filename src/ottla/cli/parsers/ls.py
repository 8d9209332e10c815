"""The flags of `ottla ls`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_partitions, add_quiet
from ottla.cli.output import add_bytes, add_format

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla ls demo-out/kafka-logs
  ottla ls demo-out/kafka-logs --topic orders --partition 0 --segments"""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "ls",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a log directory, a partition or a segment; s3://, gs:// and abfs:// too",
    )
    add_partitions(parser)
    parser.add_argument("--segments", action="store_true", help="a line for each segment too")
    add_quiet(parser)
    add_bytes(parser)
    add_format(parser)
