"""Kernels stay inside their padding: damaged inputs between pages that may not be touched."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    # Interpreted kernels check their indexes themselves, and slowly.
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), "NUMBA_DISABLE_JIT": "0"}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
        env=environment,
    )


@pytest.mark.parametrize(
    ("seed", "count"),
    [
        pytest.param(1, 26_000, id="tenth"),
        pytest.param(2, 260_000, id="full", marks=pytest.mark.soak),
    ],
)
def test_damaged_segments_never_make_a_kernel_leave_its_buffers(seed: int, count: int) -> None:
    done = run(str(FOLDER / "guard_pages.py"), str(seed), str(count))
    assert done.returncode == 0, done.stderr
    with_rows, with_errors = map(int, done.stdout.split())
    assert with_rows > count // 10
    assert with_errors > count // 10


def test_damaged_streams_never_make_a_kernel_leave_its_buffers() -> None:
    count = 20_000
    done = run(str(FOLDER / "guard_pages.py"), "streams", "3", str(count))
    assert done.returncode == 0, done.stderr
    assert min(map(int, done.stdout.split())) > count // 5


def test_an_encoder_never_leaves_the_room_that_it_took() -> None:
    done = run(str(FOLDER / "guard_pages.py"), "batches", "4", "5000")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5000


@pytest.mark.parametrize("at", ["array.size", "-1"])
def test_a_byte_outside_the_guard_pages_kills_the_process(at: str) -> None:
    peek = f"ctypes.string_at(array.ctypes.data + ({at}), 1)"
    done = run("-c", f"import ctypes, guard_pages; array = guard_pages.guarded(4096); {peek}")
    assert done.returncode == -signal.SIGSEGV
