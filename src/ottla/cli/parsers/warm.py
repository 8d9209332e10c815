"""The flags of `ottla warm`."""

import argparse
from typing import Any, Final

_EXAMPLE: Final = """example:
  NUMBA_CACHE_DIR=/opt/ottla-kernels ottla warm --quiet

Kernels are kept in the folder that NUMBA_CACHE_DIR names, else in ~/.cache/ottla; a folder that
others can write to is not used, nor is one of another user: what root compiles serves root alone.
Run it as each user who runs ottla. They are for this kind of processor."""


def add_parser(subparsers: Any, summary: str) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "warm",
        help=summary,
        description="Compile the kernels of commands in parallel, and keep them.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing")
