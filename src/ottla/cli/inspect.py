"""`ottla inspect`: one batch byte by byte, whole or broken.

Numba takes long to import: nothing here needs it, so that `--help` does not wait for it.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.output import flush, printable, write_line

if TYPE_CHECKING:
    from ottla.dump.batch_lines import Line

EXAMPLES: Final = """\
examples:
  ottla inspect orders-0/00000000000000000000.log
  ottla inspect --offset 17 orders-0/00000000000000000000.log
  ottla inspect --position 85 --max-bytes 1000 orders-0/00000000000000000000.log

Bytes after a bar (|) are covered by the CRC above them. Positions are bytes of the file; inside
compressed records they are bytes of what they decompress to.

Exit codes: 0 clean, 1 the batch is broken, 2 wrong usage, 3 our own fault.
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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show the batch; 1 if it is broken."""
    from ottla.dump.batch_lines import batch_lines
    from ottla.dump.one_batch import open_at_offset, open_at_position

    if arguments.offset is not None:
        opened = open_at_offset(arguments.file, arguments.offset)
    else:
        opened = open_at_position(arguments.file, arguments.position or 0)
    _print(batch_lines(arguments.file, opened, arguments.max_bytes))
    return int(opened.is_broken)


def _print(lines: "Iterator[Line]") -> None:
    """Put lines on stdout, in colour if somebody watches."""
    if not sys.stdout.isatty():
        for line in lines:
            write_line("".join(cell.text for cell in line).rstrip())
        flush()
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((printable(cell.text), cell.colour) for cell in line)))
