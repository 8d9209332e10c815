"""The Spark source reads encrypted remote objects; workers have the keys in their environment."""

from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import ottla
from tiered.encoder import GOLDEN, Mode, upload_of, write_upload

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("mode", ["plain", "zstd-aes"])
def test_golden_objects_are_rows(spark: SparkSession, mode: str) -> None:
    original = ottla.read_segment(GOLDEN / "original" / f"{1000:020d}.log")
    values = [value for batch in original for value in batch.column("value").to_pylist()]
    frame = ottla.read_log(str(GOLDEN / mode), spark=spark)
    rows = frame.select("topic", "partition", "offset", "value").sort("offset").collect()
    assert [bytes(row["value"]) for row in rows] == values
    assert {(row["topic"], row["partition"]) for row in rows} == {("orders", 0)}


def test_tasks_are_cut_at_chunks_and_miss_nothing(spark: SparkSession, tmp_path: Path) -> None:
    upload = upload_of(0, range(3000), {5: 0})
    write_upload(tmp_path, upload, Mode(20_000, compress=True, key_id="key1"))
    frame = ottla.read_log(str(tmp_path), spark=spark, splitBytes="40k")
    assert frame.rdd.getNumPartitions() > 3
    assert [row["offset"] for row in frame.select("offset").sort("offset").collect()] == list(
        range(3000)
    )


def test_a_broken_chunk_names_itself(spark: SparkSession, tmp_path: Path) -> None:
    upload = upload_of(0, range(300), {5: 0})
    path = write_upload(tmp_path, upload, Mode(4000, compress=True, key_id="key1"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(PythonException, match="its tag is wrong"):
        ottla.read_log(str(tmp_path), spark=spark).count()
    left = ottla.read_log(str(tmp_path), spark=spark, mode="DROPMALFORMED").count()
    assert 200 < left < 300
