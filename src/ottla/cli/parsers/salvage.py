"""The flags of `ottla salvage`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_out, add_run, add_selection
from ottla.cli.output import add_format

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla salvage demo-out/kafka-logs demo-out/salvaged --topic payments
  ottla verify demo-out/salvaged

What is left out lies in demo-out/salvaged.ottla, with a line for each span of bytes."""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "salvage",
        help=summary,
        description="Copy every intact batch into OUT, byte for byte, and quarantine all else.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_selection(parser)
    add_out(parser)
    add_run(parser)
    add_format(parser)
