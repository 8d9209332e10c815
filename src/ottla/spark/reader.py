"""The batch reader: tasks of slices out, Arrow batches back."""

import logging
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.arrow.permissive import corrupt_rows
from ottla.catalog.slices import Slice, Task, plan_tasks
from ottla.errors import CorruptLogError
from ottla.jobs.read.records import read_for_connector, read_headers, read_violations
from ottla.log.read.records import Mode, obey
from ottla.options.read import ReadOptions, View
from ottla.publish.waiting import tell_of_waiting
from ottla.spark.ahead import decode_ahead
from ottla.spark.rows import core_columns, to_spark, violation_rows
from ottla.spark.schema import arrow_schema, check_schema
from ottla.spark.words import naming_options

_LOGGER: Final = logging.getLogger(__name__)
_VIOLATION_ROWS: Final = 4096  # in one Arrow batch: a slice can be broken from end to end


class LogReadError(Exception):
    """A record that was asked for can not be read; says where it is and what can be done."""


class KafkaLogReader(DataSourceReader):
    """Tasks are planned at the first action and reused by every later one."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self.options = options
        self.target = arrow_schema(schema)

    @naming_options()
    def partitions(self) -> Sequence[InputPartition]:
        # No error: a sink may be publishing just now what a later read finds whole.
        for sentence in tell_of_waiting(self.options.paths, "ottla finish", self.options.storage):
            _LOGGER.warning("%s", sentence)
        return [InputPartition(task) for task in plan_tasks(self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition.value, self.options, self.target)


def read_task(
    task: Task | None, options: ReadOptions, target: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The batches of a task; Spark makes a task of None when there is nothing to read."""
    return decode_ahead(_read_parts(task or (), options, target))


def _read_parts(
    parts: Sequence[Slice], options: ReadOptions, target: pa.Schema
) -> Generator[pa.RecordBatch]:
    for part in parts:
        try:
            with naming_options():
                yield from _VIEWS[options.view](part, options, target)
        except CorruptLogError as error:
            raise advise(error) from None


def advise(error: CorruptLogError) -> LogReadError:
    """The error for the user of a query: also what can be done."""
    return LogReadError(f"{error.violation}. {_ADVICE}")


_ADVICE = (
    "To leave broken batches out set option mode=DROPMALFORMED, to see them as rows mode=PERMISSIVE"
    " or view=violations; `ottla salvage` writes a repaired copy"
)


def _records(part: Slice, options: ReadOptions, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    columns = core_columns(target)
    for reading in obey(options.mode, read_for_connector(part, columns, options.access)):
        records = reading.to_arrow(columns)
        if records is not None and records.num_rows:
            yield to_spark(records, part, target)
        if reading.violations and options.mode is Mode.PERMISSIVE:
            yield corrupt_rows(reading.violations, target)


def _batches(part: Slice, options: ReadOptions, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    for headers in read_headers(part, options.access, options.mode):
        yield to_spark(headers, part, target)


def _violations(part: Slice, options: ReadOptions, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    found = read_violations(part, options.access)
    while rows := list(islice(found, _VIOLATION_ROWS)):
        yield violation_rows(rows, target)


_VIEWS = {View.RECORDS: _records, View.BATCHES: _batches, View.VIOLATIONS: _violations}
