"""The flags of `ottla inspect`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_quiet

EXAMPLES: Final = """\
examples:
  ottla inspect orders-0/00000000000000000000.log
  ottla inspect --offset 17 orders-0/00000000000000000000.log
  ottla inspect --position 85 --max-bytes 1000 orders-0/00000000000000000000.log

Bytes after a bar (|) are covered by the CRC above them. Positions are bytes of the file; inside
compressed records they are bytes of what they decompress to.

Exit codes: 0 clean, 1 the batch is broken, 2 wrong usage, 3 internal error.
"""


def add_parser(subparsers: Any, summary: str) -> None:
    """Describe the command line of `ottla inspect`."""
    parser = subparsers.add_parser(
        "inspect",
        help=summary,
        description="Show every field of one batch: position, bytes, name and value.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="a .log or .checkpoint file")
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--position", type=int, metavar="N", help="the batch that holds this byte (default: 0)"
    )
    place.add_argument("--offset", type=int, metavar="N", help="the batch that holds this offset")
    parser.add_argument(
        "--max-bytes",
        type=int,
        default=64,
        metavar="N",
        help="show at most N bytes of a field (default: 64)",
    )
    add_quiet(parser, "print no lines about what is wrong")
