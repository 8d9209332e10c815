"""`ottla salvage`: a sound copy of damaged logs, and an account of what could not be saved."""

import argparse

from ottla.cli.job import chosen_logs, run_plan
from ottla.jobs.rewrite.salvage import plan_salvage_job


def run(arguments: argparse.Namespace) -> int:
    """Salvage; 1 if something had to be left out."""
    plan = plan_salvage_job(chosen_logs(arguments), arguments.out)
    rows = run_plan(plan, arguments, arguments.format)
    return int(any(row["violations"] for row in rows))
