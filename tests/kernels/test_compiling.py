"""A process compiles what it needs, for one signature each, and lets other people's kernels be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.jobs.demo import make_logs
from ottla.notices import Compiling

COUNT = """
import gc, io, sys
import pyarrow as pa
from numba.core.base import BaseContext
import ottla
from ottla.cli import main
from ottla.kernels._compiler import _LowerPlainIndexes
from ottla.kernels._jit import _Kernel

lowering, lower, compile_helper = [], _LowerPlainIndexes.run_pass, BaseContext.compile_internal
def run_pass(self, state):
    lowering.append(state.func_id.func_name)
    done = lower(self, state)
    lowering.pop()
    return done
def compile_internal(self, builder, helper, *more):
    if lowering:
        print("HELPER", helper.__name__, "in", lowering[-1], file=sys.stderr)
    return compile_helper(self, builder, helper, *more)
_LowerPlainIndexes.run_pass, BaseContext.compile_internal = run_pass, compile_internal

sys.stdout = open("/dev/null", "w")
main(["dump", "--format", "text", sys.argv[1]])
main(["ls", sys.argv[1]])
main(["transactions", sys.argv[1]])
main(["verify", sys.argv[1]])
uuid = {"type": "string", "logicalType": "uuid"}
row = {"type": "record", "name": "r", "fields": [{"name": "a", "type": uuid}]}
ottla.decode(pa.array([b"\\x48" + b"a" * 36]), row)
ottla.decode(pa.array([b"\\0\\0\\0\\0\\1\\x48" + b"a" * 36]), row, wire="confluent")
for one in gc.get_objects():
    if isinstance(one, _Kernel) and len(one.overloads) > 1:
        print("TWIN", one.py_func.__module__, one.py_func.__name__, file=sys.stderr)
    if isinstance(one, _Kernel) and one.overloads:
        print("COMPILED", one.py_func.__name__, file=sys.stderr)
"""
OTHERS = """
import numpy as np
from numba import config, njit
from ottla.kernels.bytes.crc import crc32c

@njit(cache=True)
def theirs(numbers):
    return numbers[-1]

crc32c(np.zeros(8, np.uint8), 0, 8)
assert theirs(np.arange(3)) == 2 and not config.CACHE_DIR
"""
BOUNDS = """
import sys
import numpy as np
from ottla.kernels._jit import called, inlined, kernel

@called
def apart(numbers, index):
    return numbers[index]

@inlined
def within(numbers, index):
    return numbers[index]

@kernel
def read(numbers, index):
    return numbers[index]

@kernel
def read_apart(numbers, index):
    return apart(numbers, index)

@kernel
def read_within(numbers, index):
    return within(numbers, index)

for ours in (read, read_apart, read_within):
    assert ours(np.arange(3), 2) == 2
    for index in (-1, 3):
        try:
            ours(np.arange(3), index)
        except IndexError:
            continue
        sys.exit(f"{ours} {index}")
"""


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    settings = kept | {"NUMBA_DISABLE_JIT": "0"} | environment
    return subprocess.run(
        [sys.executable, *words], env=settings, capture_output=True, text=True, check=True
    )


def test_every_function_compiles_for_one_signature_and_not_in_silence(tmp_path: Path) -> None:
    make_logs(str(tmp_path / "logs"))
    script = tmp_path / "count.py"
    script.write_text(COUNT)
    done = run(str(script), str(tmp_path / "logs"), NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    lines = done.stderr.splitlines()
    # Not with indexes as kernels have them: Numba may use others in functions of its own.
    assert [line for line in lines if line.startswith(("TWIN", "HELPER"))] == []
    assert lines.count("ottla: compiling kernels for this machine, once") == 1
    compiled = {line.split()[1] for line in lines if line.startswith("COMPILED")}
    assert {"render_text", "gather", "walk", "walk_markers"} <= compiled
    assert "render_json" not in compiled


def test_kernels_of_others_are_kept_where_they_were(tmp_path: Path) -> None:
    script = tmp_path / "others.py"
    script.write_text(OTHERS)
    run(str(script))
    assert list((tmp_path / "__pycache__").glob("others.theirs-*.nbi"))


@pytest.mark.parametrize(("quiet", "lines"), [(False, 1), (True, 0)])
def test_what_takes_longer_than_a_moment_is_told_once_unless_asked_for_quiet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, quiet: bool, lines: int
) -> None:
    compiling = Compiling()
    compiling.quiet = quiet
    for second in (0.0, 0.5):
        monkeypatch.setattr("time.monotonic", lambda second=second: second)
        compiling.go_on()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("time.monotonic", lambda: 2.0)
    compiling.go_on()
    compiling.go_on()
    assert capsys.readouterr().err.count("\n") == lines


def test_an_index_below_zero_raises_where_bounds_are_checked(tmp_path: Path) -> None:
    script = tmp_path / "bounds.py"  # Numba keeps no code of a script that has no file
    script.write_text(BOUNDS)
    run(str(script), NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
