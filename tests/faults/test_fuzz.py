"""Whole commands on damaged log directories: an answer or a refusal, never a fault of ours."""

import multiprocessing
import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

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
def test_commands_survive_damage(sound: Path) -> None:
    survive(range(RUNS), sound)


@pytest.mark.soak
def test_commands_survive_much_damage(sound: Path) -> None:
    survive(range(RUNS, SOAK_RUNS), sound)


def survive(seeds: range, sound: Path) -> None:
    first, last = os.environ.get("OTTLA_SEEDS", f"{seeds.start}:{seeds.stop}").split(":")
    chosen = range(int(first), int(last))
    # Not below pytest's folder: that one lets in nobody but its owner, and some forks are others.
    with TemporaryDirectory(prefix="ottla-fuzz-") as folder:
        Path(folder).chmod(0o711)
        with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
            run_one = partial(run_seed, sound=sound, folder=Path(folder))
            outcomes = zip(chosen, pool.imap(run_one, chosen, chunksize=4), strict=True)
            bad, seconds = {}, 0.0
            for seed, outcome in outcomes:
                seconds += outcome.cpu_seconds
                if not outcome.is_fine:
                    bad[seed] = outcome
                    print(f"fuzz: seed {seed}: {outcome}", flush=True)
                if seed % 1000 == 0:
                    print(f"fuzz: up to seed {seed}: {seconds:.0f} CPU seconds", flush=True)
    print(f"fuzz: {len(chosen)} runs, {seconds:.0f} CPU seconds, {len(bad)} bad")
    assert bad == {}
