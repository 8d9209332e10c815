"""`ottla.read_log` and `write_log`: source and sink for those who would rather call a function."""

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from ottla.options.read import parse_read_options
from ottla.spark import register
from ottla.spark.schema import choose_columns
from ottla.spark.words import with_schemas

Option = str | bool | int | dict[str, object]
Frame = DataFrame
Session = SparkSession


def read_log(
    path: str,
    *,
    columns: Sequence[str] | None = None,
    spark: SparkSession | None = None,
    **options: Option,
) -> DataFrame:
    """As `ottla.read_log`, which is what programs call."""
    session = spark or SparkSession.active()
    register(session)
    texts = {name: _text(value) for name, value in options.items()}
    reader = session.read.format("kafka-log").options(**texts)
    if columns is not None:
        given = with_schemas(parse_read_options(texts | {"path": path}))
        reader = reader.schema(choose_columns(columns, given))
    return reader.load(path)


def write_log(frame: DataFrame, path: str, **options: Option) -> None:
    """As `ottla.write_log`, which is what programs call."""
    register(frame.sparkSession)
    texts = {name: _text(value) for name, value in options.items()}
    frame.write.format("kafka-log").options(**texts).mode("append").save(path)


def _text(value: Option) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, dict) else str(value)
