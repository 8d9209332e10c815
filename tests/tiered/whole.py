"""All records below paths, and all that verify says of them, in this process."""

import json
from pathlib import Path

import pyarrow as pa

from jobs.test_verify import verify, violations
from ottla.catalog.slices import Task, plan_tasks
from ottla.errors import Row
from ottla.jobs.read.records import read_slice
from ottla.jobs.verify.plan import VerifyOptions
from ottla.log.files.partition import find_partitions
from ottla.log.read.records import Mode, obey
from ottla.options.read import ReadOptions, parse_read_options

COLUMNS = ("offset", "timestamp", "key", "value")


def options_of(*paths: Path | str, **options: str) -> ReadOptions:
    return parse_read_options({"paths": json.dumps([str(path) for path in paths]), **options})


def read_tasks(tasks: list[Task], options: ReadOptions) -> pa.Table:
    schema = None
    batches = []
    for part in (part for task in tasks for part in task):
        for reading in obey(options.mode, read_slice(part, COLUMNS, options.access)):
            batch = reading.to_arrow(COLUMNS)
            if batch is not None:
                # A copy: a batch keeps the room that its chunk had, which is large.
                batches.append(batch.take(pa.array(range(batch.num_rows))))
                schema = batch.schema
    return pa.Table.from_batches(batches, schema) if batches else pa.table({"offset": []})


def records_of(*paths: Path | str, mode: Mode = Mode.FAILFAST) -> pa.Table:
    """As the tasks of the Spark source read them."""
    options = options_of(*paths, mode=str(mode))
    return read_tasks([*plan_tasks(options)], options)


def offsets_of(*paths: Path | str, mode: Mode = Mode.FAILFAST) -> list[int]:
    found: list[int] = records_of(*paths, mode=mode).column("offset").to_pylist()
    return found


def found_in(*paths: Path | str) -> list[Row]:
    """The violations, by file and position."""
    return violations(verify(find_partitions(paths), VerifyOptions()))


def rules_in(*paths: Path | str) -> set[str]:
    return {str(row["rule"]) for row in found_in(*paths)}
