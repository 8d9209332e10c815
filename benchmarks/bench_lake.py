"""Exports to tables of Iceberg and Delta against the plain export to Parquet, in one process.

Libraries are imported and kernels loaded by the turns that warm up; each turn has a new place.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from benchmarks.bench_jobs import log_directory
from benchmarks.corpus import FULL, SEGMENTS, Plan, size_of
from benchmarks.rounds import best_rates, timed
from benchmarks.table import ratio
from benchmarks.targets import LAKE_TO_PARQUET
from ottla.catalog.catalog import list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.engine.local import LocalEngine
from ottla.jobs.export.plan import plan_export
from ottla.jobs.run import run_output_job
from ottla.options.export import ExportOptions, FileFormat, TableColumns

HEADING = ("what", "MB/s", "Parquet, MB/s", "ratio", "target")
PARTITIONS = 8
TIMES = 10  # what one partition has of the plan's bytes
MOST_ROUNDS = 3
WARM_UPS = 1

TABLES = {
    "Delta": ExportOptions(format=FileFormat.DELTA),
    "Iceberg": ExportOptions(format=FileFormat.ICEBERG),
    "Delta, --columns kafka": ExportOptions(format=FileFormat.DELTA, columns=TableColumns.KAFKA),
    "Iceberg, --columns kafka": ExportOptions(
        format=FileFormat.ICEBERG, columns=TableColumns.KAFKA
    ),
}


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Each kind of table, by turns with Parquet."""
    times = TIMES if plan == FULL else 1
    larger = replace(plan, uncompressed_bytes=times * plan.uncompressed_bytes)
    root = log_directory("lz4", larger, PARTITIONS)
    scratch = SEGMENTS / "lake-out"
    size = size_of(root)
    for label, options in TABLES.items():
        turns = {
            "table": timed(_export(root, scratch, options, size)),
            "parquet": timed(_export(root, scratch, ExportOptions(), size)),
        }
        best = best_rates(turns, min(plan.rounds, MOST_ROUNDS), WARM_UPS)
        # The other columns are more than Parquet is asked for: no target.
        target = LAKE_TO_PARQUET if options.columns is TableColumns.SPARK else None
        yield (
            f"{label}, {size / 2**30:.2f} GiB of lz4",
            f"{best['table'] / 1e6:.0f}",
            f"{best['parquet'] / 1e6:.0f}",
            *ratio(best["table"], best["parquet"], target),
        )
    shutil.rmtree(scratch, ignore_errors=True)


def _export(root: Path, scratch: Path, options: ExportOptions, size: int) -> Callable[[], int]:
    names = (f"{options.format}-{options.columns}-{number}" for number in count())

    def run() -> int:
        shutil.rmtree(scratch, ignore_errors=True)
        job = plan_export(
            ChosenLogs(list_catalog([str(root)])), str(scratch / next(names)), options
        )
        run_output_job(LocalEngine(), job)
        return size

    return run
