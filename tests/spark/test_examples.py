"""The Spark examples run as they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.topics import write_topic

pytestmark = pytest.mark.spark_long

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def run(script: str, *arguments: Path) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments],
        env={name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_reading_example_counts_every_partition(tmp_path: Path) -> None:
    topic = write_topic(tmp_path, "orders")
    shown = run("spark_read.py", tmp_path)
    for part in topic:
        assert f"|orders|{part.partition}        |" in shown
        assert str(len(part.rows)) in shown


def test_the_streaming_example_goes_on_where_it_stopped(tmp_path: Path) -> None:
    logs, sink = tmp_path / "logs", tmp_path / "sink"
    (first,) = write_topic(logs, "orders", partitions=1)
    assert run("spark_stream.py", logs, sink).split()[-1] == str(len(first.rows))
    (second,) = write_topic(logs, "returns", partitions=1)
    counts = {
        line.split()[1]: line.split()[-1]
        for line in run("spark_stream.py", logs, sink).splitlines()[1:]
    }
    assert counts == {"orders": str(len(first.rows)), "returns": str(len(second.rows))}


def test_the_examples_make_their_own_logs_where_none_are_named() -> None:
    assert "|orders|2        |" in run("spark_read.py")
    assert "orders" in run("spark_stream.py")
