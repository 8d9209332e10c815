"""The same rows on two executors in processes of their own: what is shipped to them is enough."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import ottla
from jobs.topics import Written, write_topic
from spark.conftest import CONFIGURATION

pytestmark = pytest.mark.spark_long

MASTER = "local-cluster[2,1,1024]"
Line = tuple[int, int, bytes | None, bytes | None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(MASTER).config("spark.executor.memory", "512m")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    assert session.sparkContext.master == MASTER, "one pytest process per Spark master"
    yield session
    session.stop()
    # This mode writes there whatever SPARK_WORKER_DIR says.
    shutil.rmtree(Path(pyspark.__file__).parent / "work", ignore_errors=True)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def topic(logs: Path) -> list[Written]:
    """About 20 MB, so that every size cuts it otherwise."""
    return write_topic(logs, "orders", value_size=60_000)


def rows_of(topic: list[Written], *, committed: bool = False) -> list[Line]:
    return [
        (part.partition, row.offset, row.key, row.value)
        for part in topic
        for row in (part.committed() if committed else part.rows)
    ]


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("split", ["4k", "1m", "64m"])
def test_rows_are_the_same_for_every_split(
    cluster: SparkSession, logs: Path, topic: list[Written], split: str, level: str
) -> None:
    options = {"splitBytes": split, "kafka.isolation.level": level}
    frame = cluster.read.format("kafka-log").options(**options).load(str(logs))
    rows = frame.select("partition", "offset", "key", "value").collect()
    found = [
        (partition, offset, *(None if each is None else bytes(each) for each in data))
        for partition, offset, *data in rows
    ]
    expected = rows_of(topic, committed=level == "read_committed")
    assert sorted(found, key=lambda row: row[:2]) == expected


def test_a_zip_of_the_package_is_enough(logs: Path, topic: list[Written], tmp_path: Path) -> None:
    """In processes of their own, whose Python has everything but ottla."""
    archive = tmp_path / "ottla.zip"
    root = Path(ottla.__file__).parent
    with zipfile.ZipFile(archive, "w") as packed:
        for path in root.rglob("*"):
            if path.suffix in (".py", ".txt"):
                packed.write(path, path.relative_to(root.parent))
    python = tmp_path / "python"
    packages = Path(pyspark.__file__).parent.parent
    # -S keeps the .pth file away by which the project is installed for tests.
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    script = Path(__file__).with_name("zipped_query.py")
    run = subprocess.run(
        [python, script, archive, logs, MASTER],
        env={**os.environ, "PYSPARK_PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.stdout.split() == [str(len(rows_of(topic))), "True"], run.stderr
