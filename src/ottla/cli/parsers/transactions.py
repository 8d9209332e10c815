"""The flags of `ottla transactions`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_now, add_partitions, add_quiet
from ottla.cli.output import add_bytes, add_format
from ottla.format.producers import MAX_TRANSACTION_TIMEOUT_MS

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla transactions demo-out/kafka-logs --topic orders
  ottla transactions demo-out/kafka-logs --topic orders --from @2025-10-09T08:57:00Z --completed"""


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
    parser.add_argument(
        "--all", action="store_true", help="partitions in which nothing is open too"
    )
    parser.add_argument("--completed", action="store_true", help="a line for each ended one too")
    parser.add_argument(
        "--max-transaction-timeout-ms",
        type=int,
        default=MAX_TRANSACTION_TIMEOUT_MS,
        metavar="MS",
        help="an open one hangs when its producer was silent for longer (default: %(default)s)",
    )
    add_now(parser)
    add_quiet(parser)
    add_bytes(parser)
    add_format(parser)
