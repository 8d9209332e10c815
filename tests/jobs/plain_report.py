"""A report in this process, one part after another."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from ottla.jobs.verify.plan import VerifyOptions
from ottla.log.check.partition import check_partition
from ottla.log.files.partition import Partition

Row = dict[str, Any]


class PlainRunner:
    """Runs tasks here; verifies each partition from beginning to end."""

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
