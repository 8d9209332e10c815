"""`format("kafka-log")`: what Spark asks of a source, answered by the readers.

Spark imports this module while it looks for sources of other packages too, so everything heavy is
imported by the method that needs it.
"""

import warnings

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType


class KafkaLogSource(DataSource):
    """Log directories of Kafka, read like topics. There is no `pushFilters`: see docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "kafka-log"

    def schema(self) -> StructType:
        from ottla.options.read import parse_read_options
        from ottla.spark.schema import schema_of

        options = parse_read_options(self.options)
        if options.ignored:
            warnings.warn(
                f"options that only a broker needs are ignored: {', '.join(options.ignored)}",
                stacklevel=1,
            )
        return schema_of(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.internal.views import VIEWS
        from ottla.options.read import for_batch, parse_read_options
        from ottla.spark.internal_views import InternalViewReader
        from ottla.spark.reader import KafkaLogReader

        options = for_batch(parse_read_options(self.options))
        reader = InternalViewReader if options.view in VIEWS else KafkaLogReader
        return reader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from ottla.options.read import for_stream, parse_read_options
        from ottla.spark.stream import KafkaLogStreamReader

        return KafkaLogStreamReader(for_stream(parse_read_options(self.options)), schema)
