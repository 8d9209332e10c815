"""A newcomer's path: a fresh clone, `make demo`, then each recipe of the README as printed."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*words: object, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.newcomer
def test_a_fresh_clone_runs_the_demo_and_then_the_recipes(tmp_path: Path) -> None:
    clone = tmp_path / "ottla"
    run("git", "clone", "--quiet", ROOT, clone, folder=tmp_path)
    shown = run("make", "demo", folder=clone)
    assert "Traceback" not in shown
    left = {path.name for path in (clone / "demo-out").iterdir()}
    assert {"kafka-logs", "salvaged", "parquet", "report.html"} <= left
    recipes = "python tests/test_documents.py README.md"
    run("bash", "-c", f". .venv/bin/activate && {recipes}", folder=clone)
    assert (clone / "clicks.html").exists()
    assert (clone / "demo-out/salvaged-payments/payments-0").is_dir()
    assert (clone / "demo-out/zstd/clicks-0").is_dir()
