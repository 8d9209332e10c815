"""The examples of `--help` run as they are printed."""

import argparse
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import builders
from builders import Row
from cli.command import run
from golden import GOLDEN
from ottla.cli import COMMANDS, GROUPS, main, warm
from ottla.cli.parsers import dump, inspect
from ottla.jobs.demo import make_logs


def examples(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.startswith("  ottla ")]


@pytest.mark.parametrize("command", examples(dump.EXAMPLES) + examples(inspect.EXAMPLES))
def test_an_example_runs(tmp_path: Path, command: str) -> None:
    rows = [Row(at, at, b"user-7", b"value", ((b"trace-id", b"abc"),)) for at in range(20)]
    for folder in ("orders-0", "__consumer_offsets-0"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "00000000000000000000.log"
        path.write_bytes(builders.batch(rows[:1]) + builders.batch(rows[1:]))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        check=False,
        timeout=120,
    )
    # Where no kernel is kept yet, people are told what they wait for.
    assert set(done.stderr.splitlines()) <= {b"ottla: compiling kernels for this machine, once"}
    # The one that looks for errors finds none.
    assert (done.returncode, done.stdout == b"") == ((1, True) if "grep" in command else (0, False))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder with what `ottla demo --out demo-out` leaves, and a broker's `kafka-logs`."""
    make_logs(str(tmp_path / "demo-out" / "kafka-logs"))
    shutil.copytree(GOLDEN / "kafka-4.3", tmp_path / "kafka-logs")
    return tmp_path


@pytest.mark.parametrize("command", ["ls", "transactions", "append", "groups", "topics"])
def test_the_examples_of_a_command_in_one_process_run(
    logs: Path, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(logs)
    with pytest.raises(SystemExit):
        main([command, "--help"])
    lines = examples(capsys.readouterr().out.replace("\\\n", " "))
    shown = [line.split() for line in lines if line != "ottla demo --out demo-out"]
    assert shown
    for words in shown:
        # One transaction of the demo hangs.
        ran = run(*words[1 : words.index(">") if ">" in words else None])
        assert ran.status == int(command == "transactions"), words
        assert ran.out


@pytest.mark.parametrize(
    ("command", "statuses"), [("clone", [0, 0]), ("diff", [0, 1])], ids=["clone", "diff"]
)
def test_the_examples_of_clones_and_replicas_run(
    logs: Path,
    command: str,
    statuses: list[int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(logs)
    with pytest.raises(SystemExit):
        main([command, "--help"])
    lines = examples(capsys.readouterr().out.replace("\\\n", " "))
    shown = [line.split()[1:] for line in lines if line != "ottla demo --out demo-out"]
    assert [run(*words).status for words in shown] == statuses


def test_the_help_of_every_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"ottla {command} " in capsys.readouterr().out.partition("example")[2], command


def test_every_command_is_in_one_group_of_the_overview() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)


def test_the_overview_shows_groups_commands_and_exit_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert shown.startswith("usage: ottla [-h] [--version] COMMAND ...")
    assert "\nCheck and repair:\n  verify " in shown
    assert "\n  2             wrong usage or environment\n" in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_help_waits_for_nothing_heavy(command: str) -> None:
    script = (
        "import sys, contextlib\n"
        "from ottla.cli import main\n"
        "with contextlib.suppress(SystemExit): main([sys.argv[1], '--help'])\n"
        "print({'numba', 'pyarrow', 'numpy', 'rich', 'pyspark'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, command], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: ")
    assert done.stdout.splitlines()[-1] == "set()"


def test_warm_runs_every_job() -> None:
    """With the kernels that are kept; a line that no command takes would end with 2."""
    run_by_engine = {name for name in COMMANDS if "--engine" in _flags(name)}
    assert run_by_engine <= {line.split()[0] for line in warm.LINES}
    assert main(["warm", "--quiet"]) == 0


def _flags(command: str) -> set[str]:
    subparsers = argparse.ArgumentParser().add_subparsers()
    importlib.import_module(f"ottla.cli.parsers.{command}").add_parser(subparsers, "a summary")
    return set(subparsers.choices[command].format_help().split())
