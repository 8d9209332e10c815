"""Why the source defines no `pushFilters`: Spark mixes up the filters of different queries."""

import sys
from collections.abc import Iterator

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    Filter,
    GreaterThanOrEqual,
    InputPartition,
)
from pyspark.sql.types import StructType

from ottla.spark.reader import KafkaLogReader

pytestmark = pytest.mark.spark


class Pushed(DataSourceReader):
    """Ten offsets, of which it gives those that the filters it was told of allow."""

    def __init__(self) -> None:
        self.least = 0

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        for condition in filters:
            if isinstance(condition, GreaterThanOrEqual):
                self.least = condition.value
            yield condition

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return iter([(offset,) for offset in range(self.least, 10)])


class PushedSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "pushed"

    def schema(self) -> str:
        return "offset bigint"

    def reader(self, schema: StructType) -> DataSourceReader:
        return Pushed()


def test_filters_must_not_be_pushed_while_spark_mixes_up_queries(spark: SparkSession) -> None:
    """When this fails, Spark was mended: `pushFilters` could then prune offsets and times."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(PushedSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("pushed").load()
        assert frame.where("offset >= 7").count() == 3
        assert frame.count() == 3  # there are ten
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_the_reader_pushes_no_filters() -> None:
    assert KafkaLogReader.pushFilters is DataSourceReader.pushFilters
