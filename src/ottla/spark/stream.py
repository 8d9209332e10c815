"""The streaming reader: positions in and out as JSON, the rest is `jobs.tail`.

Spark makes one reader for its questions about positions, and others for reading; they share
nothing, so that all that `read` needs is in the partition.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from ottla.catalog.slices import pack_task, unpack_task
from ottla.jobs.read.tail import (
    Positions,
    first_positions,
    last_positions,
    list_logs,
    plan_between,
)
from ottla.options.offsets import offsets_by_topic, parse_offsets
from ottla.options.read import ReadOptions
from ottla.spark.reader import read_task
from ottla.spark.schema import arrow_schema, check_schema
from ottla.spark.words import naming_options

Json = dict[str, Any]


def positions_of(offset: Json) -> Positions:
    """Positions that Spark has kept as JSON."""
    return parse_offsets(json.dumps(offset))


class KafkaLogStreamReader(DataSourceStreamReader):
    """Answers of a running query, which reads all that is there: what Spark 4.0 and 4.1 know."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self.options = options
        self.target = arrow_schema(schema)
        self.first: Json | None = None

    @naming_options()
    def initialOffset(self) -> Json:  # noqa: N802
        if self.first is None:  # Spark asks more than once
            self.first = offsets_by_topic(first_positions(list_logs(self.options), self.options))
        return self.first

    @naming_options()
    def latestOffset(self, start: Json | None = None, limit: object = None) -> Json:  # noqa: ARG002, N802
        return offsets_by_topic(last_positions(list_logs(self.options), self.options))

    @naming_options()
    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        tasks = plan_between(positions_of(start), positions_of(end), self.options)
        return [InputPartition(pack_task(task)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(unpack_task(partition.value), self.options, self.target)
