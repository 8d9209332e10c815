"""Jobs give the same on one core, on two, and on executors in processes of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from spark import jobs_on_master

pytestmark = pytest.mark.spark_long

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("master", ["local[1]", "local[2]", "local-cluster[2,1,1024]"])
def test_jobs_give_the_same_as_one_process(tmp_path: Path, master: str) -> None:
    paths = os.pathsep.join([str(TESTS), str(TESTS / "kafka"), str(TESTS.parent)])
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths}
    command = [sys.executable, jobs_on_master.__file__, master, str(tmp_path)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    finally:
        # Executors of local-cluster write there whatever SPARK_WORKER_DIR says.
        shutil.rmtree(Path(pyspark.__file__).parent / "work", ignore_errors=True)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["the same"]), done
