"""`ottla warm`: run commands on small logs, so that their kernels are compiled and kept."""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ottla.cli.output import tell
from ottla.jobs.demo import make_logs
from ottla.storage.writing import write_file

# The first ones take longest: two processes that begin together share little. Jobs come last, and
# find most of their kernels kept. LOGS, OUT and SCHEMAS are folders; one topic of LOGS is damaged.
LINES: Final = (
    "dump LOGS --format text",
    "dump LOGS --format jsonl",
    "transactions LOGS --format jsonl",
    "ls LOGS --format jsonl",
    "diff LOGS LOGS --format jsonl",
    "dump LOGS --format text --encoding hex",
    "dump LOGS --format text --encoding base64",
    "dump LOGS --format text --no-payload",
    "dump LOGS --format jsonl --encoding hex",
    "dump LOGS --format jsonl --encoding utf8",
    "dump LOGS --format jsonl --no-payload",
    "report LOGS -o OUT --engine local",
    "verify LOGS --engine local",
    "salvage LOGS OUT --engine local",
    "export LOGS OUT --engine local --mode DROPMALFORMED",
    "compact LOGS OUT --engine local --topic users --include-active",
    "convert LOGS OUT --engine local --topic users --codec lz4 --batch-bytes 64k",
    "restore LOGS OUT --engine local --topic orders --key 1",
    "clone LOGS OUT --engine local --exclude payments",
    "dump LOGS --topic orders --value-as avro --schemas SCHEMAS --wire none",
    "schemas LOGS --engine local --exact --schemas SCHEMAS",
)

_SCHEMA: Final = b'{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'


def run(arguments: argparse.Namespace) -> int:
    """Run each command in a process of its own, as many at a time as there are processors."""
    if not arguments.quiet:
        tell("ottla: compiling kernels for this machine, once; this can take minutes")
    with tempfile.TemporaryDirectory(prefix="ottla-warm-") as folder:
        make_logs(os.path.join(folder, "logs"))
        write_file(os.path.join(folder, "schemas", "orders-value.avsc"), _SCHEMA)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            codes = list(pool.map(lambda line: _run(line, folder), LINES))
    return max(code if code > 1 else 0 for code in codes)


def _run(line: str, folder: str) -> int:
    name = line.split()[0]
    places = {"OUT": os.path.join(folder, name)}
    places |= {word: os.path.join(folder, word.lower()) for word in ("LOGS", "SCHEMAS")}
    words = [places.get(word, word) for word in line.split()]
    # What is wrong with the demo's logs (1) is meant to be.
    command = [sys.executable, "-m", "ottla.cli", *words, "--quiet"]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode  # noqa: S603
