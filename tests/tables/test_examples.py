"""The notebook, the scripts without Spark, and the examples of docstrings run as they are."""

import doctest
import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pyarrow as pa
import pytest
from nbclient import NotebookClient

import ottla
from ottla.tables import log, scan

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = EXAMPLES / "logs.ipynb"


@pytest.mark.spark_long
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.delenv("MPLBACKEND", raising=False)  # a kernel shows plots by itself
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    client = NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = json.dumps(notebook.cells)
    assert "image/png" in shown
    assert "<caption>" in shown
    assert "crc-matches" in shown


def test_the_notebook_is_kept_without_what_it_shows() -> None:
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_script_runs_without_arguments() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "tables.py"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert "crc-matches" in done.stdout
    assert "'other': 0}" in done.stdout


@pytest.mark.parametrize("module", [log, scan], ids=["log", "scan"])
def test_examples_of_docstrings_run(
    module: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kafka-logs/orders-0").mkdir(parents=True)
    tea = pa.table({"key": [b"ada", b"bob", b"ada"], "value": [b"tea", b"ink", None]})
    segment = tmp_path / "kafka-logs/orders-0" / f"{0:020d}.log"
    ottla.write_segment(tea.to_batches(), segment)
    monkeypatch.chdir(tmp_path)
    names = {"ottla": ottla, "log": ottla.open("kafka-logs")}
    names["scan"] = names["log"].scan("orders")  # type: ignore[attr-defined]
    done = doctest.testmod(module, extraglobs=names)  # type: ignore[arg-type]
    assert done.attempted > 2
    assert done.failed == 0
