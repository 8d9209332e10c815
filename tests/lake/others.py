"""Reads tables in an environment of its own: `others.py READER FORMAT TABLE...`, rows as JSON.

It imports nothing of ours: DuckDB with its extensions from PyPI, or Spark with the runtimes of
Iceberg and Delta, in the versions for which there are some.
"""

import base64
import glob
import json
import sys
from typing import Any

PACKAGES = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,io.delta:delta-spark_4.1_2.13:4.4.0"
)


def newest_metadata(table: str) -> str:
    return sorted(glob.glob(f"{table}/metadata/*.metadata.json"))[-1]


def fields_of(columns: list[str]) -> list[str]:
    within = "kafka." if "kafka" in columns else ""
    names = ("topic", "partition", "offset", "timestamp")
    return [*(f"{within}{name}" for name in names), "key", "value", "headers"]


def open_duckdb() -> Any:
    import duckdb

    connection = duckdb.connect()
    for name in ("avro", "iceberg", "delta"):
        folder = __import__(f"duckdb_extension_{name}").__path__[0]
        (path,) = glob.glob(f"{folder}/**/*.duckdb_extension", recursive=True)
        connection.execute(f"LOAD '{path}'")
    return connection


def read_duckdb(connection: Any, form: str, table: str) -> list[tuple[Any, ...]]:
    scan = f"delta_scan('{table}')"
    if form == "iceberg":
        scan = f"iceberg_scan('{newest_metadata(table)}')"
    columns = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()]
    quoted = [".".join(f'"{name}"' for name in field.split(".")) for field in fields_of(columns)]
    topic, partition, offset, timestamp, *rest = quoted
    chosen = f"{topic}, {partition}, {offset}, epoch_ms({timestamp}), {', '.join(rest)}"
    return list(connection.execute(f"SELECT {chosen} FROM {scan}").fetchall())


def open_spark() -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.jars.packages": PACKAGES,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read_spark(spark: Any, form: str, table: str) -> list[tuple[Any, ...]]:
    frame = spark.read.format(form).load(newest_metadata(table) if form == "iceberg" else table)
    topic, partition, offset, timestamp, *rest = fields_of(frame.columns)
    chosen = [topic, partition, offset, f"unix_millis({timestamp})", *rest]
    return [tuple(row) for row in frame.selectExpr(*chosen).collect()]


def plain(value: Any) -> Any:
    """What JSON has: bytes as base64, headers as pairs, other structs as lists too."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        value = list(value.values())
    return [*map(plain, value)] if isinstance(value, list | tuple) else value


def main(reader: str, form: str, *tables: str) -> None:
    engine = open_duckdb() if reader == "duckdb" else open_spark()
    read = read_duckdb if reader == "duckdb" else read_spark
    for table in tables:
        rows = sorted(read(engine, form, table), key=lambda row: row[:3])
        print(json.dumps([[plain(value) for value in row] for row in rows]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
