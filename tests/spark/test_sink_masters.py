"""The sink writes the same bytes on one core, on two, on executors, and without Spark."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from jobs.plain import tree
from ottla.jobs.write.commit import begin_writing, commit_rows, save_job
from ottla.jobs.write.stage import stage_rows
from ottla.options.write import parse_write_options
from spark import sink_on_master
from spark.sink_on_master import OPTIONS, SAVES, rows_of_tasks

pytestmark = pytest.mark.spark_long

TESTS = Path(__file__).parents[1]


def save_plainly(out: Path, name: str) -> None:
    writing = begin_writing(parse_write_options({"path": str(out), "writeId": name} | OPTIONS))
    job = save_job(writing.options)
    tasks = [stage_rows(job, writing, task, [rows]) for task, rows in enumerate(rows_of_tasks())]
    commit_rows(job, writing, tasks)


@pytest.mark.parametrize("master", ["local[1]", "local[2]", "local-cluster[2,1,1024]"])
def test_the_sink_gives_the_same_as_one_process(tmp_path: Path, master: str) -> None:
    for name in SAVES:
        save_plainly(tmp_path / "plain", name)
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, sink_on_master.__file__, master, str(tmp_path / "out")]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    finally:
        # Executors of local-cluster write there whatever SPARK_WORKER_DIR says.
        shutil.rmtree(Path(pyspark.__file__).parent / "work", ignore_errors=True)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["saved"]), done
    expected = tree(tmp_path / "plain")
    assert len(expected) > 50
    assert tree(tmp_path / "out") == expected
