"""Tables that Spark's tasks wrote hold the rows of the Spark source, column by column."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from choosing import choose
from jobs.topics import write_topic
from lake.readers import FORMATS, read_table
from ottla.jobs.export.plan import plan_export
from ottla.jobs.run import run_output_job
from ottla.options.export import ExportOptions, FileFormat
from ottla.spark.engine import SparkEngine

pytestmark = pytest.mark.spark


def plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_has_the_rows_of_the_source(spark: SparkSession, tmp_path: Path, form: str) -> None:
    write_topic(tmp_path / "logs", "orders", partitions=2)
    options = ExportOptions(format=FileFormat(form), split_bytes=20_000)
    for _ in range(2):
        plan = plan_export(choose(tmp_path / "logs"), str(tmp_path / "t"), options)
        run_output_job(SparkEngine(spark), plan)
    source = spark.read.format("kafka-log").option("includeHeaders", "true")
    frame = source.load(str(tmp_path / "logs"))
    table = read_table(tmp_path / "t", form)
    assert sorted(table.schema.names) == sorted(frame.columns)
    theirs = frame.selectExpr(
        "partition",
        "offset",
        "topic",
        "key",
        "value",
        "timestampType",
        "unix_micros(timestamp)",
        "transform(headers, h -> struct(h.key, h.value))",
    )
    expected = sorted(
        [*map(plain, row[:-1]), row[-1] and [tuple(map(plain, pair)) for pair in row[-1]]]
        for row in theirs.collect()
    )
    names = ["partition", "offset", "topic", "key", "value", "timestampType", "timestamp"]
    at = table.schema.get_field_index("timestamp")
    table = table.set_column(at, "timestamp", table["timestamp"].cast("int64"))
    found = sorted(
        # pyiceberg gives a list without elements for a list that is null.
        [*(row[name] for name in names), [*map(pair, row["headers"] or [])] or None]
        for row in table.to_pylist()
    )
    assert found == expected


def pair(header: dict[str, Any]) -> tuple[Any, Any]:
    return header["key"], header["value"]
