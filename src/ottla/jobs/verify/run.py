"""Run a verify: slices are looked at in parallel, then each partition is validated in order."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from ottla.catalog.chosen import ChosenLogs
from ottla.errors import Row
from ottla.format.names import natural_order
from ottla.jobs.engine import Engine, Grouping, JobStep
from ottla.jobs.verify.plan import (
    SEEN_SCHEMA,
    VERDICT_SCHEMA,
    VerifyOptions,
    VerifyPart,
    plan_verify,
    see_part,
    validate_partitions,
)
from ottla.log.check.directory import check_directory
from ottla.log.files.partition import Partition

_MEETINGS_PER_CORE: Final = 2  # some have more to say than others
FOUND_SCHEMA: Final = pa.schema([field for field in VERDICT_SCHEMA if field.name != "account"])


def verify_chosen(
    engine: Engine, chosen: ChosenLogs, options: VerifyOptions, account: list[Row]
) -> Iterator[Row]:
    """The violations of log directories, then those of the partitions that are chosen of them."""
    for directory in chosen.catalog.directories:
        for problem in check_directory(directory, chosen.storage):
            yield problem.as_row()
    yield from verify(engine, chosen.partitions, options, account)


def verify(
    engine: Engine, partitions: Sequence[Partition], options: VerifyOptions, account: list[Row]
) -> Iterator[Row]:
    """The violations of partitions; when all were given, `account` has a row for each of them."""

    def see(part: VerifyPart) -> Iterable[pa.RecordBatch]:
        return see_part(part, options)

    def validate(batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        return validate_partitions(rows, partitions, options)

    count = max(1, min(len(partitions), _MEETINGS_PER_CORE * engine.cores))
    parts = plan_verify(partitions, options, count)
    step = JobStep("verify", parts, [part.size for part in parts], see, SEEN_SCHEMA)
    # The windows of a partition meet; in order, they pass one at a time.
    order = ("log", "segment", "start", "window")
    for row in engine.run(step, Grouping("meeting", count, order, validate, VERDICT_SCHEMA)):
        told = row.pop("account")
        if told is None:
            yield row
        else:
            account.append(json.loads(told))
    account.sort(key=lambda row: (*natural_order(row["topic"], row["partition"]), row["path"]))
