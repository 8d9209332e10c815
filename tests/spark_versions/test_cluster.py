"""A standalone cluster: executors that are killed, attempts that run twice, packages that travel.

Only on the newest Spark: what is under test here is ours, and it takes minutes.
"""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import pyspark
import pytest

import ottla
from jobs.plain import records_of, tree
from jobs.topics import Written, write_topic
from ottla.engine.local import LocalEngine
from ottla.publish.journal import open_journals
from ottla.spark.versions import minor_version
from spark_versions import cluster_query, shipped_query
from spark_versions.cluster import HOME, PATIENCE, Cluster, start_cluster, wait_for
from spark_versions.cluster_query import COUNT
from spark_versions.gates import DOOMED, SLOW

pytestmark = [
    pytest.mark.spark_versions,
    pytest.mark.skipif(
        minor_version(pyspark.__version__) < (4, 3), reason="only on the newest Spark"
    ),
]

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"


class Driver(NamedTuple):
    """A process that runs what is written to it."""

    process: subprocess.Popen[str]
    told: IO[str]
    says: IO[str]
    log: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster-logs") / "logs"


@pytest.fixture(scope="module")
def topic(logs: Path) -> list[Written]:
    return write_topic(logs, "orders", partitions=2)


@contextmanager
def start_driver(cluster: Cluster, log: Path) -> Iterator[Driver]:
    """An application that does what is written to it, a line for each operation."""
    paths = os.pathsep.join(map(str, [TESTS, TESTS / "kafka", ROOT]))
    environment = os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
    words = [sys.executable, cluster_query.__file__, cluster.url]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            bufsize=1,
        )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Driver(process, process.stdin, process.stdout, log)
        process.stdin.close()
        assert process.wait(timeout=PATIENCE) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def kill_in_the_middle(
    cluster: Cluster, driver: Driver, what: str, logs: Path, folder: Path
) -> Path:
    """Run an operation of which one executor is killed and one task is done twice."""
    gates, out = folder / "gates", folder / "out"
    gates.mkdir()
    driver.told.write(f"{what} {gates} {logs} {out}\n")
    waiting = [gates / f"{task}-0" for task in (SLOW, DOOMED)]
    wait_for(lambda: all(path.exists() for path in waiting), driver.process, driver.log)
    slow, doomed = (int(path.read_text()) for path in waiting)
    assert slow != doomed
    assert not out.exists() or list(out.iterdir()) == [], "nothing is half visible"
    started = cluster.executors_started()
    cluster.kill(doomed)
    assert driver.says.readline() == "done\n", driver.log.read_text()
    attempts = {path.name: int(path.read_text()) for path in gates.glob("[0-9]*")}
    # The retry ran on an executor that came in place of the killed one, the copy beside the other.
    assert attempts[f"{SLOW}-1"] != slow
    assert attempts[f"{DOOMED}-1"] != doomed
    assert cluster.executors_started() > started
    return out


def test_killed_executors_change_nothing(
    cluster: Cluster, logs: Path, topic: list[Written], tmp_path: Path
) -> None:
    """A read, a save, a job and one that shuffles, each with a kill and a task done twice."""
    before = tree(logs)
    with start_driver(cluster, tmp_path / "log") as driver:
        for what in ("read", "save", "convert", "compact"):
            (tmp_path / what).mkdir()
            out = kill_in_the_middle(cluster, driver, what, logs, tmp_path / what)
            if what == "read":
                check_read(out, topic)
            elif what == "save":
                check_saved(out)
            else:
                check_job(what, logs, out, tmp_path / what / "plain")
    assert tree(logs) == before


def check_read(out: Path, topic: list[Written]) -> None:
    expected = [
        [part.partition, row.offset, *map(to_hex, (row.key, row.value))]
        for part in topic
        for row in part.rows
    ]
    assert json.loads(out.read_text()) == expected


def to_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def check_saved(out: Path) -> None:
    assert sorted(path.name for path in out.iterdir()) == ["t-0", "t-1", "t-2"]
    held = [records_of(out / f"t-{number}") for number in range(3)]
    for records in held:
        assert [record[0] for record in records] == list(range(len(records)))
    values = sorted(int(record[3] or b"") for records in held for record in records)
    assert values == list(range(COUNT))
    assert open_journals(str(out)) == []


