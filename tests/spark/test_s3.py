"""Log directories in a bucket through Spark: workers read them, jobs write there as on a disk."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from choosing import choose
from jobs.plain import run_plainly, tree
from jobs.topics import Written, write_topic
from log.s3 import BUCKET, Server, s3_server
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.output import OutputJob
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.jobs.run import run_output_job
from ottla.publish.journal import open_journals
from ottla.spark.engine import SparkEngine
from ottla.storage.object_store import StorageOptions

pytestmark = pytest.mark.spark

JOBS = ["export", "restore"]
SPLIT = 20_000


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[Server]:
    """After the session, whose environment has the credentials."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with s3_server() as running:
        yield running


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s3") / "logs"


@pytest.fixture(scope="module")
def topic(logs: Path, server: Server) -> list[Written]:
    """A topic on a disk, and a copy of it in the bucket."""
    written = write_topic(logs, "orders")
    client = server.client()
    for name, data in tree(logs).items():
        client.put_object(Bucket=BUCKET, Key=f"kafka-logs/{name}", Body=data)
    return written


def objects(server: Server, prefix: str) -> dict[str, bytes]:
    """What the bucket holds below a prefix, by boto3."""
    client = server.client()
    listed = client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/").get("Contents", [])
    return {
        each["Key"].removeprefix(f"{prefix}/"): client.get_object(Bucket=BUCKET, Key=each["Key"])[
            "Body"
        ].read()
        for each in listed
    }


def plan(name: str, logs: str, out: str, storage: StorageOptions) -> OutputJob:
    selection = choose(logs, storage=storage)
    if name == "export":
        return plan_export(selection, out, ExportOptions(split_bytes=SPLIT))
    everything = compile_filter((), None, ())
    return plan_restore(selection, out, everything, Renaming({}, {}), split_bytes=SPLIT)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize("split", ["4k", "64m"])
def test_a_bucket_is_read_like_a_directory(
    spark: SparkSession, server: Server, topic: list[Written], scheme: str, split: str
) -> None:
    frame = (
        spark.read.format("kafka-log")
        .options(endpoint=server.endpoint, region="us-east-1", splitBytes=split)
        .options(**{"kafka.isolation.level": "read_committed"})
        .load(f"{scheme}://{BUCKET}/kafka-logs")
    )
    found = [
        (row.partition, row.offset, None if row.value is None else bytes(row.value))
        for row in frame.select("partition", "offset", "value").collect()
    ]
    expected = [
        (part.partition, row.offset, row.value) for part in topic for row in part.committed()
    ]
    assert sorted(found, key=lambda row: row[:2]) == expected


def test_an_offset_bound_reads_only_what_the_index_leaves(
    spark: SparkSession, server: Server, topic: list[Written]
) -> None:
    """Partition 0 has indexes: the segments before the last are not asked for."""
    last = max(row.offset for row in topic[0].rows)
    server.reads.clear()
    frame = (
        spark.read.format("kafka-log")
        .options(endpoint=server.endpoint, region="us-east-1", assign='{"orders": [0]}')
        .option("startingOffsets", f'{{"orders": {{"0": {last}}}}}')
        .load(f"s3://{BUCKET}/kafka-logs")
    )
    assert [row.offset for row in frame.collect()] == [last]
    segments = sorted(
        name for name in objects(server, "kafka-logs/orders-0") if name.endswith(".log")
    )
    asked = {key.rpartition("/")[2] for key, _, _ in server.reads if key.endswith(".log")}
    assert asked == {segments[-1]}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_writes_to_a_bucket_what_it_writes_to_a_disk(
    spark: SparkSession,
    server: Server,
    logs: Path,
    topic: list[Written],
    tmp_path: Path,
    name: str,
) -> None:
    storage = StorageOptions(endpoint=server.endpoint, region="us-east-1")
    source, out = f"s3://{BUCKET}/kafka-logs", f"s3://{BUCKET}/{name}"
    account = run_output_job(SparkEngine(spark), plan(name, source, out, storage))
    run_plainly(plan(name, str(logs), str(tmp_path / name), StorageOptions()))
    written = tree(tmp_path / name)
    assert objects(server, name) == written != {}
    assert open_journals(out, storage) == []
    again = run_output_job(SparkEngine(spark), plan(name, source, out, storage))
    assert objects(server, name) == written
    # A restore that is done says again what it did; an export finds nothing new.
    assert again == (account if name == "restore" else [])
