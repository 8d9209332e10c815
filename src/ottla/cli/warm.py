"""`ottla warm`: run commands on small logs, so that their kernels are compiled and kept."""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

_EXAMPLE: Final = """example:
  NUMBA_CACHE_DIR=/opt/ottla-kernels ottla warm --quiet

Kernels are kept in the folder that NUMBA_CACHE_DIR names, else in ~/.cache/ottla; a folder that
others can write to is not used. They are for this kind of processor."""

# The first ones take longest: two processes that begin together share little.
_COMMANDS: Final = (
    ("dump", "--format", "text"),
    ("dump", "--format", "jsonl"),
    ("transactions", "--format", "jsonl"),
    ("ls", "--format", "jsonl"),
)


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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001
    """Run each command in a process of its own, as many at a time as there are processors."""
    # Imported here: `--help` must not wait for Numba.
    from ottla.jobs.demo import make_logs

    with tempfile.TemporaryDirectory(prefix="ottla-warm-") as folder:
        make_logs(folder)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            codes = list(pool.map(lambda words: _run(words, folder), _COMMANDS))
    return max(code if code > 1 else 0 for code in codes)


def _run(words: tuple[str, ...], folder: str) -> int:
    # What is wrong with the demo's logs (1) is meant to be.
    command = [sys.executable, "-m", "ottla.cli", *words, "--quiet", folder]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode  # noqa: S603
