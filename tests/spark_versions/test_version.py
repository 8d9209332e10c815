"""Source, sink, streams and jobs on the Spark of this environment.

`make test-spark-versions` runs this with each version, in an environment of its own.
"""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql import functions as F  # noqa: N812

import ottla
from builders import Row, batch
from jobs.plain import records_of
from jobs.same import COMMANDS, SPLITS, check_commands
from jobs.test_salvage import damaged_topic
from jobs.topics import Written, write_topic
from ottla.errors import OptionError
from ottla.publish.journal import open_journals
from ottla.spark.start import choose_master
from ottla.spark.versions import Feature, has, require

pytestmark = pytest.mark.spark_versions

DATA = ("partition", "offset", "key", "value")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sound") / "logs"


@pytest.fixture(scope="module")
def topic(logs: Path) -> list[Written]:
    return write_topic(logs, "orders", partitions=2)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damaged_topic(tmp_path_factory.mktemp("damaged"))


def load(spark: SparkSession, path: Path, **options: object) -> DataFrame:
    return spark.read.format("kafka-log").options(**options).load(str(path))


def plain(value: Any) -> Any:
    """A cell of Spark's or Arrow's as Python has it."""
    if isinstance(value, list):
        structs = [each.values() if isinstance(each, dict) else each for each in value]
        return [tuple(map(plain, each)) for each in structs]
    return bytes(value) if isinstance(value, bytearray) else value


def lines(frame: DataFrame) -> list[tuple[Any, ...]]:
    found = [tuple(map(plain, row)) for row in frame.collect()]
    return sorted(found, key=lambda row: row[:2])


def written_lines(topic: list[Written]) -> list[tuple[Any, ...]]:
    return [(part.partition, row.offset, row.key, row.value) for part in topic for row in part.rows]


def test_the_table_of_versions_is_what_this_version_has() -> None:
    assert {feature: has(feature) for feature in Feature} == {
        Feature.STREAM_LIMITS: find_spec("pyspark.sql.streaming.datasource") is not None,
        Feature.ARROW_STREAM_SINK: hasattr(datasource, "DataSourceStreamArrowWriter"),
        Feature.PARTITION_BY_ID: hasattr(DataFrame, "repartitionById"),
    }


@pytest.mark.parametrize("split", ["2000", "64m"])
def test_rows_are_those_of_the_embedded_reader(
    spark: SparkSession, logs: Path, topic: list[Written], split: str
) -> None:
    """The first query of the session: the source is found by the package `pyspark_ottla`."""
    frame = load(spark, logs, splitBytes=split, includeHeaders=True)
    assert lines(frame.select(*DATA)) == written_lines(topic)
    names = ["partition", "offset", "topic", "timestampType", "headers", "key", "value"]
    rows = ottla.open(str(logs)).scan("orders", columns=names).to_arrow().to_pylist()
    embedded = [tuple(plain(row[name]) for name in names) for row in rows]
    assert lines(frame.select(*names)) == sorted(embedded, key=lambda row: row[:2])
    times = frame.select("partition", "offset", F.unix_millis("timestamp")).collect()
    expected = [(part.partition, row.offset, row.timestamp) for part in topic for row in part.rows]
    assert sorted(map(tuple, times)) == expected


def test_columns_are_chosen_and_rows_filtered(
    spark: SparkSession, logs: Path, topic: list[Written]
) -> None:
    some = spark.read.format("kafka-log").schema("offset bigint, partition int").load(str(logs))
    assert some.columns == ["offset", "partition"]
    wanted = [(line[1], line[0]) for line in written_lines(topic)]
    assert sorted(map(tuple, some.collect())) == sorted(wanted)
    below = [line for line in written_lines(topic) if line[1] < 100]
    frame = load(spark, logs)
    assert lines(frame.where("offset < 100").select(*DATA)) == below
    assert lines(load(spark, logs, where="offset < 100").select(*DATA)) == below
    assert frame.count() == len(wanted)  # the same frame after its filter
    columns = ottla.read_log(str(logs), columns=["value", "file"], spark=spark)
    assert columns.columns == ["value", "file"]
    assert columns.count() == len(wanted)


