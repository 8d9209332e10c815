"""`ottla export`: records as Parquet, JSON lines or a table, decoded and written in parallel."""

import argparse
from typing import Final

from ottla.cli.job import chosen_logs, run_plan, tell_remote, where_of
from ottla.cli.output import tell
from ottla.errors import CorruptLogError
from ottla.jobs.export.plan import ExportPart, plan_export
from ottla.jobs.schemas.resolve import notes_of
from ottla.log.read.mode import Mode
from ottla.options.export import ExportOptions

_ADVICE: Final = (
    f"--mode {Mode.DROPMALFORMED} leaves out what is broken and counts it, `ottla salvage` writes a"
    " repaired copy"
)


def run(arguments: argparse.Namespace) -> int:
    """Export; 1 if batches were left out."""
    options = ExportOptions(
        format=arguments.format,
        value_as=arguments.value_as,
        key_as=arguments.key_as,
        schemas=arguments.schemas,
        wire=arguments.wire,
        each=arguments.schema == "each",
        mode=arguments.mode,
        isolation=arguments.isolation_level,
        batch_columns=arguments.batch_columns,
        split_bytes=arguments.split_bytes,
        level=arguments.level,
        where=where_of(arguments),
        columns=arguments.columns,
        partition_by=arguments.partition_by,
        catalog=arguments.catalog,
        recreated=arguments.recreated,
    )
    chosen = chosen_logs(arguments)
    tell_remote(chosen, quiet=arguments.quiet)
    plan = plan_export(chosen, arguments.out, options)
    if not arguments.quiet:
        parts = (part for part in plan.parts.values() if isinstance(part, ExportPart))
        for note in notes_of(part.plans for part in parts):
            tell(f"ottla: {note}")
    try:
        rows = run_plan(plan, arguments, arguments.account_format)
    except CorruptLogError as error:
        tell(f"ottla: {error.violation}; {_ADVICE}")
        return 1
    return int(any(row["violations"] for row in rows))
