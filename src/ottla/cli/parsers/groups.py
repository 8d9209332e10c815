"""The flags of `ottla groups`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_links, add_quiet, add_topics
from ottla.cli.output import add_format

_EXAMPLE: Final = """example:
  ottla groups kafka-logs
  ottla groups kafka-logs --reset-offsets > offsets.csv
  ottla groups kafka-logs --state"""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "groups",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="log directories, or partitions or segments of __consumer_offsets",
    )
    parser.add_argument("--group", action="append", help="only this group; may be repeated")
    add_topics(parser)
    parser.add_argument("--partition", type=int, action="append", help="only this partition")
    add_links(parser)
    add_quiet(parser)
    add_format(parser)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--state", action="store_true", help="the groups and their members instead")
    shown.add_argument(
        "--reset-offsets",
        action="store_true",
        help="CSV for kafka-consumer-groups --reset-offsets --from-file; name the same one --group"
        " on both sides, or as many",
    )
