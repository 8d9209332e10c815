"""A newcomer's path: a fresh clone, `make demo`, then each recipe of the README as printed."""

import os
import subprocess
from pathlib import Path

import pytest

from test_documents import SETTING_UP, blocks_of, commands_of

ROOT = Path(__file__).parent.parent


def run(*words: object, folder: Path, ends: tuple[int, ...] = (0,)) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode in ends, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.newcomer
def test_a_fresh_clone_runs_the_demo_and_then_the_recipes(tmp_path: Path) -> None:
    clone = tmp_path / "ottla"
    run("git", "clone", "--quiet", ROOT, clone, folder=tmp_path)
    shown = run("make", "demo", folder=clone)
    assert "Traceback" not in shown
    left = {path.name for path in (clone / "demo-out").iterdir()}
    assert {"kafka-logs", "salvaged", "cleaned", "parquet", "streamed", "report.html"} <= left
    installed = run(".venv/bin/python", "-m", "pip", "list", folder=clone)
    assert "pyspark" in installed
    assert "pytest" not in installed
    run_recipes(clone)
    assert (clone / "clicks.html").exists()
    assert (clone / "demo-out/salvaged-payments/payments-0").is_dir()


def run_recipes(clone: Path) -> None:
    """Python as it is, without activating anything; commands after it, as the README says."""
    for block in blocks_of(clone / "README.md"):
        if block.language == "python":
            run(".venv/bin/python", "-c", block.text, folder=clone)
            continue
        for command, _ in commands_of(block):
            if not command.startswith(SETTING_UP):
                # 1 is the answer of a command that found problems in the data.
                activated = f". .venv/bin/activate && {command}"
                run("bash", "-c", activated, folder=clone, ends=(0, 1))
