"""`ottla salvage`: a sound copy of damaged logs, and an account of what could not be saved."""

import argparse
from typing import Any, Final

from ottla.cli.job import add_out, add_run, add_selection, chosen_logs, run_plan
from ottla.cli.output import add_format
from ottla.jobs.rewrite.salvage import plan_salvage_job

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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Salvage; 1 if something had to be left out."""
    plan = plan_salvage_job(chosen_logs(arguments), arguments.out)
    rows = run_plan(plan, arguments, arguments.format)
    return int(any(row["violations"] for row in rows))
