"""The streaming reader: positions in and out as JSON, the rest is `jobs.tail`.

Spark makes one reader for its questions about positions, and others for reading; they share
nothing, so that all that `read` needs is in the partition.
"""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.catalog.limits import report_loss
from ottla.catalog.slices import pack_task, unpack_task
from ottla.jobs.read.tail import (
    Logs,
    Positions,
    first_positions,
    last_positions,
    limit_bytes,
    limit_offsets,
    list_logs,
    missing_ranges,
    plan_between,
)
from ottla.options.offsets import offsets_by_topic, parse_offsets
from ottla.options.read import ReadOptions
from ottla.spark.reader import read_task
from ottla.spark.schema import arrow_schema, check_schema
from ottla.spark.words import naming_options

_NO_LIMIT: Final = 2**62

Json = dict[str, Any]


def _positions(offset: Json) -> Positions:
    return parse_offsets(json.dumps(offset))


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Answers of a running query; limits are applied here because Spark knows no minimum."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self.options = options
        self.target = arrow_schema(schema)
        self.first: Json | None = None
        self.newest: Json | None = None
        self.pinned: Positions | None = None  # where Trigger.AvailableNow ends
        self.triggered = (
            0.0  # KafkaMicroBatchStream begins at 0 too: the first trigger always fires
        )

    @naming_options()
    def initialOffset(self) -> Json:  # noqa: N802
        if self.first is None:  # Spark asks more than once
            self.first = offsets_by_topic(first_positions(list_logs(self.options), self.options))
        return self.first

    @naming_options()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.pinned = last_positions(list_logs(self.options), self.options)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self.options
        limits = (options.max_offsets_per_trigger, options.min_offsets_per_trigger)
        if not any(limits) and options.max_bytes_per_trigger is None:
            return ReadAllAvailable()
        return ReadMaxRows(options.max_offsets_per_trigger or _NO_LIMIT)

    @naming_options()
    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        logs = list_logs(self.options)
        latest = self._latest(logs)
        self.newest = offsets_by_topic(latest)
        if isinstance(limit, ReadAllAvailable):
            return self.newest
        return offsets_by_topic(self._limited(logs, _positions(start), latest))

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        return self.newest

    @naming_options()
    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        tasks = plan_between(_positions(start), _positions(end), self.options)
        return [InputPartition(pack_task(task)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(unpack_task(partition.value), self.options, self.target)

    def _latest(self, logs: Logs) -> Positions:
        latest = last_positions(logs, self.options)
        if self.pinned is None:
            return latest
        for name, end in self.pinned.items():
            if latest.get(name, -1) < end:
                found = f"offset {latest[name]}" if name in latest else "nothing"
                report_loss(f"{name} had offsets up to {end}, now {found}", self.options)
        return {name: min(end, latest.get(name, end)) for name, end in self.pinned.items()}

    def _limited(self, logs: Logs, start: Positions, latest: Positions) -> Positions:
        ranges = missing_ranges(logs, start, latest)
        if self._waits_for_more(sum(part.span for part in ranges)):
            return start
        self.triggered = time.time()
        ends = [latest]
        if self.options.max_offsets_per_trigger is not None:
            ends.append(limit_offsets(ranges, self.options.max_offsets_per_trigger))
        if self.options.max_bytes_per_trigger is not None:
            most, storage = self.options.max_bytes_per_trigger, self.options.storage
            ends.append(limit_bytes(logs, ranges, most, storage))
        return {name: min(end[name] for end in ends) for name in latest}

    def _waits_for_more(self, available: int) -> bool:
        """Whether to skip a trigger because little is there; AvailableNow never waits."""
        least = self.options.min_offsets_per_trigger
        if least is None or self.pinned is not None or available >= least:
            return False
        return (time.time() - self.triggered) * 1000 < self.options.max_trigger_delay_ms
