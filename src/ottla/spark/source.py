"""`format("kafka-log")`: what Spark asks of a source, answered by the readers and writers.

Spark imports this module while it looks for sources of other packages too, so everything heavy is
imported by the method that needs it.
"""

import warnings
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from ottla.options.write import WriteOptions
    from ottla.schemas.plans import PayloadPlans

_LIMITS: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
)


class KafkaLogSource(DataSource):
    """Log directories of Kafka, read and written like topics.

    There is no `pushFilters`: see docs/spark.md.
    """

    # What schemas made of the columns of `schema`; Spark sends the source with it to the reader.
    _payloads: "PayloadPlans | None" = None

    @classmethod
    def name(cls) -> str:
        return "kafka-log"

    def schema(self) -> StructType:
        from ottla.options.read import parse_read_options
        from ottla.spark.schema import schema_of
        from ottla.spark.words import with_schemas

        options = parse_read_options(self.options)
        _warn(options.ignored)
        options = with_schemas(options)
        self._payloads = options.payloads
        return schema_of(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.internal.views import VIEWS
        from ottla.options.read import for_batch, parse_read_options
        from ottla.spark.internal_views import InternalViewReader
        from ottla.spark.reader import KafkaLogReader
        from ottla.spark.words import with_schemas

        options = with_schemas(for_batch(parse_read_options(self.options)), self._payloads)
        reader = InternalViewReader if options.view in VIEWS else KafkaLogReader
        return reader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from ottla.options.read import for_stream, parse_read_options
        from ottla.spark.versions import Feature, has, require
        from ottla.spark.words import with_schemas

        for name in _LIMITS:
            if name in self.options:
                require(Feature.STREAM_LIMITS, f"option {name}")
        options = with_schemas(for_stream(parse_read_options(self.options)), self._payloads)
        if has(Feature.STREAM_LIMITS):
            from ottla.spark.stream_limits import LimitedStreamReader

            return LimitedStreamReader(options, schema)
        from ottla.spark.stream import KafkaLogStreamReader

        return KafkaLogStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ottla.errors import OptionError
        from ottla.spark.sink import KafkaLogWriter

        if overwrite:
            raise OptionError("mode overwrite is not supported: logs are only appended to")
        return KafkaLogWriter(self._write_options(), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        from ottla.spark.sink import KafkaLogStreamWriter

        # Output mode complete sets `overwrite`; like the connector we append its rows.
        return KafkaLogStreamWriter(self._write_options(), schema)

    def _write_options(self) -> "WriteOptions":
        from ottla.options.write import parse_write_options

        options = parse_write_options(self.options)
        _warn(options.ignored)
        return options


def _warn(ignored: tuple[str, ...]) -> None:
    if ignored:
        warnings.warn(
            f"options that only a broker needs are ignored: {', '.join(ignored)}", stacklevel=2
        )
