"""What a command that only looks does not wait for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import builders
from builders import Row

PROGRAM = """
import json, sys
from ottla.cli import main

code = main(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""
# Of jobs, of predicates, of what Arrow imports if anybody makes an array of a list.
NOT_NEEDED = {"ottla.jobs.engine", "ottla.jobs.output", "pyarrow.compute", "pandas", "pyspark"}


@pytest.mark.parametrize("style", ["text", "jsonl"])
def test_a_dump_imports_nothing_that_it_does_not_need(tmp_path: Path, style: str) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(builders.batch([Row(0, 5, b"ada", b"tea")]))
    command = [sys.executable, "-c", PROGRAM, "dump", "--format", style, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert (code, NOT_NEEDED & set(modules)) == (0, set())
    assert "ottla.dump.lines" in modules
