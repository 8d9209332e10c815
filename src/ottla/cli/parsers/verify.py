"""The flags of `ottla verify`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_run, add_selection
from ottla.cli.output import add_format

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla verify demo-out/kafka-logs
  ottla verify demo-out/kafka-logs --topic payments --out violations.parquet
  ottla verify demo-out/kafka-logs --recovery"""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "verify",
        help=summary,
        description="Check every batch, record, index and side file; exit 1 if an error is found.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_selection(parser)
    parser.add_argument("--quick", action="store_true", help="headers and CRCs only")
    parser.add_argument(
        "--out", metavar="FILE", help="write violations to FILE.parquet or FILE.jsonl instead"
    )
    parser.add_argument(
        "--recovery",
        action="store_true",
        help="check nothing, but tell what a broker would do with the logs when it starts",
    )
    parser.add_argument(
        "--account", action="store_true", help="what was read of each partition too, as JSON has it"
    )
    parser.add_argument(
        "--all", action="store_true", help="with --recovery: the steps that lose nothing too"
    )
    add_run(parser, split="512m")
    add_format(parser)
