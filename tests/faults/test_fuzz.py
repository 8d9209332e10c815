"""Whole commands on damaged log directories: an answer or a refusal, never a fault of ours."""

import os
from pathlib import Path

import pytest

from cli.here import run
from faults.fuzzing import make_logs, run_seed

RUNS, SOAK_RUNS = 300, 20_000


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound logs; every command ran on them once, so that forks find kernels compiled."""
    root = tmp_path_factory.mktemp("sound")
    make_logs(root / "logs")
    warm = tmp_path_factory.mktemp("warm")
    for name in ("ls", "dump", "verify", "report", "transactions", "groups"):
        run(name, root / "logs")
    for name in ("salvage", "export", "convert", "restore", "compact"):
        run(name, root / "logs", warm / name)
    return root


@pytest.mark.faults
def test_commands_survive_damage(sound: Path, tmp_path: Path) -> None:
    survive(range(RUNS), sound, tmp_path)


@pytest.mark.soak
def test_commands_survive_much_damage(sound: Path, tmp_path: Path) -> None:
    survive(range(RUNS, SOAK_RUNS), sound, tmp_path)


def survive(seeds: range, sound: Path, folder: Path) -> None:
    first, last = os.environ.get("OTTLA_SEEDS", f"{seeds.start}:{seeds.stop}").split(":")
    outcomes = {seed: run_seed(seed, sound, folder) for seed in range(int(first), int(last))}
    assert {seed: one for seed, one in outcomes.items() if not one.is_fine} == {}
