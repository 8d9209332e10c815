"""Spark Connect: source and sink from a client that has nothing of ottla, and from one that has."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from jobs.plain import records_of
from jobs.topics import Written, write_topic
from spark.conftest import CONFIGURATION
from spark_versions import connect_client
from spark_versions.cluster import wait_for

pytestmark = pytest.mark.spark_versions

HOME = Path(pyspark.__file__).parent
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect") / "logs"


@pytest.fixture(scope="module")
def topic(logs: Path) -> list[Written]:
    return write_topic(logs, "orders", partitions=2)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server as an administrator starts one, with the settings that only it can have."""
    folder = tmp_path_factory.mktemp("server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = CONFIGURATION | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.log.level": "INFO",
    }
    words = [f"--conf={name}={value}" for name, value in settings.items()]
    # As start-connect-server.sh does, which PySpark 4.0 does not have.
    command = [HOME / "bin/spark-submit", "--class", SERVER, "--master", "local[2]", *words]
    environment = os.environ | {"SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable}
    log = folder / "log"
    with log.open("wb") as output:
        running = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        wait_for(lambda: "Spark Connect server started at" in log.read_text(), running, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize(
    ("way", "thin"), [("local[2]", "thin"), ("server", "thin"), ("api-mode", "full")]
)
def test_source_and_sink_work_from_a_client(
    way: str,
    thin: str,
    logs: Path,
    topic: list[Written],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    url = request.getfixturevalue("server") if way == "server" else way
    words = [sys.executable, connect_client.__file__, url, thin, str(logs), str(tmp_path)]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    rows = [row for part in topic for row in part.rows]
    sizes = sum(len(row.value or b"") for row in rows)
    assert told["read"] == [len(rows), sum(row.offset for row in rows), sizes]
    assert told["offsets"] == len(rows)
    for name in ("saved", "copied"):
        records = records_of(tmp_path / name / "t-0")
        assert [record[0] for record in records] == list(range(300))
        assert sorted(int(record[3] or b"") for record in records) == list(range(300))
    if thin == "full":
        assert told["count"] == told["scanned"] == len(rows)
        assert "is one of Spark Connect: source and sink work there, jobs do not" in told["refused"]
        held = [len(records_of(tmp_path / "written" / f"w-{number}")) for number in range(2)]
        assert sum(held) == len(rows)
