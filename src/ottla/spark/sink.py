"""The sinks: rows in, staged logs out; the driver commits what all tasks staged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ottla.errors import OptionError
from ottla.jobs.write.commit import (
    abandon_rows,
    absolute,
    begin_writing,
    commit_rows,
    is_done,
    save_job,
    stream_job,
)
from ottla.jobs.write.stage import StagedPart, Writing, stage_rows
from ottla.options.write import WriteOptions
from ottla.publish.job import Job
from ottla.publish.locks import hold
from ottla.spark.versions import Feature, has
from ottla.spark.words import naming_options

if has(Feature.ARROW_STREAM_SINK):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    # What decides in 4.0 whether rows or Arrow batches come is the class of the batch sink.
    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[no-redef,misc]
        """A stream's sink that takes Arrow batches."""


_TEXT: Final = ("string", "binary")
# KafkaWriter.validateQuery, and what the connector's sink does not look at.
_TYPES: Final = {
    "topic": ("string",),
    "key": _TEXT,
    "value": _TEXT,
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}


@dataclass
class StagedRows(WriterCommitMessage):
    """What one task staged."""

    job: Job
    parts: list[StagedPart]


class KafkaLogWriter(DataSourceArrowWriter):
    """One save. The same pickle of it writes in the tasks and commits on the driver."""

    @naming_options()
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(schema, options)
        options = replace(options, path=absolute(options.path))
        self.job = save_job(options)
        self.writing = begin_writing(options)
        hold(self.job)

    @naming_options()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return stage_task(self.job, self.writing, iterator)

    @naming_options()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit_rows(self.job, self.writing, _parts(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        abandon_rows(self.job)


class KafkaLogStreamWriter(DataSourceStreamArrowWriter):
    """A batch of a stream. One instance writes and another commits, so tasks name the job."""

    @naming_options()
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(schema, options)
        if options.write_id is not None:
            raise OptionError("writeId is for a save; batches of a stream have ids of their own")
        self.writing = begin_writing(replace(options, path=absolute(options.path)))

    @naming_options()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert query is not None
        assert batch is not None
        job = stream_job(self.writing.options, query, int(batch))
        return stage_task(job, self.writing, iterator)

    @naming_options()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        for job in _jobs(messages):
            commit_rows(job, self.writing, _parts(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        for job in _jobs(messages):
            abandon_rows(job)


def stage_task(job: Job, writing: Writing, rows: Iterator[pa.RecordBatch]) -> StagedRows:
    """Stage the rows of this task; a job that is done already is not done again."""
    context = TaskContext.get()
    assert context is not None
    if is_done(job):
        return StagedRows(job, [])
    hold(job)
    return StagedRows(job, stage_rows(job, writing, context.partitionId(), rows))


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[list[StagedPart]]:
    return [message.parts for message in messages if isinstance(message, StagedRows)]


def _jobs(messages: Sequence[WriterCommitMessage | None]) -> list[Job]:
    """The job that all messages are of, if there is any: tasks that failed sent none."""
    return [message.job for message in messages if isinstance(message, StagedRows)][:1]


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Refuse rows that are no records (KafkaWriter.validateQuery); other columns are ignored."""
    types = {field.name: field.dataType.simpleString() for field in schema}
    if "value" not in types:
        raise OptionError("Required attribute 'value' not found")
    if options.topic is None and "topic" not in types:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for"
            " setting a topic."
        )
    wanted = _TYPES | ({"offset": ("bigint", "int")} if options.keep_offsets else {})
    for name, allowed in wanted.items():
        if name in types and types[name] not in allowed:
            raise OptionError(
                f"{name} attribute unsupported type {types[name]}. {name} must be a(n)"
                f" {' or '.join(allowed)}"
            )
    if options.keep_offsets and "offset" not in types:
        raise OptionError("keepOffsets: Required attribute 'offset' not found")
