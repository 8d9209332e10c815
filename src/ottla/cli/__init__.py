"""The command `ottla`: parse, call, print."""

import argparse
import atexit
import gc
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from ottla.cli.advice import describe
from ottla.cli.claim import claim
from ottla.cli.flags import FLAGS
from ottla.cli.output import printable, tell
from ottla.cli.usage import WRONG_USAGE, Parser
from ottla.cli.waiting import tell_waiting
from ottla.errors import (
    CorruptLogError,
    DataLossError,
    UnsupportedError,
    WordedError,
)
from ottla.notices import COMPILING, STORE_TROUBLE
from ottla.version import VERSION

# What runs a command is imported when its flags are parsed: help must not wait for Numba or Arrow.
COMMANDS = {
    "dump": "print the batches and records of segments",
    "inspect": "show one batch byte by byte",
    "ls": "list topics, partitions and segments, from batch headers alone",
    "verify": "check every batch, record, index and side file",
    "salvage": "copy what is intact of damaged logs, and account for the rest",
    "export": "write records as Parquet or JSON lines",
    "convert": "write logs in another magic, codec or batch size",
    "compact": "write what Kafka's cleaner would leave, or say why it leaves so much",
    "restore": "write a mountable copy of some records, with their offsets",
    "clone": "make of a backup a cluster that boots, with its topics, groups and configs",
    "report": "write a page: what is there, how it is, what other settings would cost",
    "transactions": "show open and hanging transactions, and what they hold back",
    "groups": "show the offsets that consumer groups committed, and their lag",
    "topics": "show topic ids, partitions, replicas and configs from the cluster's metadata",
    "schemas": "show the schemas of a registry, and which of them the records of topics name",
    "diff": "compare replicas: equal up to where, diverged since when, what each has alone",
    "finish": "publish what a killed job had decided to write, or give it up",
    "append": "tell whether a broker would take batches, and what it would store",
    "warm": "compile what commands need on this machine, for images and clusters",
    "demo": "make the logs of a small cluster and show everything on them",
}

GROUPS = {
    "Look": (
        "ls",
        "dump",
        "inspect",
        "transactions",
        "groups",
        "topics",
        "schemas",
        "diff",
        "append",
    ),
    "Check and repair": ("verify", "salvage", "report"),
    "Write": ("export", "convert", "compact", "restore", "clone", "finish"),
    "Begin": ("demo", "warm"),
}

OK = 0
PROBLEMS_FOUND = 1
INTERNAL_ERROR = 3
INTERRUPTED = 130  # as a shell says of a process that SIGINT ended
EXIT_CODES = {
    OK: "clean",
    PROBLEMS_FOUND: "problems found in the data",
    WRONG_USAGE: "wrong usage or environment",
    INTERNAL_ERROR: "internal error",
    INTERRUPTED: "interrupted",
}
_MORE = f"""\
`ottla COMMAND --help` shows the flags of a command and an example.
Exit codes:
{chr(10).join(f"  {code:<14}{meaning}" for code, meaning in EXIT_CODES.items())}"""


class _LogLine(logging.Formatter):
    """A warning on one line, as `tell` has it."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(record.getMessage())


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    parser = Parser(
        prog="ottla",
        usage="ottla [-h] [--version] COMMAND ...",
        description="The logs of Apache Kafka, without Kafka.",
        epilog=f"{_overview()}\n\n{_MORE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ottla {VERSION}")
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog="ottla", help=argparse.SUPPRESS
    )
    for name, summary in COMMANDS.items():
        if name == chosen:
            importlib.import_module(f"ottla.cli.parsers.{name}").add_parser(subparsers, summary)
        else:
            subparsers.add_parser(name)
    return parser


def _overview() -> str:
    blocks = []
    for title, names in GROUPS.items():
        lines = [f"  {name:14}{COMMANDS[name]}" for name in names if name in COMMANDS]
        blocks.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join(blocks)


def start() -> NoReturn:
    """Be the process of a command, which waits for nothing that nobody needs."""
    gc.disable()  # what is imported is no garbage; `main` collects again
    code = main()
    # Numba starts colorama where it is installed, which would end every output with a colour code.
    if "colorama.initialise" in sys.modules:
        atexit.unregister(sys.modules["colorama.initialise"].reset_all)
    # What an error left in stdout is still to be written, and what pyspark registered ends its JVM.
    if code or "pyspark" in sys.modules:
        sys.exit(code)
    # All is closed by now; to take down what was imported takes some hundredths of a second.
    print(end="", file=sys.stderr, flush=True)
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    chosen = next((word for word in words if not word.startswith("-")), None)
    arguments = _parser(chosen).parse_args(words)
    if logging.lastResort is not None:  # it prints the warnings of those who set up no logging
        logging.lastResort.setFormatter(_LogLine())
    COMPILING.quiet = STORE_TROUBLE.quiet = getattr(arguments, "quiet", False)
    try:
        tell_waiting(arguments)
        with claim(arguments):
            command = importlib.import_module(f"ottla.cli.{arguments.command}")
            if not gc.isenabled():
                gc.freeze()
                gc.enable()
            code = int(command.run(arguments))
            print(end="", flush=True)  # while a closed pipe and a full disk can still be reported
            return code
    except CorruptLogError as error:
        tell(f"ottla: {error.violation}")
        return PROBLEMS_FOUND
    except DataLossError as error:
        tell(f"ottla: {error.worded(FLAGS)}")
        return PROBLEMS_FOUND
    except WordedError as error:
        tell(f"ottla: {error.worded(FLAGS)}")
        return WRONG_USAGE
    except UnsupportedError as error:
        tell(f"ottla: {error}")
        return WRONG_USAGE
    except BrokenPipeError:
        # The reader of our output is gone, as in `ottla dump ... | head`; nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        # At once: threads may be in the middle of a task, and what they stage counts for nothing.
        print(
            "ottla: interrupted; a job goes on where it stopped when it is run again",
            file=sys.stderr,
        )
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    except OSError as error:
        tell(f"ottla: {describe(error)}")
        return WRONG_USAGE
    except Exception:  # a bug of ours: scripts must not take it for a finding about the data
        for line in traceback.format_exc().split("\n"):
            tell(line)
        tell("ottla: internal error; please report it with the lines above")
        return INTERNAL_ERROR
