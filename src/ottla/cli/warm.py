"""`ottla warm`: run commands on small logs, so that their kernels are compiled and kept."""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ottla.jobs.demo import make_logs

# The first ones take longest: two processes that begin together share little.
_COMMANDS: Final = (
    ("dump", "--format", "text"),
    ("dump", "--format", "jsonl"),
    ("transactions", "--format", "jsonl"),
    ("ls", "--format", "jsonl"),
)


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001
    """Run each command in a process of its own, as many at a time as there are processors."""
    with tempfile.TemporaryDirectory(prefix="ottla-warm-") as folder:
        make_logs(folder)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            codes = list(pool.map(lambda words: _run(words, folder), _COMMANDS))
    return max(code if code > 1 else 0 for code in codes)


def _run(words: tuple[str, ...], folder: str) -> int:
    # What is wrong with the demo's logs (1) is meant to be.
    command = [sys.executable, "-m", "ottla.cli", *words, "--quiet", folder]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode  # noqa: S603
