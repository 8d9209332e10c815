"""The batch reader: tasks of slices out, Arrow batches back."""

import logging
from collections.abc import Generator, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.catalog.slices import Slice, Task, pack_task, plan_tasks, unpack_task
from ottla.errors import CorruptLogError
from ottla.jobs.read.rows import read_rows, to_plain
from ottla.log.read.ahead import decode_ahead
from ottla.options.read import ReadOptions
from ottla.publish.waiting import tell_of_waiting
from ottla.spark.schema import arrow_schema, check_schema, reading_schema
from ottla.spark.words import naming_options

_LOGGER: Final = logging.getLogger(__name__)


class LogReadError(Exception):
    """A record that was asked for cannot be read; says where it is and what can be done."""


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
        return [InputPartition(pack_task(task)) for task in plan_tasks(self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(unpack_task(partition.value), self.options, self.target)


def read_task(task: Task, options: ReadOptions, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of a task."""
    return decode_ahead(_read_parts(task, options, target))


def _read_parts(
    parts: Sequence[Slice], options: ReadOptions, target: pa.Schema
) -> Generator[pa.RecordBatch]:
    wanted = reading_schema(target, options)
    for part in parts:
        try:
            with naming_options():
                for rows in read_rows(part, options, wanted):
                    yield rows if wanted is target else to_plain(rows, target)
        except CorruptLogError as error:
            raise advise(error) from None


def advise(error: CorruptLogError) -> LogReadError:
    """The error for the user of a query: also what can be done."""
    return LogReadError(f"{error.violation}. {_ADVICE}")


_ADVICE = (
    "To leave broken batches out set option mode=DROPMALFORMED, to see them as rows mode=PERMISSIVE"
    " or view=violations; `ottla salvage` writes a repaired copy"
)
