"""`ottla inspect`: one batch byte by byte, whole or broken."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace

from ottla.cli.colours import has_colours
from ottla.cli.output import flush, printable, write_line
from ottla.dump.batch_lines import Line, batch_lines
from ottla.dump.one_batch import open_at_offset, open_at_position


def run(arguments: argparse.Namespace) -> int:
    """Show the batch; 1 if it is broken."""
    if arguments.offset is not None:
        opened = open_at_offset(arguments.file, arguments.offset)
    else:
        opened = open_at_position(arguments.file, arguments.position or 0)
    shown = replace(opened, violations=()) if arguments.quiet else opened
    _print(batch_lines(arguments.file, shown, arguments.max_bytes))
    return int(opened.is_broken)


def _print(lines: Iterator[Line]) -> None:
    """Put lines on stdout, in colour if somebody watches."""
    if not has_colours(sys.stdout):
        for line in lines:
            write_line("".join(cell.text for cell in line).rstrip())
        flush()
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((printable(cell.text), cell.colour) for cell in line)))