def test_views_show_batches_and_violations(spark: SparkSession, damaged: Path) -> None:
    assert load(spark, damaged, view="batches", mode="DROPMALFORMED").count() > 10
    broken = load(spark, damaged, view="violations").count()
    assert broken > 0
    assert load(spark, damaged, mode="PERMISSIVE").where("_corrupt is not null").count() == broken


def append(folder: Path, first: int, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{0:020d}.log").open("ab") as log:
        for offset in range(first, first + count):
            log.write(batch([Row(offset, 1000, None, b"%d" % offset)]))


def run_stream(spark: SparkSession, logs: Path, sink: Path, **options: object) -> list[Any]:
    """Read all that is there now into the sink; the progress of the batches that had rows."""
    reader = spark.readStream.format("kafka-log").options(startingOffsets="earliest", **options)
    writer = reader.load(str(logs)).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", f"{sink}.state").trigger(availableNow=True)
    query = writer.start(str(sink))
    query.awaitTermination()
    return [progress for progress in query.recentProgress if progress.numInputRows > 0]


def test_a_stream_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    logs, sink = tmp_path / "logs", tmp_path / "sink"
    append(logs / "t-0", 0, 10)
    first = run_stream(spark, logs, sink)
    append(logs / "t-0", 10, 5)
    append(logs / "t-1", 0, 2)
    second = run_stream(spark, logs, sink)
    assert [len(first), len(second)] == [1, 1]
    found = sorted(
        map(tuple, spark.read.parquet(str(sink)).select("partition", "offset").collect())
    )
    assert found == [(0, offset) for offset in range(15)] + [(1, offset) for offset in range(2)]
    kept = [json.loads(text.splitlines()[-1]) for text in read_all(tmp_path / "sink.state/offsets")]
    assert kept == [{"t": {"0": 10}}, {"t": {"0": 15, "1": 2}}]
    assert "15" in second[0].sources[0].latestOffset


def read_all(folder: Path) -> list[str]:
    names = sorted(path.name for path in folder.iterdir() if path.name.isdigit())
    return [(folder / name).read_text() for name in names]


@pytest.mark.parametrize(
    ("option", "value"),
    [("maxOffsetsPerTrigger", 6), ("minOffsetsPerTrigger", 6), ("maxBytesPerTrigger", 300)],
)
def test_limits_of_a_stream_hold_or_are_refused(
    spark: SparkSession, tmp_path: Path, option: str, value: int
) -> None:
    append(tmp_path / "logs/t-0", 0, 10)
    given = {option: value}
    if has(Feature.STREAM_LIMITS):
        batches = run_stream(spark, tmp_path / "logs", tmp_path / "sink", **given)
        assert len(batches) > 1 or option.startswith("min")
        assert sum(one.numInputRows for one in batches) == 10
        return
    with pytest.raises((AnalysisException, StreamingQueryException)) as refused:
        run_stream(spark, tmp_path / "logs", tmp_path / "sink", **given)
    said = rf"option {option} needs Spark 4\.2 or newer, and this is {re.escape(spark.version)}"
    assert re.search(said, str(refused.value))


def test_a_feature_that_is_missing_is_refused_with_a_sentence() -> None:
    for feature in Feature:
        if has(feature):
            require(feature, "this")
            continue
        with pytest.raises(OptionError, match=r"this needs Spark 4\.[12] or newer, and this is 4"):
            require(feature, "this")


def test_a_save_appends_what_everybody_can_read(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    frame = spark.range(0, 1000, 1, 4).select(
        F.concat(F.lit("key "), F.col("id") % 50).alias("key"),
        F.col("id").cast("string").alias("value"),
        F.timestamp_seconds(F.col("id") + 1_700_000_000).alias("timestamp"),
        F.array(F.struct(F.lit("h").alias("key"), F.lit(b"1").alias("value"))).alias("headers"),
    )
    options = {"topic": "t", "numPartitions": 3, "codec": "zstd"}
    for _ in range(2):
        frame.write.format("kafka-log").options(**options).mode("append").save(str(out))
    assert sorted(path.name for path in out.iterdir()) == ["t-0", "t-1", "t-2"]
    held = [records_of(out / f"t-{number}") for number in range(3)]
    for records in held:
        assert [record[0] for record in records] == list(range(len(records)))
    found = sorted(record[1:] for records in held for record in records)
    expected = [
        ((1_700_000_000 + n) * 1000, b"key %d" % (n % 50), b"%d" % n, ((b"h", b"1"),))
        for n in range(1000)
        for _ in range(2)
    ]
    assert found == sorted(expected)
    assert open_journals(str(out)) == []


@pytest.mark.parametrize("mode", ["overwrite", "error"])
def test_only_appending_is_allowed(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    writer = spark.range(1).selectExpr("'v' as value").write.format("kafka-log")
    with pytest.raises(AnalysisException):
        writer.option("topic", "t").mode(mode).save(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_stream_into_a_log_holds_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    """Twice with one checkpoint; then the last batch once more, as after a crash."""
    logs, out = tmp_path / "logs", tmp_path / "out"

    def run() -> None:
        reader = spark.readStream.format("kafka-log").option("startingOffsets", "earliest")
        rows = reader.load(str(logs)).select("key", "value", "timestamp", "partition")
        writer = rows.writeStream.format("kafka-log").options(topic="u", numPartitions=2)
        writer = writer.option("checkpointLocation", str(tmp_path / "state"))
        writer.trigger(availableNow=True).start(str(out)).awaitTermination()

    for number in range(2):
        append(logs / "t-0", 20 * number, 20)
        append(logs / "t-1", 5 * number, 5)
        run()
    last = max((tmp_path / "state/commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    run()
    for number, count in enumerate([40, 10]):
        records = records_of(out / f"u-{number}")
        assert [record[0] for record in records] == list(range(count))
        assert sorted(int(record[3] or b"") for record in records) == list(range(count))
        assert {record[1] for record in records} == {1000}
    assert open_journals(str(out)) == []


@pytest.mark.usefixtures("spark")
def test_jobs_give_on_spark_what_they_give_in_one_process(
    logs: Path, topic: list[Written], damaged: Path, tmp_path: Path
) -> None:
    """The same exit code, account and files: commands with `--engine spark`."""
    names = ("verify", "export LOGS", "salvage", "convert", "compact")
    some = {text: status for text, status in COMMANDS.items() if text.startswith(names)}
    assert len(some) == len(names)
    check_commands(logs, damaged, tmp_path, SPLITS[1], some)


def run_command(*words: object, **changes: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    command = [sys.executable, "-m", "ottla.cli", *map(str, words)]
    return subprocess.run(command, env=kept | changes, capture_output=True, text=True, timeout=600)


def test_a_command_starts_a_spark_of_its_own_and_is_quiet(
    logs: Path, topic: list[Written], tmp_path: Path
) -> None:
    done = run_command("export", logs, tmp_path / "out", "--master", "local[2]", "--json")
    assert done.stderr.splitlines() == ["ottla: export runs on Spark: local[2]"]
    account = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(row["writtenRecords"] for row in account) == len(written_lines(topic))


def test_a_server_of_connect_is_no_master(logs: Path) -> None:
    with pytest.raises(OptionError, match="is a server of Spark Connect: source and sink work"):
        choose_master("sc://127.0.0.1:15002")
    done = run_command("verify", logs, "--master", "sc://127.0.0.1:15002")
    assert done.returncode == 2
    assert "Name the cluster's master" in done.stderr
