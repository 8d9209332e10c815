"""A query that is killed again and again while a log grows: its sink holds each record once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

HERE = Path(__file__).parent
PATIENCE = 300


def start(script: str, errors: Path, *arguments: object) -> "subprocess.Popen[str]":
    paths = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    with errors.open("a") as stderr:
        return subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )


def committed_files(sink: Path) -> set[str]:
    """What the sink's own log says that it holds; a killed task leaves other files behind."""
    found = set()
    for log in (sink / "_spark_metadata").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            found.add(json.loads(line)["path"].removeprefix("file://"))
    return found


def wait_for_progress(sink: Path, before: int, query: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + PATIENCE
    while len(committed_files(sink)) <= before:
        assert query.poll() is None, "the query ended by itself, see the file `errors`"
        assert time.monotonic() < deadline, "the query makes no progress"
        time.sleep(0.2)


def sink_rows(sink: Path) -> list[tuple[int, int, str]]:
    tables = [pq.read_table(path, partitioning=None) for path in sorted(committed_files(sink))]
    return sorted(
        (row["partition"], row["offset"], row["value"].decode())
        for table in tables
        for row in table.to_pylist()
    )


def kill_and_restart(tmp_path: Path, times: int) -> tuple[int, int]:
    logs, sink, errors = tmp_path / "logs", tmp_path / "sink", tmp_path / "errors"
    logs.mkdir()
    with growing(logs, tmp_path / "stop", errors) as writer:
        for number in range(times):
            query = start("tailing_query.py", errors, logs, sink, "always")
            try:
                wait_for_progress(sink, len(committed_files(sink)), query)
                time.sleep(number % 5 / 4)
            finally:
                os.killpg(query.pid, signal.SIGKILL)
                query.wait()
    held = json.loads(writer.communicate(timeout=PATIENCE)[0])
    last = start("tailing_query.py", errors, logs, sink, "now")
    assert last.wait(timeout=PATIENCE) == 0, errors.read_text()
    expected = [
        (number, offset, value)
        for number, values in enumerate(held)
        for offset, value in enumerate(values)
    ]
    found = sink_rows(sink)
    assert found == expected
    return len(found), len({row[:2] for row in found})


@contextmanager
def growing(logs: Path, stop: Path, errors: Path) -> "Iterator[subprocess.Popen[str]]":
    writer = start("growing_log.py", errors, logs, stop, 7)
    try:
        yield writer
    finally:
        stop.touch()


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(3, marks=pytest.mark.spark_long),
        pytest.param(20, marks=pytest.mark.soak),
    ],
)
def test_a_killed_query_gives_each_record_exactly_once(
    tmp_path: Path, times: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, offsets = kill_and_restart(tmp_path, times)
    with capsys.disabled():
        print(f"\nkilled {times} times: {rows} rows, {offsets} different offsets")
