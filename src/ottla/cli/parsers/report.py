"""The flags of `ottla report`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_now, add_run, add_selection, size
from ottla.cli.output import add_format
from ottla.options.report import DEFAULT_PRICE

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla report demo-out/kafka-logs --topic orders -o report.html

The page needs no network. Every number on it is in the JSON lines too (--format jsonl), or worked
out from them. What-if figures are measured: windows of each topic are re-encoded in every setting;
a topic larger than --sample-bytes is estimated from that much of it, with bounds that hold 99 times
in 100. --quiet leaves out the table, never the lines: they are the data."""
_SECTIONS: Final = ("what-if", "compaction")


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "report",
        help=summary,
        description="Write a page about logs; exit 1 if an error is found in them.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_selection(parser)
    parser.add_argument("-o", "--out", metavar="FILE", help="where to write the page")
    parser.add_argument(
        "--price-per-gb-month",
        type=float,
        default=DEFAULT_PRICE,
        metavar="PRICE",
        help="of 10^9 bytes, one copy, in your currency (default: %(default)s); times the"
        " replicas if you pay for each",
    )
    parser.add_argument(
        "--sample-bytes",
        type=size,
        default=16 << 20,
        metavar="SIZE",
        help="how much of each topic is re-encoded in every setting (default: 16m)",
    )
    parser.add_argument(
        "--compacted",
        action="append",
        default=[],
        metavar="TOPIC",
        help="show what compaction would leave of this topic, or of those that a pattern such as"
        " 'user*' matches; may be repeated. Topics whose cleanup.policy is in the metadata log, or"
        " that a cleaner has a checkpoint of, need not be named",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: %(default)s)")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=_SECTIONS,
        help="leave out what takes long; may be repeated",
    )
    add_now(parser)
    add_run(parser, split="64m")
    add_format(parser)
