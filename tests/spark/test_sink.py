"""`df.write.format("kafka-log")` and `writeStream`: rows in, logs that anybody can read out."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jobs.plain import records_of, tree
from ottla.log.files.partition import find_partitions
from ottla.publish.journal import open_journals
from whole_log import check_partition

pytestmark = pytest.mark.spark

# The partition of each key among 7, by kafka-clients 4.3.1.
KEYS = {"fb": 3, "fb8c": 3, "fb67d3": 6, "fb1d3f6183": 2, "fbf8f5f2efec": 0, "fbd3ab835b330b": 5}


def save(frame: DataFrame, out: Path, **options: object) -> None:
    frame.write.format("kafka-log").options(**options).mode("append").save(str(out))


def numbers(spark: SparkSession, count: int, tasks: int) -> DataFrame:
    """Values 0, 1, ... of partition 0 of topic t."""
    value = F.col("id").cast("string").alias("value")
    partition = F.lit(0).alias("partition")
    return spark.range(0, count, 1, tasks).select(value, partition, F.lit("t").alias("topic"))


def values_of(folder: Path) -> list[int]:
    records = records_of(folder)
    assert [record[0] for record in records] == list(range(len(records)))
    return [int(record[3] or b"-1") for record in records]


def assert_sound(out: Path) -> None:
    found = [each for one in find_partitions([out]) for each in check_partition(one)]
    assert [each for each in found if each.rule.severity != "note"] == []
    assert open_journals(str(out)) == []


def test_rows_are_read_back_as_they_were_written(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        (bytes.fromhex(key), "größer", "t", 1_700_000_000.25 + at, [("h", b"1"), ("h", None)])
        for at, key in enumerate(KEYS)
    ]
    schema = (
        "key binary, value string, topic string, seconds double,"
        " headers array<struct<key: string, value: binary>>"
    )
    frame = spark.createDataFrame(rows, schema).withColumn(
        "timestamp", F.col("seconds").cast("timestamp")
    )
    save(frame, tmp_path / "out", numPartitions=7, codec="zstd", level=5)
    back = (
        spark.read.format("kafka-log").option("includeHeaders", "true").load(str(tmp_path / "out"))
    )
    found = {row.key.hex(): row for row in back.collect()}
    assert {key: row.partition for key, row in found.items()} == KEYS
    for at, key in enumerate(KEYS):
        row = found[key]
        assert (row.topic, bytes(row.value).decode()) == ("t", "größer")
        assert row.timestamp.timestamp() == 1_700_000_000.25 + at
        assert [tuple(header) for header in row.headers] == [("h", b"1"), ("h", None)]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"t-{partition}" for partition in range(7)
    ]
    assert_sound(tmp_path / "out")


def test_several_tasks_write_one_partition_in_their_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    save(numbers(spark, 1000, tasks=5), out)
    assert values_of(out / "t-0") == list(range(1000))
    save(numbers(spark, 10, tasks=2), out)
    assert values_of(out / "t-0") == [*range(1000), *range(10)]
    assert_sound(out)


def test_a_topic_can_be_copied_with_its_offsets(spark: SparkSession, tmp_path: Path) -> None:
    save(numbers(spark, 500, tasks=3), tmp_path / "out")
    read = spark.read.format("kafka-log").option("splitBytes", "1k").load(str(tmp_path / "out"))
    some = read.where("offset % 7 < 3 and offset > 20")
    save(some, tmp_path / "copy", topic="u", keepOffsets="true")
    assert [record[0] for record in records_of(tmp_path / "copy" / "u-0")] == [
        offset for offset in range(21, 500) if offset % 7 < 3
    ]
    assert_sound(tmp_path / "copy")


def test_rows_without_a_key_are_spread(spark: SparkSession, tmp_path: Path) -> None:
    frame = numbers(spark, 4000, tasks=2).select("value")
    save(frame, tmp_path / "out", topic="t", numPartitions=4, batchBytes=512)
    counts = Counter(int(path.name[-1]) for path in (tmp_path / "out").iterdir())
    held = [len(records_of(tmp_path / "out" / f"t-{partition}")) for partition in counts]
    assert sum(held) == 4000
    assert min(held) > 500


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["'v' as v"], {"topic": "t"}, "Required attribute 'value' not found"),
        (["'v' as value"], {}, "topic option required when no 'topic' attribute is present"),
        (["1 as value"], {"topic": "t"}, "value attribute unsupported type int"),
        (["'v' as value", "1 as key"], {"topic": "t"}, "key must be a(n) string or binary"),
        (["'v' as value", "1 as topic"], {}, "topic attribute unsupported type int"),
        (["'v' as value", "'0' as partition"], {"topic": "t"}, "partition must be a(n) int"),
        (["'v' as value", "'0' as timestamp"], {"topic": "t"}, "timestamp must be a(n) timestamp"),
        (["'v' as value", "'h' as headers"], {"topic": "t"}, "headers must be a(n) array"),
        (["'v' as value"], {"topic": "t", "keepOffsets": "true"}, "attribute 'offset' not found"),
        (["'v' as value"], {"topic": "t", "numPartition": "3"}, "did you mean numPartitions?"),
        (
            ["'v' as value"],
            {"topic": "t", "kafka.key.serializer": "x"},
            "option kafka.key.serializer is not supported",
        ),
    ],
)
def test_what_is_no_record_is_refused_before_any_task(
    spark: SparkSession, tmp_path: Path, columns: list[str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException) as error:
        save(spark.range(1).selectExpr(*columns), tmp_path / "out", **options)
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()


def test_overwriting_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    writer = numbers(spark, 1, tasks=1).write.format("kafka-log").mode("overwrite")
    with pytest.raises(AnalysisException, match="overwrite is not supported"):
        writer.save(str(tmp_path / "out"))


def test_a_save_that_fails_in_a_task_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    save(numbers(spark, 10, tasks=2), out)
    before = tree(out)
    broken = numbers(spark, 1000, tasks=3).withColumn(
        "topic", F.when(F.col("value") != "900", F.col("topic"))
    )
    with pytest.raises(PythonException, match="null topic present in the data"):
        save(broken, out)
    assert tree(out) == before
    assert open_journals(str(out)) == []


def add_file(folder: Path, number: int, values: range) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"value": str(value), "key": str(value % 5)}) for value in values]
    (folder / f"{number}.json").write_text("\n".join(lines))
    os.utime(folder / f"{number}.json", (number, number))  # Spark takes them in this order


def run_stream(spark: SparkSession, folder: Path, out: Path, **options: Any) -> None:
    frame = (
        spark.readStream.schema("key string, value string")
        .option("maxFilesPerTrigger", 1)
        .json(str(folder))
    )
    writer = frame.writeStream.format("kafka-log").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder.with_name("state")))
    writer.options(topic="t", numPartitions=2, **options).start(str(out)).awaitTermination()


def test_a_stream_holds_each_row_once_when_its_last_batch_comes_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    for number in range(2):
        add_file(folder, number, range(10 * number, 10 * number + 10))
    run_stream(spark, folder, out)
    # As if the driver had died after our commit, before Spark noted it down.
    commits = tmp_path / "state" / "commits"
    for name in ("1", ".1.crc"):
        (commits / name).unlink()
    before = tree(out)
    run_stream(spark, folder, out)
    assert tree(out) == before
    add_file(folder, 2, range(20, 30))
    run_stream(spark, folder, out)
    held = [records_of(out / f"t-{partition}") for partition in range(2)]
    assert sorted(int(record[3]) for records in held for record in records) == list(range(30))
    for records in held:
        assert [record[0] for record in records] == list(range(len(records)))
    assert_sound(out)


def test_complete_mode_appends_the_whole_result_of_every_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    for number in range(2):
        add_file(folder, number, range(10))
    frame = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1)
    counts = frame.json(str(folder)).groupBy("key").count()
    rows = counts.selectExpr("key", "cast(count as string) as value", "0 as partition")
    writer = rows.writeStream.format("kafka-log").outputMode("complete").option("topic", "t")
    writer = writer.option("checkpointLocation", str(tmp_path / "state"))
    writer.trigger(availableNow=True).start(str(out)).awaitTermination()
    assert sorted(values_of(out / "t-0")) == [2] * 5 + [4] * 5
