"""A scan handed over to Spark gives there the rows that it has here."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import ottla
from builders import Row, batch
from jobs.topics import write_partition

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> ottla.Log:
    """All codecs and magics, transactions, damage; and a topic of JSON with what is none."""
    folder = tmp_path_factory.mktemp("spark-scan") / "logs"
    for number in range(3):
        write_partition(folder / f"orders-{number}", seed=number, indexes=number != 1)
    damaged = sorted((folder / "orders-2").glob("*.log"))[1]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 0xFF
    damaged.write_bytes(data)
    (folder / "json-0").mkdir()
    values = [b'{"a": 1}', b"plain", b"\xff", None]
    rows = [Row(n, 1_700_000_000_000 + n, b"k", value) for n, value in enumerate(values)]
    (folder / "json-0" / f"{0:020d}.log").write_bytes(batch(rows))
    return ottla.open(folder)


SCANS: list[dict[str, Any]] = [
    {"mode": "DROPMALFORMED"},
    {"mode": "DROPMALFORMED", "isolation": "read_committed", "partitions": [0, 2]},
    {"mode": "PERMISSIVE", "columns": ["offset", "file", "codec"]},
    {"partitions": [0, 1], "start": 40, "end": 400},
    {"partitions": [0, 1], "start": "2023-11-14T22:13:22Z", "end": 10**9},
    {"partitions": [1], "start": {1: 77}, "where": "key = 'key-3' and offset < 500"},
    {"mode": "DROPMALFORMED", "start": 10**6},
]


@pytest.mark.parametrize("given", SCANS, ids=range(len(SCANS)))
def test_spark_has_the_rows_of_a_scan(
    spark: SparkSession, log: ottla.Log, given: dict[str, Any]
) -> None:
    scan = log.scan("orders", **given)
    frame = scan.to_spark(spark)
    assert frame.columns == scan.schema.names
    found, expected = frame.toArrow(), scan.to_arrow()
    assert rows_of(found) == rows_of(expected)


def rows_of(table: pa.Table) -> list[str]:
    """In any order: where a row about damage stands depends on how tasks are cut."""
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize("kind", ["binary", "utf8", "json"])
def test_values_are_decoded_alike(spark: SparkSession, log: ottla.Log, kind: str) -> None:
    scan = log.scan("json", key_as="utf8", value_as=kind)
    frame = scan.to_spark(spark)
    assert frame.toArrow().to_pylist() == scan.to_arrow().to_pylist()
    assert frame.columns == scan.schema.names


def test_views_and_refusals(spark: SparkSession, log: ottla.Log) -> None:
    batches = log.batches("orders")
    assert batches.to_spark(spark).count() == batches.count()
    assert log.violations().to_spark(spark).count() == log.violations().count() == 1
    with pytest.raises(ottla.OptionError, match="leave out raw=True"):
        log.scan("orders", raw=True).to_spark(spark)


def test_a_job_runs_on_spark(spark: SparkSession, log: ottla.Log, tmp_path: Path) -> None:
    here = log.convert(tmp_path / "here", "json", codec="zstd")
    there = log.convert(tmp_path / "there", "json", codec="zstd", engine="spark")
    one, other = here.to_pylist(), there.to_pylist()
    for row in (*one, *other):
        del row["seconds"]
    assert one == other
