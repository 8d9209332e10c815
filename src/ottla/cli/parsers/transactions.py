"""The flags of `ottla transactions`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_partitions
from ottla.cli.output import add_format

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla transactions demo-out/kafka-logs --topic orders
  ottla transactions demo-out/kafka-logs --topic orders --from @2025-10-09T08:57:00Z --completed"""
DEFAULT_TIMEOUT_MS: Final = 900_000  # transaction.max.timeout.ms of a broker


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "transactions",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="log directories, partition directories or segments",
    )
    add_partitions(parser)
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHEN",
        help="begin at the newest producer snapshot at or below it: an offset, or @ and a time such"
        " as @2025-10-09T08:53:20Z (default: all of the log)",
    )
    parser.add_argument("--completed", action="store_true", help="a line for each ended one too")
    parser.add_argument(
        "--max-transaction-timeout-ms",
        type=int,
        default=DEFAULT_TIMEOUT_MS,
        metavar="MS",
        help="an open one hangs when its producer was silent for longer (default: %(default)s)",
    )
    parser.add_argument(
        "--now", type=int, metavar="MS", help="the time, in milliseconds since 1970 (default: now)"
    )
    parser.add_argument("--quiet", action="store_true", help="do not print what is wrong")
    add_format(parser)
