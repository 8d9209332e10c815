"""The lines of the README's tour of `ottla.open`, on a disk and in a bucket: all codecs, magics,
transactions and damage, with the rows of the Spark source."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb
import polars
import pyarrow as pa
import pytest

import ottla
from jobs.plain import tree
from jobs.topics import write_partition
from log.s3 import BUCKET, Server, s3_server
from ottla.catalog.slices import plan_tasks
from ottla.jobs.demo import make_logs
from ottla.options.read import for_batch, parse_read_options
from ottla.spark.reader import read_task
from ottla.spark.schema import arrow_schema, schema_of


class Place(NamedTuple):
    """Where logs are, and what opens them."""

    path: str
    storage: dict[str, str]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's logs, for internal topics and damage, beside partitions of every format."""
    folder = tmp_path_factory.mktemp("block") / "kafka-logs"
    make_logs(str(folder))
    for number in range(4):
        write_partition(folder / f"mixed-{number}", seed=number, indexes=number != 1)
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        with s3_server() as running:
            yield running


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, logs: Path) -> Place:
    if request.param == "local":
        return Place(str(logs), {})
    server = request.getfixturevalue("server")
    client = server.client()
    for name, data in tree(logs).items():
        client.put_object(Bucket=BUCKET, Key=f"backup/kafka-logs/{name}", Body=data)
    storage = {"endpoint": server.endpoint, "region": "us-east-1"}
    return Place(f"s3://{BUCKET}/backup/kafka-logs", storage)


def by_spark(place: Place, columns: list[str], **given: str) -> pa.Table:
    """What Spark's workers would give of a query."""
    options = for_batch(parse_read_options({"path": place.path, **place.storage, **given}))
    whole = arrow_schema(schema_of(options))
    target = pa.schema([whole.field(name) for name in columns])
    tasks = [*plan_tasks(options)]
    batches = [each for task in tasks for each in read_task(task, options, target)]
    return pa.Table.from_batches(batches, target)


def test_every_line_of_the_tour_runs(place: Place, tmp_path: Path) -> None:
    log = ottla.open(place.path, **place.storage)
    assert "orders" in repr(log)
    assert log.topics["orders"].partitions[1].offsets == range(9477)
    scan = log.scan(
        "orders",
        start="2025-10-09T08:54Z",
        end="2025-10-09T08:59Z",
        columns=["offset", "key", "value"],
        isolation="read_committed",
        where="key = 'customer-197' and offset < 5000",
        value_as="json",
    )
    expected = by_spark(
        place,
        ["offset", "key", "value"],
        subscribe="orders",
        startingtimestamp="1760000040000",
        endingtimestamp="1760000340000",
        valueas="json",
        where="key = 'customer-197' and offset < 5000",
        **{"kafka.isolation.level": "read_committed"},
    )
    assert expected.num_rows > 3
    found = scan.to_arrow()
    rows = found.to_pylist()
    assert rows == expected.to_pylist()
    assert scan.to_pandas()["offset"].tolist() == [row["offset"] for row in rows]
    assert scan.to_polars()["value"].to_list() == [row["value"] for row in rows]
    scan.to_duckdb("orders")
    assert duckdb.sql("select count(*) from orders").fetchall() == [(len(rows),)]
    assert scan.count() == len(rows)
    assert scan.head(5).to_pylist() == rows[:5]
    assert duckdb.sql("select count(*) from scan").fetchall() == [(len(rows),)]
    assert polars.DataFrame(scan).height == len(rows)

    assert not log.verify().ok
    assert log.transactions().to_arrow().num_rows > 10
    assert len(log.groups()) == 4
    assert log.batches("orders").count() == 210
    assert log.violations().count() == 1
    log.salvage(tmp_path / "salvaged")
    assert ottla.open(tmp_path / "salvaged").verify().ok
    log.convert(tmp_path / "converted", "orders", codec="zstd", level=9)
    log.compact(tmp_path / "compacted", "users")
    log.restore(tmp_path / "restored", "orders", end="2025-10-09T08:57Z", where="offset >= 10")
    restored = ottla.open(tmp_path / "restored").scan("orders", columns=["offset"]).to_arrow()
    assert min(restored["offset"].to_pylist()) == 10
    log.export(tmp_path / "exported", "orders", where="offset < 50")
    files = [*(tmp_path / "exported").rglob("*.parquet")]
    assert len(files) == 3


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_every_format_gives_the_rows_of_the_spark_source(place: Place, isolation: str) -> None:
    log = ottla.open(place.path, **place.storage)
    names = [*log.scan("mixed").schema.names]
    found = log.scan("mixed", isolation=isolation).to_arrow()
    given = {"subscribe": "mixed", "includeheaders": "true", "kafka.isolation.level": isolation}
    expected = by_spark(place, names, **given)
    assert found.num_rows > 1500
    assert found.equals(expected)
