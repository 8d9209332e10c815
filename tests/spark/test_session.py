"""Where commands run, with which Python, and what is heard of it."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from jobs.topics import write_topic
from ottla.errors import OptionError
from ottla.spark.start import choose_master, start_session


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("MASTER", raising=False)


def test_a_command_runs_on_this_machine_unless_told() -> None:
    assert choose_master(None) == "local[*]"


def test_the_flag_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER", "spark://one:7077")
    assert choose_master(None) == "spark://one:7077"
    assert choose_master("yarn") == "yarn"


def test_spark_submit_has_chosen_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "12345")
    assert choose_master(None) is None


def test_a_master_of_no_kind_is_refused_before_spark_starts() -> None:
    with pytest.raises(OptionError, match=r"'cluster:7077' is no Spark master: .* were not tried"):
        start_session("test", "cluster:7077")


def test_a_server_of_spark_connect_in_the_environment_is_refused_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1/;token=hunter2")
    with pytest.raises(OptionError, match="SPARK_REMOTE names a server") as refused:
        start_session("test")
    assert "hunter2" not in str(refused.value)


def run(*words: object, **changes: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env=kept | changes,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.spark
def test_a_command_on_spark_has_only_its_own_lines_on_stderr(tmp_path: Path) -> None:
    write_topic(tmp_path, "orders")
    done = run("-m", "ottla.cli", "verify", tmp_path, "--engine", "spark")
    assert done.returncode in (0, 1)
    assert done.stderr.splitlines() == ["ottla: verify runs on Spark: as asked"]


# Errors of Spark are lines of its JVM, which are passed on; the test is not told from Spark.
SESSION = """
import sys
import ottla.spark

spark = ottla.spark.session("local[2]", settings={"spark.sql.shuffle.partitions": "3"})
print(spark.read.format("kafka-log").load(sys.argv[1]).count())
print(spark.conf.get("spark.sql.shuffle.partitions"))
err = spark.sparkContext._jvm.java.lang.System.err
err.println("WARNING: of a JVM")
err.println("12:00:00 ERROR of Spark")
assert ottla.spark.session() is spark
spark.stop()
"""


@pytest.mark.spark
def test_a_session_needs_no_environment_that_is_activated(tmp_path: Path) -> None:
    topic = write_topic(tmp_path, "orders")
    folders = os.environ["PATH"].split(os.pathsep)
    ours = str(Path(sys.executable).parent)
    path = os.pathsep.join(folder for folder in folders if folder != ours)
    done = run("-c", SESSION, tmp_path, PATH=path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(sum(len(part.rows) for part in topic)), "3"]
    assert done.stderr.splitlines() == ["12:00:00 ERROR of Spark"]


def test_workers_without_ottla_are_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "other", with_pip=False)
    python = str(tmp_path / "other" / "bin" / "python")
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError) as refused:
        start_session("test", "local[1]")
    said = f"the Python of Spark's workers ({python}) lacks ottla or PySpark: install there"
    assert said in str(refused.value)


def test_without_pyspark_there_is_a_sentence_when_a_session_is_asked_for() -> None:
    script = """
import sys
sys.modules["pyspark"] = sys.modules["py4j"] = None
from ottla.errors import OptionError
try:
    import ottla.spark
    ottla.spark.session()
except OptionError as error:
    print(error)
"""
    done = run("-c", script)
    assert "needs Spark" in done.stdout, done.stderr
