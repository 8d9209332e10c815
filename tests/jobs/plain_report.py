"""A report in this process, one part after another."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from jobs.compacting import explain_plainly
from ottla.jobs.compact.plan import Compaction
from ottla.jobs.compact.survey import Surveyed
from ottla.jobs.verify.plan import VerifyOptions
from ottla.log.files.partition import Partition
from whole_log import check_partition

Row = dict[str, Any]


class PlainRunner:
    """Runs tasks here; verifies each partition from beginning to end."""

    scratch = "nowhere"  # each explanation makes a folder of its own

    def map(
        self,
        title: str,
        parts: Sequence[Any],
        work: Callable[[Any], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> Iterable[Row]:
        for part in parts:
            for batch in work(part):
                assert batch.schema == schema, title
                yield from batch.to_pylist()

    def verify(self, partitions: Sequence[Partition], options: VerifyOptions) -> Iterable[Row]:
        for partition in partitions:
            for violation in check_partition(partition):
                yield violation.as_row()

    def explain(self, plan: Compaction, surveyed: Sequence[Surveyed], now: int) -> Sequence[Row]:
        with TemporaryDirectory() as folder:
            plan = replace(plan, out=str(Path(folder) / "out"), now=now)
            return explain_plainly(plan, surveyed)
