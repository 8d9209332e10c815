"""Typed columns by schemas in Spark: of an export, and of the source."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ottla
from schemas.test_export import EXPECTED, write_orders

pytestmark = pytest.mark.spark


def test_spark_reads_the_same(spark: SparkSession, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_orders(logs)
    ottla.open(logs).export(out, "orders", value_as="registry")
    read = spark.read.parquet(str(out)).orderBy("offset").select("value").collect()
    source = spark.read.format("kafka-log").option("valueAs", "registry")
    loaded = source.option("subscribe", "orders").load(str(logs)).orderBy("offset")
    for rows in (read, loaded.select("value").collect()):
        assert [row.value and row.value.asDict() for row in rows] == EXPECTED
    assert loaded.select("valueRaw").collect()[8].valueRaw == b"text"
    with pytest.raises(Exception, match="the columns of one topic"):
        source.option("subscribe", "orders,_schemas").load(str(logs)).schema  # noqa: B018


def test_columns_stay_what_a_query_was_told(spark: SparkSession, tmp_path: Path) -> None:
    """The registry is read once, when the columns are asked for."""
    write_orders(tmp_path)
    source = spark.read.format("kafka-log").option("valueAs", "registry")
    loaded = source.option("subscribe", "orders").load(str(tmp_path)).orderBy("offset")
    shutil.rmtree(tmp_path / "_schemas-0")
    rows = loaded.select("value").collect()
    assert [row.value and row.value.asDict() for row in rows] == EXPECTED