def check_job(what: str, logs: Path, out: Path, plain: Path) -> None:
    """The bytes of the same job in one process."""
    cluster_query.run_job(what, LocalEngine(), str(logs), str(plain))
    assert tree(out) == tree(plain) != {}
    assert open_journals(str(out)) == []


def test_a_command_runs_on_the_cluster(
    cluster: Cluster, logs: Path, topic: list[Written], tmp_path: Path
) -> None:
    words = ["-m", "ottla.cli", "verify", str(logs), "--master", cluster.url, "--json"]
    done = subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stderr.splitlines() == [f"ottla: verify runs on Spark: {cluster.url}"]
    assert done.returncode in (0, 1)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both packages as a zip."""
    path = tmp_path_factory.mktemp("shipped") / "ottla.zip"
    root = Path(ottla.__file__).parents[1]
    with zipfile.ZipFile(path, "w") as packed:
        for package in ("ottla", "pyspark_ottla"):
            for file in (root / package).rglob("*"):
                if file.suffix in (".py", ".txt"):
                    packed.write(file, file.relative_to(root))
    return path


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has ottla and what it needs, packed; Spark has PySpark."""
    folder = tmp_path_factory.mktemp("environment")
    python = folder / "environment/bin/python"
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    install = [python, "-m", "pip", "install", "--quiet", *constraints, ROOT, "pandas<3"]
    for words in ([sys.executable, "-m", "venv", folder / "environment"], install):
        subprocess.run([str(word) for word in words], check=True, timeout=1200)
    with tarfile.open(folder / "environment.tar.gz", "w:gz", compresslevel=1) as packed:
        # Spark refuses an entry `./`, and in a plain tar links that lead out of it.
        for path in (folder / "environment").iterdir():
            packed.add(path, arcname=path.name)
    return folder / "environment.tar.gz"


def submit(
    cluster: Cluster,
    logs: Path,
    out: Path,
    *words: str,
    folder: Path | None = None,
    **changes: str,
) -> dict:
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
    }
    configured = [f"--conf={name}={value}" for name, value in settings.items()]
    command = [HOME / "bin/spark-submit", "--master", cluster.url, *configured, *words]
    done = subprocess.run(
        [*map(str, command), shipped_query.__file__, str(logs), str(out)],
        cwd=folder,
        env=os.environ | {"SPARK_HOME": str(HOME)} | changes,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check_shipped(told: dict, topic: list[Written], out: Path) -> None:
    rows = [row for part in topic for row in part.rows]
    assert told["count"] == len(rows)
    held = [record[3] for part in topic for record in records_of(out / f"t-{part.partition}")]
    assert sorted(held, key=repr) == sorted((row.value for row in rows), key=repr)


def test_a_zip_of_the_packages_is_enough(
    cluster: Cluster, logs: Path, topic: list[Written], archive: Path, tmp_path: Path
) -> None:
    """For a Python that has what ottla needs, but not ottla: on the driver and on the workers."""
    python = tmp_path / "python"
    packages = Path(pyspark.__file__).parent.parent
    # -S keeps the .pth file away by which the project is installed for tests.
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    out = tmp_path / "out"
    told = submit(cluster, logs, out, "--py-files", str(archive), PYSPARK_PYTHON=str(python))
    check_shipped(told, topic, out)
    assert {"ottla.zip" in file for file, _, _ in told["places"]} == {True}
    assert {daemon for _, _, daemon in told["places"]} == {"pyspark.daemon"}


def test_an_environment_travels_as_an_archive(
    cluster: Cluster, logs: Path, topic: list[Written], environment: Path, tmp_path: Path
) -> None:
    """Workers run its Python and its daemon, and keep compiled kernels where they are told to."""
    out = tmp_path / "out"
    told = submit(
        cluster,
        logs,
        out,
        "--archives",
        f"{environment}#environment",
        "--conf=spark.python.daemon.module=ottla.spark.daemon",
        f"--conf=spark.executorEnv.NUMBA_CACHE_DIR={tmp_path / 'kernels'}",
        PYSPARK_PYTHON="./environment/bin/python",
        PYSPARK_DRIVER_PYTHON=sys.executable,
        folder=environment.parent,  # sources are planned by that Python beside the driver, too
    )
    check_shipped(told, topic, out)
    for file, python, daemon in told["places"]:
        assert "/environment/lib/" in file
        assert python.endswith("/environment/bin/python")
        assert daemon == "ottla.spark.daemon"
    assert list((tmp_path / "kernels").rglob("*.nbc"))
