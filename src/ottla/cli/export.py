"""`ottla export`: records as Parquet or JSON lines, decoded and written in parallel."""

import argparse

from ottla.cli.job import chosen_logs, run_plan
from ottla.cli.output import default_format
from ottla.jobs.export.plan import ExportOptions, plan_export


def run(arguments: argparse.Namespace) -> int:
    """Export; 1 if batches were left out."""
    options = ExportOptions(
        format=arguments.format,
        value_as=arguments.value_as,
        mode=arguments.mode,
        split_bytes=arguments.split_bytes,
        level=arguments.level,
    )
    plan = plan_export(chosen_logs(arguments), arguments.out, options)
    rows = run_plan(plan, arguments, default_format())
    return int(any(row["violations"] for row in rows))
