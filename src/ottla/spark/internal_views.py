"""Views of internal topics: a task for each partition, as a group or an id lives in one only."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.arrow.permissive import corrupt_rows
from ottla.catalog.catalog import list_catalog
from ottla.errors import CorruptLogError
from ottla.internal.views import VIEWS
from ottla.jobs.read.internal_topics import find_internal_topic, read_view
from ottla.log.files.partition import Partition
from ottla.options.read import ReadOptions
from ottla.spark.reader import advise
from ottla.spark.rows import internal_rows
from ottla.spark.schema import arrow_schema, check_schema
from ottla.spark.words import naming_options


class InternalViewReader(DataSourceReader):
    """Files are listed at the first action and reused by every later one."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self.options = options
        self.target = arrow_schema(schema)

    @naming_options()
    def partitions(self) -> Sequence[InputPartition]:
        topic = VIEWS[self.options.view].topic
        catalog = list_catalog(self.options.paths, self.options.storage)
        found = find_internal_topic(catalog, topic)
        return [InputPartition(partition) for partition in found.partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition.value, self.options, self.target)


def _read(
    partition: Partition, options: ReadOptions, target: pa.Schema
) -> Iterator[pa.RecordBatch]:
    try:
        with naming_options():
            for contents in read_view(partition, VIEWS[options.view], options):
                for rows in contents.rows.to_batches():
                    yield internal_rows(rows, target)
                if contents.broken:
                    yield corrupt_rows(contents.broken, target)
    except CorruptLogError as error:
        raise advise(error) from None
